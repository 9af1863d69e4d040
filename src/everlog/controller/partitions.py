"""Partitions: who holds new ones, how many there may be, and adding them to a topic."""

from collections import Counter
from collections.abc import Iterable, Sequence

from everlog.controller.decisions import Decision, Refusal, Standing, check_not_too_many
from everlog.controller.placement import check_replication, directories_of, place_new
from everlog.metadata.image import BrokerImage, ClusterImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Uuid
from everlog.model.settings import broker_table as keys
from everlog.wire.message import Message
from everlog.wire.messages.partition_record import PartitionRecord

MAX_PARTITIONS_PER_COMMAND = 10_000
"""As in Kafka: a command that makes more would hold up everybody else for too long."""


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """The number of partitions that somebody wants an existing topic to have."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None
    """The replicas of each new partition, where they are placed by hand."""


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Add partitions to topics; the reply says None for each name where it is done, in order."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False

    def decide(self, standing: Standing) -> Decision[dict[str, Refusal | None]]:
        """Decide on each topic alone; the limits on partitions count all that are accepted."""
        check_not_too_many(self.topics, "topics")
        times = Counter(topic.name for topic in self.topics)
        reply: dict[str, Refusal | None] = {}
        records: list[Message] = []
        budget = PartitionBudget(standing)
        for topic in self.topics:
            try:
                if times[topic.name] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, f"the topic {topic.name!r} is named twice")
                records.extend(_more_partitions(topic, standing, budget))
            except Refused as refused:
                reply[topic.name] = Refusal(refused.code, str(refused))
                continue
            reply[topic.name] = None
        return Decision(() if self.validate_only else tuple(records), reply)


class PartitionBudget:
    """How many partitions this command may still make."""

    def __init__(self, standing: Standing) -> None:
        self._cluster = standing.settings[keys.MAX_PARTITIONS] - standing.image.partition_count
        self._command = MAX_PARTITIONS_PER_COMMAND
        self._limit = standing.settings[keys.MAX_PARTITIONS]

    def take(self, name: str, count: int) -> None:
        """Take room for `count` partitions; Refused if there is not enough."""
        if count > self._command:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"the topic {name!r} wants {count} partitions, this request may make {self._command} more",
            )
        if count > self._cluster:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"the topic {name!r} wants {count} new partitions where the cluster has room for "
                f"{max(0, self._cluster)} of max.partitions={self._limit}",
            )
        self._command -= count
        self._cluster -= count


def check_placement(replicas: Sequence[int], factor: int, image: ClusterImage) -> None:
    """Refused if a partition cannot be held by these brokers: `factor` of them, all there, one alive."""
    if not replicas or len(replicas) != factor:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"a partition is placed on {len(replicas)} brokers, expected {max(1, factor)} as for the others",
        )
    if len(set(replicas)) != len(replicas):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the replicas {list(replicas)} name a broker twice"
        )
    brokers = [image.brokers.get(BrokerId(number)) for number in replicas]
    if None in brokers:
        missing = replicas[brokers.index(None)]
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the replicas {list(replicas)} name broker {missing}, which is not registered",
        )
    if not any(isinstance(broker, BrokerImage) and broker.active for broker in brokers):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"none of the replicas {list(replicas)} can lead now"
        )


def _more_partitions(
    topic: MorePartitions, standing: Standing, budget: PartitionBudget
) -> list[PartitionRecord]:
    known = standing.image.topics.get(topic.name)
    if known is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic.name!r}")
    has = len(known.partitions)
    if topic.count <= has:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic {topic.name!r} has {has} partitions, expected a number above that, not {topic.count}",
        )
    added = topic.count - has
    factor = len(known.partitions[0].replicas)
    if topic.assignments is None:
        check_replication(standing.image, factor)
        budget.take(topic.name, added)
        assignments = place_new(standing.image, added, factor, standing.random)
    else:
        if len(topic.assignments) != added:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"the topic {topic.name!r} is to get {added} partitions, "
                f"expected replicas for as many rather than {len(topic.assignments)}",
            )
        for replicas in topic.assignments:
            check_placement(replicas, factor, standing.image)
        budget.take(topic.name, added)
        assignments = list(topic.assignments)
    return partition_records(standing.image, known.id, has, assignments)


def partition_records(
    image: ClusterImage, topic_id: Uuid, first: int, assignments: Iterable[tuple[int, ...]]
) -> list[PartitionRecord]:
    """The records of new partitions, numbered from `first` on; who is active is in sync, the first leads."""
    records: list[PartitionRecord] = []
    active = {broker.id for broker in image.active_brokers()}
    for number, replicas in enumerate(assignments, first):
        in_sync = [replica for replica in replicas if replica in active]
        records.append(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=in_sync,
                leader=in_sync[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=directories_of(image, replicas),
            )
        )
    return records
