"""Leaders of partitions all of whose eligible replicas stopped uncleanly (KIP-966, unclean recovery).

Each of these may have lost records, and nobody knows which one. So they are asked how far their logs reach,
and whose log reaches furthest leads. `LeaderRecovery` is soft state: it knows whom to ask and what they said,
and begins anew with each lead. `RecoverLeaders` is the command.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from everlog.controller.decisions import Decision, Standing
from everlog.controller.elections import LogEnd, needs_recovery, with_recovered_leader
from everlog.controller.partition_changes import (
    CHANGES_PER_DECISION,
    PartitionRef,
    Rules,
    change_record,
    concerned_partitions,
)
from everlog.metadata.image import BrokerImage, ClusterImage, PartitionImage
from everlog.model.dataclass import dataclass
from everlog.model.ids import NO_EPOCH, BrokerId, Instant
from everlog.wire.message import Message

PARTITIONS_PER_QUESTION: Final = 200
"""How many partitions one question is about; answering it opens logs."""
ASK_AGAIN_MS: Final = 100
"""How long to wait before somebody is asked again who had no answer, or not for all."""
LATECOMERS_MS: Final = 2_000
"""How long replicas that need not have everything are waited for once those have answered that should."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a replica said of its log."""

    broker_epoch: int
    """The life in which it said so: after another unclean stop it may have less."""
    log: LogEnd


Ends = Mapping[PartitionRef, Mapping[int, Said]]
"""By partition and broker, what replicas said."""


@dataclass(frozen=True, slots=True)
class RecoverLeaders:
    """Let those lead whose logs reach furthest; the reply is how many partitions have a leader by that."""

    ends: Ends

    def decide(self, standing: Standing) -> Decision[int]:
        """Decide on each alone; one that has changed since its replicas were asked stays as it is."""
        rules = Rules(standing)
        records: list[Message] = []
        for ref, said in self.ends.items():
            found = find_partition(standing.image, ref)
            if found is None:
                continue
            topic, before = found
            after = with_recovered_leader(before, valid(standing.image, said), rules.of(topic))
            if after is not None:
                records.append(change_record(ref.topic_id, ref.number, before, after))
        return Decision(tuple(records), len(records))


def valid(image: ClusterImage, said: Mapping[int, Said]) -> dict[int, LogEnd]:
    """What was said by brokers that are still in the same life."""
    return {
        broker: one.log
        for broker, one in said.items()
        if (known := image.brokers.get(BrokerId(broker))) is not None and known.epoch == one.broker_epoch
    }


def find_partition(image: ClusterImage, ref: PartitionRef) -> tuple[str, PartitionImage] | None:
    """The name of its topic, and the partition; None if there is none by now."""
    topic = image.topics_by_id.get(ref.topic_id)
    if topic is None or not 0 <= ref.number < len(topic.partitions):
        return None
    return topic.name, topic.partitions[ref.number]


@dataclass(slots=True)
class _Case:
    """One partition that waits for its replicas."""

    partition: PartitionImage
    said: dict[int, Said] = field(default_factory=dict[int, Said])
    enough_at: Instant | None = None
    """Since when all have answered that were eligible last."""


class LeaderRecovery:
    """Whom to ask about which partitions, and when enough is known."""

    def __init__(self) -> None:
        self._cases: dict[PartitionRef, _Case] = {}
        self._seen: Mapping[BrokerId, BrokerImage] | None = None
        """The brokers when all partitions were last looked at."""

    def begin(self) -> None:
        """Begin anew, as one that has just taken the lead."""
        self._cases.clear()
        self._seen = None

    @property
    def waits_for(self) -> dict[PartitionRef, list[int]]:
        """By partition, those that were eligible last and have not answered."""
        return {
            ref: [one for one in case.partition.last_known_eligible if one not in case.said]
            for ref, case in self._cases.items()
        }

    @property
    def ends(self) -> Ends:
        """What has been said of partitions that have no leader yet."""
        return {ref: case.said for ref, case in self._cases.items()}

    def look(self, image: ClusterImage) -> bool:
        """Find what needs to be recovered, or does no more; returns whether anything does."""
        # Partitions come to need it when brokers have changed: only then all are looked at.
        if image.brokers != self._seen:
            self._seen = image.brokers
            concerned = concerned_partitions(image, needs_recovery)
            found = {PartitionRef(topic.id, number): partition for topic, number, partition in concerned}
        else:
            still = {ref: find_partition(image, ref) for ref in self._cases}
            found = {ref: one[1] for ref, one in still.items() if one is not None and needs_recovery(one[1])}
        self._cases = {ref: self._case(ref, partition) for ref, partition in found.items()}
        return bool(self._cases)

    def _case(self, ref: PartitionRef, partition: PartitionImage) -> _Case:
        known = self._cases.get(ref)
        if known is None or known.partition.leader_epoch != partition.leader_epoch:
            return _Case(partition)
        known.partition = partition
        return known

    def questions(self, image: ClusterImage) -> Iterator[tuple[BrokerId, list[PartitionRef]]]:
        """By broker that is alive, the partitions of which it has not said yet what it has of them."""
        asked: dict[BrokerId, list[PartitionRef]] = {}
        alive = {broker.id: broker.epoch for broker in image.active_brokers()}
        for ref, case in self._cases.items():
            for one in case.partition.replicas:
                broker = BrokerId(one)
                said = case.said.get(one)
                if broker in alive and (said is None or said.broker_epoch != alive[broker]):
                    asked.setdefault(broker, []).append(ref)
        for broker, refs in asked.items():
            yield broker, refs[:PARTITIONS_PER_QUESTION]

    def answered(
        self, broker: BrokerId, broker_epoch: int, ref: PartitionRef, leader_epoch: int, log: LogEnd
    ) -> None:
        """Take in what a replica said; one that knows of another leader epoch may still be copying."""
        case = self._cases.get(ref)
        if case is not None and leader_epoch == case.partition.leader_epoch:
            if log.last_epoch > leader_epoch:
                # Nobody has led in that epoch: it is damaged, and nobody can tell what else is.
                log = LogEnd(NO_EPOCH, log.end)
            case.said[int(broker)] = Said(broker_epoch, log)

    def ready(self, image: ClusterImage, now: Instant) -> RecoverLeaders | None:
        """The command for the partitions of which enough is known; None if there are none."""
        chosen: dict[PartitionRef, Mapping[int, Said]] = {}
        for ref, case in self._cases.items():
            said = valid(image, case.said)
            if any(one not in said for one in case.partition.last_known_eligible):
                case.enough_at = None
                continue
            if case.enough_at is None:
                case.enough_at = now
            others = [one for one in case.partition.replicas if BrokerId(one) in image.brokers]
            if all(one in said for one in others) or now >= case.enough_at + LATECOMERS_MS:
                chosen[ref] = case.said
                if len(chosen) == CHANGES_PER_DECISION:
                    break
        return RecoverLeaders(chosen) if chosen else None

    def done(self, command: RecoverLeaders) -> None:
        """A command was decided: what it was about is looked at anew."""
        for ref in command.ends:
            self._cases.pop(ref, None)
        self._seen = None
