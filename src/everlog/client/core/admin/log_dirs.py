"""Where brokers keep the logs of partitions, and requests that move them to another directory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from everlog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory of a broker; sizes in bytes, -1 where the broker does not tell."""

    broker: int
    path: str
    total_bytes: int
    usable_bytes: int
    partition_bytes: Mapping[TopicPartition, int]
    moving_in: frozenset[TopicPartition] = frozenset()
    """Partitions that are copied here from another directory and will live here once caught up."""
    error: Refused | None = None
    """Why the broker cannot use it, if so."""
    records_behind: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    """How far each copy is behind: one that moves in, the copy it will replace; any other, the leader."""

    @property
    def moving_in_bytes(self) -> dict[TopicPartition, int]:
        """How much of each partition that moves in is here by now."""
        return {place: size for place, size in self.partition_bytes.items() if place in self.moving_in}


@dataclass(frozen=True, slots=True)
class Replica:
    """One broker's copy of a partition."""

    place: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"replica of {self.place} at broker {self.broker}"


def describe_log_dirs_request(places: Iterable[TopicPartition] | None) -> DescribeLogDirsRequest:
    """Ask for all directories of a broker, with all partitions in them or only some."""
    if places is None:
        return DescribeLogDirsRequest(topics=None)
    topics: dict[str, DescribableLogDirTopic] = {}
    for place in sorted(places):
        named = topics.setdefault(place.topic, DescribableLogDirTopic(topic=place.topic, partitions=[]))
        named.partitions.append(place.partition)
    return DescribeLogDirsRequest(topics=list(topics.values()))


def read_log_dirs(response: DescribeLogDirsResponse, broker: int) -> list[LogDir]:
    """The log directories of one broker; Refused if it tells nothing at all."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, None, f"log directories of broker {broker}")
    found: list[LogDir] = []
    for result in response.results:
        held = {
            TopicPartition(topic.name, partition.partition_index): partition
            for topic in result.topics
            for partition in topic.partitions
        }
        problem = outcome(None, result.error_code, None, f"log directory {result.log_dir} of broker {broker}")
        found.append(
            LogDir(
                broker,
                result.log_dir,
                result.total_bytes,
                result.usable_bytes,
                {place: entry.partition_size for place, entry in held.items()},
                frozenset(place for place, entry in held.items() if entry.is_future_key),
                problem,
                {place: entry.offset_lag for place, entry in held.items()},
            )
        )
    return found


def alter_replica_log_dirs_request(wanted: Mapping[TopicPartition, str]) -> AlterReplicaLogDirsRequest:
    """Ask a broker to move its copies of partitions to other directories of its own."""
    dirs: dict[str, dict[str, AlterReplicaLogDirTopic]] = {}
    for place, path in wanted.items():
        topics = dirs.setdefault(path, {})
        named = topics.setdefault(place.topic, AlterReplicaLogDirTopic(name=place.topic, partitions=[]))
        named.partitions.append(place.partition)
    return AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path=path, topics=list(topics.values())) for path, topics in dirs.items()]
    )


def read_replicas_moved(response: AlterReplicaLogDirsResponse, broker: int) -> dict[Replica, Refused | None]:
    """What became of each copy."""
    moved: dict[Replica, Refused | None] = {}
    for topic in response.results:
        for entry in topic.partitions:
            replica = Replica(TopicPartition(topic.topic_name, entry.partition_index), broker)
            moved[replica] = outcome(None, entry.error_code, None, str(replica))
    return moved
