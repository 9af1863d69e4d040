"""Logs, batches and worlds for the tests of the log, with the noise left out."""

from collections.abc import Iterable
from typing import NamedTuple

from everlog.log.directory import LogDirectory
from everlog.log.partition import Appended, Origin, PartitionLog, World
from everlog.log.settings import LogSettings
from everlog.model.ids import LeaderEpoch, Offset, Timestamp, Uuid
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView, whole_batches
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec
from everlog.records.control import ControlType, Producer, build_marker
from everlog.records.reader import Record, read_records
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.clock import MIDNIGHT, SimClock
from everlog.sim.disk import SimFiles

NOON = Timestamp(MIDNIGHT)
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = Uuid(bytes(range(16)))
ROOT = "/logs"
PATH = f"{ROOT}/{ORDERS}"
SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=150, segment_index_bytes=1200)
"""Segments of a few batches, so that a test has several."""


class Sequenced(NamedTuple):
    """Who sends a batch, and with which first sequence."""

    producer_id: int
    sequence: int
    epoch: int = 0


def values(count: int, size: int = 20, tag: str = "") -> list[bytes]:
    """`count` values that tell each other apart."""
    return [f"{tag}{index}".encode().ljust(size, b".") for index in range(count)]


def a_batch(
    content: Iterable[bytes | None] = (b"value",),
    *,
    timestamp: int = NOON,
    step_ms: int = 0,
    sender: Sequenced | None = None,
    codec: Codec = Codec.NONE,
    key: bytes | None = b"key",
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> BatchView:
    """A client's batch over bytes of its own, whose timestamps rise by `step_ms`."""
    records = [NewRecord(key, value, (), timestamp + index * step_ms) for index, value in enumerate(content)]
    producer = sender if sender is not None else Sequenced(-1, -1, -1)
    return BatchView(
        memoryview(
            build_batch(
                records,
                codec=codec,
                base_offset=base_offset,
                leader_epoch=leader_epoch,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=producer.sequence,
                transactional=transactional,
            )
        )
    )


def a_marker(
    producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, timestamp: int = NOON
) -> BatchView:
    """The batch that ends a transaction."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    raw = build_marker(
        kind, Producer(producer_id, epoch), coordinator_epoch=coordinator_epoch, timestamp=timestamp
    )
    return BatchView(memoryview(raw))


class Machine:
    """One log directory on a simulated disk, and what may happen to it."""

    def __init__(self, settings: LogSettings = SMALL) -> None:
        self.settings = settings
        self.clock = SimClock()
        self.random = SimRandom(7)
        self.files = SimFiles(self.clock)
        self.directory = self._directory()

    def _directory(self) -> LogDirectory:
        directory = LogDirectory(World(self.files, self.clock, self.random), ROOT)
        directory.load()
        return directory

    @property
    def log(self) -> PartitionLog:
        """The log of the one partition, made when first asked for."""
        found = self.directory.get(ORDERS, self.settings)
        return found if found is not None else self.directory.create(ORDERS, TOPIC_ID, self.settings)

    def append(self, batch: BatchView, epoch: int = 0, origin: Origin = Origin.CLIENT) -> Appended:
        """Append to the one log."""
        return self.log.append(batch, LeaderEpoch(epoch), self.clock.wall(), origin)

    def fill(self, batches: int, records: int = 3, size: int = 20, epoch: int = 0) -> None:
        """Append batches whose values bear their offsets."""
        for _ in range(batches):
            start = self.log.end_offset
            content = [f"{start + at}".encode().ljust(size, b".") for at in range(records)]
            self.append(a_batch(content, timestamp=self.clock.wall()), epoch)

    def sync(self) -> None:
        """Make all records durable."""
        plan = self.log.sync_plan()
        if plan is not None:
            plan.run()
            self.log.synced(plan)

    def stop(self) -> None:
        """Stop cleanly and start again."""
        self.directory.close(SimAside())
        assert self.directory.problems == []
        self.directory = self._directory()

    def kill(self) -> None:
        """End the process; the machine and its page cache go on. Start again."""
        self.directory = self._directory()

    def lose_power(self, seed: int = 1) -> None:
        """Stop the machine: what was not synced may be lost or torn. Start again."""
        self.files = self.files.after_crash(SimRandom(seed))
        self.directory = self._directory()


def records_of(log: PartitionLog, start: int | None = None, max_bytes: int = 300) -> list[Record]:
    """All records that a consumer gets that reads to the end, from the start or an offset."""
    offset = log.start_offset if start is None else Offset(start)
    found: list[Record] = []
    while (piece := log.read(offset, max_bytes, log.end_offset)) is not None:
        for batch in whole_batches(piece.read()):
            assert batch.checksum_holds()
            found += [record for record in read_records(batch) if record.offset >= offset]
            offset = Offset(batch.next_offset)
    return found


def values_of(log: PartitionLog) -> list[bytes | None]:
    """The values of all records."""
    return [record.value for record in records_of(log)]
