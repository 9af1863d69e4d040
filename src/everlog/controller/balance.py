"""Balance: leaders go back to the first of their replicas by themselves (`auto.leader.rebalance.enable`)."""

from collections import Counter
from dataclasses import dataclass

from everlog.controller.decisions import Decision, More, Standing
from everlog.controller.elections import with_preferred_leader
from everlog.controller.partition_changes import Rules, change_record, concerned_partitions
from everlog.metadata.image import ClusterImage, PartitionImage
from everlog.model.settings import broker_table as keys
from everlog.wire.message import Message

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
