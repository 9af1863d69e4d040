"""Balance: leaders go back to the first of their replicas by themselves (`auto.leader.rebalance.enable`)."""

import logging
from collections import Counter

from everlog.controller.decisions import Decision, More, Standing
from everlog.controller.elections import with_preferred_leader
from everlog.controller.fencing import Decider
from everlog.controller.partition_changes import Rules, change_record, concerned_partitions
from everlog.metadata.image import ClusterImage, PartitionImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import Instant
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.wire.message import Message

_log = logging.getLogger(__name__)

ELECTIONS_PER_DECISION = 1_000
"""As in Kafka: each lead that moves costs its clients a moment."""


@dataclass(frozen=True, slots=True)
class BalanceLeaders:
    """Elect the preferred leaders of brokers that lead too few of the partitions that they should.

    The reply is `MORE` if there may be others that can be elected at once.
    """

    limit: int = ELECTIONS_PER_DECISION

    def decide(self, standing: Standing) -> Decision[More | None]:
        """Elect, `limit` at most, those that are in sync and alive; nothing where the setting says no."""
        if not standing.settings[keys.AUTO_LEADER_REBALANCE_ENABLE]:
            return Decision((), None)
        image = standing.image
        owed = owed_leads(image, standing.settings[keys.LEADER_IMBALANCE_PER_BROKER_PERCENTAGE])
        if not owed:
            return Decision((), None)
        rules = Rules(standing)
        records: list[Message] = []
        for topic, number, partition in concerned_partitions(
            image, lambda one: one.leader != one.replicas[0] and one.replicas[0] in owed
        ):
            after = with_preferred_leader(partition, rules.of(topic.name))
            if after is None:
                continue
            if len(records) == self.limit:
                return Decision(tuple(records), More())
            records.append(change_record(topic.id, number, partition, after))
        return Decision(tuple(records), None)


def owed_leads(image: ClusterImage, percentage: int) -> frozenset[int]:
    """The brokers of whose preferred partitions others lead more than `percentage` of a hundred."""
    preferred: Counter[int] = Counter()
    elsewhere: Counter[int] = Counter()
    for topic in image.topics.values():
        for partition in topic.partitions:
            _count(partition, preferred, elsewhere)
    return frozenset(
        broker for broker, count in elsewhere.items() if count * 100 > percentage * preferred[broker]
    )


def _count(partition: PartitionImage, preferred: Counter[int], elsewhere: Counter[int]) -> None:
    first = partition.replicas[0]
    preferred[first] += 1
    if partition.leader != first:
        elsewhere[first] += 1


class Balancer:
    """When the active controller looks after the balance: an interval after it took the lead, and so on."""

    def __init__(self, decider: Decider, settings: BrokerSettings) -> None:
        self._decider = decider
        self._interval_ms = settings[keys.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS] * 1000
        self._enabled = settings[keys.AUTO_LEADER_REBALANCE_ENABLE]
        self._due: Instant | None = None
        self._at_work = False

    def begin(self, now: Instant) -> None:
        """This node has taken the lead."""
        if self._enabled:
            self._due = Instant(now + self._interval_ms)

    def deadline(self) -> Instant | None:
        """When it wants to be ticked; None if never."""
        return self._due

    def tick(self, now: Instant) -> None:
        """Look, if it is time; only while this node leads."""
        if self._due is None or now < self._due:
            return
        self._due = Instant(now + self._interval_ms)
        if not self._at_work:
            self._at_work = True
            self._decider.submit(BalanceLeaders(), self._decided)

    def _decided(self, reply: More | Refused | StorageError | None) -> None:
        if isinstance(reply, More):
            self._decider.submit(BalanceLeaders(), self._decided)
            return
        self._at_work = False
        if reply is not None:
            _log.info("leads were not balanced: %s", reply)
