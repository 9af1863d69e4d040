"""The partitions that this broker holds, found by name or by id."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from everlog.log.partition import PartitionLog
from everlog.model.ids import LeaderEpoch, Offset, Uuid
from everlog.model.topics import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from everlog.broker.parked import ParkedFetch


class Replica:
    """One partition held here. Its log is opened, or made, when it is first used."""

    __slots__ = (
        "_open_log",
        "directory",
        "internal",
        "leader_epoch",
        "log",
        "min_insync",
        "name",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        name: TopicPartition,
        topic_id: Uuid,
        leader_epoch: LeaderEpoch,
        min_insync: int,
        open_log: Callable[["Replica"], PartitionLog],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.internal = name.topic in INTERNAL_TOPICS
        """Whether it is a coordinator's, which clients may read and may not write to."""
        self.min_insync = min_insync
        """`min.insync.replicas` of the topic."""
        self.log: PartitionLog | None = None
        self.directory = ""
        """The log directory that holds it; known once the log is open."""
        self._open_log = open_log
        self.watchers: dict[ParkedFetch, None] = {}
        """Fetches that wait for records of this partition, in the order they came."""

    def opened(self) -> PartitionLog:
        """Return the log, opening it if need be; StorageError if the disk does not let us."""
        log = self.log
        if log is None:
            log = self.log = self._open_log(self)
        return log

    @property
    def high_watermark(self) -> Offset:
        """Up to where consumers may read. A single replica is its whole ISR, so that is all it has."""
        return self.opened().end_offset

    @property
    def last_stable_offset(self) -> Offset:
        """Up to where nothing is undecided: the first open transaction, or the high watermark."""
        log = self.opened()
        return log.last_stable_offset(log.end_offset)


class Replicas:
    """All replicas of a broker."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[int, Replica]] = {}
        self.by_id: dict[bytes, dict[int, Replica]] = {}

    def __iter__(self) -> Iterator[Replica]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def get(self, topic: str | bytes, partition: int) -> Replica | None:
        """Find a partition by its topic's name, or by its topic's id."""
        partitions = self.by_name.get(topic) if isinstance(topic, str) else self.by_id.get(topic)
        return None if partitions is None else partitions.get(partition)

    def add(self, replica: Replica) -> None:
        """Take a partition in."""
        partitions = self.by_name.setdefault(replica.name.topic, {})
        partitions[replica.name.partition] = replica
        self.by_id[replica.topic_id] = partitions

    def remove_topic(self, name: str) -> list[Replica]:
        """Give all partitions of a topic up, and return them."""
        partitions = self.by_name.pop(name, {})
        for replica in partitions.values():
            self.by_id.pop(replica.topic_id, None)
        return list(partitions.values())
