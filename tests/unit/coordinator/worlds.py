"""A world for shards without a broker: a journal in memory, a clock that stands, a cluster of topics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from everlog.coordinator.machine import Machine, ProducerStamp
from everlog.coordinator.shards import ShardWorld
from everlog.metadata.delta import Changes
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage, PartitionImage, TopicImage
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import LeaderEpoch, Offset, ProducerId, Timestamp, Uuid
from everlog.model.settings import BrokerSettings, broker_settings
from everlog.model.topics import TopicPartition
from everlog.sim.alarm import SimAlarm
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock

Committed = Callable[[Refused | StorageError | None], None]
R = TypeVar("R")


@dataclass(frozen=True)
class KeptBatch:
    """One batch as the journal keeps it; a marker has no records."""

    base_offset: int
    records: tuple[tuple[bytes, bytes | None], ...]
    producer: ProducerStamp | None
    marker: bool | None = None


@dataclass
class MemoryJournal:
    """A partition in memory: commits at once, or when it is told to."""

    batches: list[KeptBatch] = field(default_factory=list[KeptBatch])
    end: int = 0
    holds: bool = False
    refusal: Refused | StorageError | None = None
    _waiting: list[tuple[Offset, Committed]] = field(default_factory=list[tuple[Offset, Committed]])

    def append(
        self, records: Sequence[tuple[bytes, bytes | None]], producer: ProducerStamp | None, wall: Timestamp
    ) -> Offset:
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(KeptBatch(self.end, tuple(records), producer))
        self.end += len(records)
        return Offset(self.end)

    def when_committed(self, end: Offset, done: Committed) -> None:
        if self.holds:
            self._waiting.append((end, done))
        else:
            done(None)

    def settle(self, error: Refused | StorageError | None = None) -> None:
        """Commit all that waits, or fail it."""
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(error)

    def mark(self, machine: Machine, producer: ProducerStamp, *, commit: bool) -> None:
        """Write a transaction's marker, and tell the machine."""
        self.batches.append(KeptBatch(self.end, (), producer, commit))
        self.end += 1
        machine.end_transaction(producer, commit)

    def replay_into(self, machine: Machine) -> None:
        """Do what a broker does that finds this log."""
        for batch in self.batches:
            if batch.marker is not None:
                assert batch.producer is not None
                machine.replay_end(batch.producer, batch.marker)
            for at, (key, value) in enumerate(batch.records):
                machine.replay(key, value, Offset(batch.base_offset + at), batch.producer)
        machine.loaded()

    @property
    def record_count(self) -> int:
        return sum(len(batch.records) for batch in self.batches)


def a_topic(name: str, partitions: int = 1, topic_id: Uuid | None = None) -> TopicImage:
    """A topic on broker 1; the id follows from the name unless it is given."""
    made = topic_id or Uuid(name.encode().ljust(16, b"\1")[:16])
    one = PartitionImage((1,), (1,), 1, LeaderEpoch(0), 0, ())
    return TopicImage(name, made, tuple([one] * partitions))


def an_image(*topics: TopicImage) -> ClusterImage:
    """A cluster with these topics."""
    return replace(
        EMPTY_IMAGE,
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.id: topic for topic in topics},
        partition_count=sum(len(topic.partitions) for topic in topics),
    )


def some_settings(**overrides: str) -> BrokerSettings:
    """Settings of a node; names are given with underscores."""
    return broker_settings(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "log.dirs": "/data",
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
    )


class World:
    """What a shard gets, with a hand on all of it."""

    def __init__(self, *topics: TopicImage, **settings: str) -> None:
        self.journal = MemoryJournal()
        self.clock = SimClock()
        self.alarm = SimAlarm()
        self.random = SimRandom("shard")
        self.image = an_image(*topics)
        self.settings = some_settings(**settings)
        self.next_producer_id = 1000

    def given(self, epoch: int = 0) -> ShardWorld:
        """What a shard of this world is made with."""
        return ShardWorld(
            TopicPartition("__consumer_offsets", 0),
            epoch,
            self.journal,
            self.clock,
            self.random,
            self.alarm,
            lambda: self.settings,
            lambda: self.image,
            self._take_producer_id,
        )

    def delete_topic(self, name: str) -> Changes:
        """Take a topic out of the cluster."""
        gone = self.image.topics[name]
        self.image = an_image(*(topic for topic in self.image.topics.values() if topic.name != name))
        return Changes(deleted=(gone,))

    def _take_producer_id(self, done: Callable[[ProducerId | Refused | StorageError], None]) -> None:
        self.next_producer_id += 1
        done(ProducerId(self.next_producer_id))


class Replies(list[R | Refused | StorageError]):
    """Collects replies; `Replies.append` is a `Done`."""

    @property
    def only(self) -> R:
        """The one reply there is, which is no refusal."""
        assert len(self) == 1, self
        reply = self[0]
        assert not isinstance(reply, Refused | StorageError), reply
        return reply

    @property
    def refused(self) -> Refused:
        """The one reply there is, which is a refusal."""
        assert len(self) == 1, self
        reply = self[0]
        assert isinstance(reply, Refused), reply
        return reply
