"""A log directory on a simulated disk, and what must be true of it after a crash at any time."""

from dataclasses import dataclass, field

from everlog.broker.replicas import Replica
from everlog.log.directory import LogDirectory
from everlog.log.partition import Origin, PartitionLog, World
from everlog.log.settings import LogSettings
from everlog.model.ids import NO_UUID, LeaderEpoch, Offset, Uuid
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.control import ControlType, Producer, build_marker
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.disk import SimFiles
from everlog.wire.codec import encode_request
from everlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

try:
    from everlog.broker import _lanes
except ImportError:
    _lanes = None  # type: ignore[assignment]  # the one module that may be missing

DATA = "/data"
SMALL = LogSettings(
    segment_bytes=1000,
    index_interval_bytes=150,
    retention_ms=100_000,
    file_delete_delay_ms=1000,
)
"""Settings under which a dozen batches make several segments with several index entries each."""


@dataclass(slots=True, repr=False)
class Ghost:
    """What the world was told of one partition, from which follows what a crash may leave of it."""

    present: bool = False
    """Whether the partition must be there; where it `changes`, it may and may not."""
    changes: bool = True
    topic_id: Uuid = NO_UUID
    """Whose directory it is, as it must say once anything in it is durable."""
    batches: list[bytes] = field(default_factory=list[bytes])
    """All batches ever appended, as they lie on disk, but for those that were cut off."""
    past: list[list[bytes]] = field(default_factory=list[list[bytes]])
    """The same before each cut: a cut that was not synced may be undone by a crash."""
    attempts: list[bytearray | memoryview] = field(default_factory=list[bytearray | memoryview])
    """Batches whose append has not returned; the log stamps them in place."""
    synced_end: int = 0
    """Below it nothing may be lost."""
    start_at_least: int = 0
    """Where the log begins as of the last checkpoint: what was deleted then stays deleted."""
    start_at_most: int = 0
    """Where it was last told to begin: nothing above may be missing."""

    def __repr__(self) -> str:
        return (
            f"Ghost({'changing' if self.changes else 'present' if self.present else 'absent'}, "
            f"batches {[view_of(batch).base_offset for batch in self.batches]}, synced to {self.synced_end}, "
            f"start {self.start_at_least}..{self.start_at_most})"
        )

    def histories(self) -> list[list[bytes]]:
        """Every sequence of batches that may be found, from the first one ever on."""
        stamped = [batch for batch in map(bytes, self.attempts) if view_of(batch).leader_epoch >= 0]
        return [[*self.batches, *stamped], *self.past]

    @property
    def end(self) -> int:
        """Where the log ends, without asking it: that would have it look at what came through its lane."""
        return view_of(self.batches[-1]).next_offset if self.batches else 0


class Machine:
    """One broker's log directory, driven by hand, with a ghost of each partition beside it."""

    def __init__(self, settings: LogSettings = SMALL, files: SimFiles | None = None) -> None:
        self.clock = SimClock()
        self.files = files if files is not None else SimFiles(self.clock)
        self.settings = settings
        self.ghosts: dict[TopicPartition, Ghost] = {}
        self.epoch = 0
        self._random = SimRandom("machine")
        self._records = 0
        self.directory = open_directory(self.files, self.clock, settings)

    def log(self, partition: TopicPartition) -> PartitionLog:
        found = self.directory.get(partition, self.settings)
        assert found is not None
        return found

    def create(self, partition: TopicPartition) -> None:
        ghost = self.ghosts[partition] = Ghost(topic_id=self._random.uuid())
        self.directory.create(partition, ghost.topic_id, self.settings)
        ghost.present, ghost.changes = True, False

    def delete(self, partition: TopicPartition) -> None:
        ghost = self.ghosts[partition]
        ghost.changes = True
        self.directory.delete(partition)
        ghost.present = ghost.changes = False

    def append(
        self, partition: TopicPartition, count: int = 1, *, producer: int = -1, transactional: bool = False
    ) -> None:
        """Append a batch of so many records whose bytes and timestamps tell them apart."""
        sequence = self._next_sequence(partition, producer)
        batch = self._a_batch(count, producer, sequence, transactional=transactional)
        self._put(partition, batch, Origin.CLIENT)

    def append_in_lane(self, partition: TopicPartition, *counts: int, producer: int = -1) -> None:
        """Append batches the short way, as requests that came together do, as far as the log lets them.

        The log does not know of them when this returns. Without the compiled code all go the other way.
        """
        sequence = self._next_sequence(partition, producer)
        frames: list[bytes] = []
        places: list[tuple[int, int, int]] = []
        at = 0
        for count in counts:
            batch = bytes(self._a_batch(count, producer, sequence))
            sequence += count if producer >= 0 else 0
            frame = a_produce_frame(partition, batch)
            begin = at + frame.index(batch)
            at += len(frame)
            places.append((begin, begin + len(batch), at))
            frames.append(frame)
        data = memoryview(bytearray(b"".join(frames)))
        at = 0
        while places:
            after = self._take_run(partition, data, at, [data[begin:end] for begin, end, _ in places])
            if after == at:
                begin, end, after = places[0]
                self._put(partition, bytearray(data[begin:end]), Origin.CLIENT)
            places = [place for place in places if place[2] > after]
            at = after

    def _take_run(
        self, partition: TopicPartition, data: memoryview, at: int, batches: list[memoryview]
    ) -> int:
        """Have the compiled code take requests, once more with a lane if that is what it lacks."""
        if _lanes is None:
            return at
        log, ghost = self.log(partition), self.ghosts[partition]
        epoch = LeaderEpoch(self.epoch)
        replica = Replica(partition, ghost.topic_id, epoch, 1, lambda _: log)
        replica.leads, replica.log = True, log
        by_name = {partition.topic: {partition.partition: replica}}
        after = at
        for _ in range(2):
            ghost.attempts = list(batches)
            after, _, _, stuck = _lanes.take(by_name, {}, data, at, len(data), self.clock.wall())
            ghost.attempts = []
            if after != at or stuck is None or not log.enter_lane(_lanes.Lane, epoch, stuck[1]):
                break
        written = [bytes(batch) for batch in batches if view_of(bytes(batch)).leader_epoch >= 0]
        ghost.batches += written
        return after

    def behind(self, partition: TopicPartition) -> bool:
        """Whether the log has batches that it does not know of; True without the compiled code."""
        lane = self.log(partition).lane
        return _lanes is None or (lane is not None and lane.pending > 0)

    def _a_batch(self, count: int, producer: int, sequence: int, *, transactional: bool = False) -> bytearray:
        records: list[NewRecord] = []
        for _ in range(count):
            self._records += 1
            value = b"record %d " % self._records + b"x" * (self._records * 7 % 50)
            # Every fifth timestamp is older than the one before: the time index has to skip it.
            timestamp = self.clock.wall() + self._records * 10 - (300 if self._records % 5 == 0 else 0)
            records.append(NewRecord(b"key", value, (), timestamp))
        return build_batch(
            records,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )

    def _next_sequence(self, partition: TopicPartition, producer: int) -> int:
        if producer < 0:
            return -1
        sent = [view_of(batch) for batch in self.ghosts[partition].batches]
        return max((view.last_sequence for view in sent if view.producer_id == producer), default=-1) + 1

    def end_txn(self, partition: TopicPartition, producer: int, *, commit: bool) -> None:
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = build_marker(kind, Producer(producer, 0), coordinator_epoch=1, timestamp=self.clock.wall())
        self._put(partition, marker, Origin.COORDINATOR)

    def _put(self, partition: TopicPartition, batch: bytearray, origin: Origin) -> None:
        ghost = self.ghosts[partition]
        view = batch_at(batch)
        ghost.attempts = [batch]
        log = self.log(partition)
        appended = log.append(view, LeaderEpoch(self.epoch), self.clock.wall(), origin)
        ghost.attempts = []
        assert not appended.duplicate
        ghost.batches.append(bytes(batch))

    def sync(self, partition: TopicPartition) -> None:
        log, ghost = self.log(partition), self.ghosts[partition]
        plan = log.sync_plan()
        if plan is not None:
            plan.run()
            log.synced(plan)
        # All that was appended, whoever knows of it.
        ghost.synced_end = ghost.end

    def checkpoint(self) -> None:
        starts = {partition: self.log(partition).start_offset for partition in self.directory.partitions}
        self.directory.checkpoint()
        for partition, start in starts.items():
            self.ghosts[partition].start_at_least = int(start)

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        self.ghosts[partition].start_at_most = offset
        self.log(partition).move_start_to(Offset(offset))

    def retain(self, expected_starts: dict[TopicPartition, int]) -> None:
        """Let everything expire that is due, which must bring the logs to these starts."""
        for partition, start in expected_starts.items():
            self.ghosts[partition].start_at_most = start
        ends = {partition: Offset(self.ghosts[partition].end) for partition in self.directory.partitions}
        waiting = self.directory.enforce_retention(self.clock.wall(), ends)
        for partition, start in expected_starts.items():
            assert self.log(partition).start_offset == start, (self.log(partition), start)
        assert waiting
        self.checkpoint()

    def expire(self) -> None:
        """Let expire whatever is due, and remove what was due to be removed."""
        for partition in self.directory.partitions:
            self.ghosts[partition].start_at_most = self.oldest_kept(partition)
        ends = {partition: Offset(self.ghosts[partition].end) for partition in self.directory.partitions}
        self.directory.enforce_retention(self.clock.wall(), ends)
        self.checkpoint()
        deletions = self.directory.due_deletions(self.clock.now())
        if deletions is not None:
            deletions.run()

    def oldest_kept(self, partition: TopicPartition) -> int:
        """Where the log will begin once what is past its time has gone, by looking at every batch."""
        log, ghost = self.log(partition), self.ghosts[partition]
        names = [name for name in self.files.names(log.path) if name.endswith(".log")]
        bases = [int(name[:20]) for name in names]
        limit = self.clock.wall() - self.settings.retention_ms
        start = int(log.start_offset)
        for base, end in zip(bases, [*bases[1:], ghost.end], strict=True):
            inside = [view for view in map(view_of, ghost.batches) if base <= view.base_offset < end]
            if end > start and any(view.max_timestamp >= limit for view in inside):
                break
            if not inside and end == ghost.end:
                break
            start = max(start, end)
        return start

    def batch_start(self, partition: TopicPartition, chance: SimRandom) -> int:
        """The first offset of some batch that is still in the log."""
        log = self.log(partition)
        starts = [view_of(batch).base_offset for batch in self.ghosts[partition].batches]
        ends_at = self.ghosts[partition].end
        return chance.pick([start for start in starts if start >= log.start_offset] or [ends_at])

    def remove_due(self) -> None:
        """Let the delay pass and remove what waited for it."""
        self.clock.advance(self.settings.file_delete_delay_ms + 1)
        deletions = self.directory.due_deletions(self.clock.now())
        assert deletions is not None
        deletions.run()

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        """Cut a log at a batch's beginning."""
        ghost = self.ghosts[partition]
        ghost.past.append(list(ghost.batches))
        ghost.batches = [batch for batch in ghost.batches if view_of(batch).last_offset < offset]
        ghost.synced_end = min(ghost.synced_end, offset)
        ghost.start_at_least = min(ghost.start_at_least, offset)
        self.log(partition).truncate_to(Offset(offset))
        assert self.log(partition).end_offset == offset
        ghost.start_at_most = min(ghost.start_at_most, offset)

    def stop(self) -> None:
        """Stop cleanly, which makes everything durable."""
        ends = {partition: self.ghosts[partition].end for partition in self.directory.partitions}
        starts = {partition: int(self.log(partition).start_offset) for partition in self.directory.partitions}
        self.directory.close(SimAside())
        assert self.directory.problems == []
        for partition, end in ends.items():
            self.ghosts[partition].synced_end = end
            self.ghosts[partition].start_at_least = starts[partition]

    def start(self) -> None:
        """Start again on the same files."""
        self.directory = open_directory(self.files, self.clock, self.settings)


def open_directory(files: SimFiles, clock: SimClock, settings: LogSettings = SMALL) -> LogDirectory:
    """Open all that is on a disk, as a broker does at its start."""
    # Names that are drawn must differ from those of the run before.
    world = World(files, clock, SimRandom(f"logs {files.operations}"))
    directory = LogDirectory(world, DATA)
    directory.load()
    for _ in directory.recover(lambda partition: settings):
        pass
    return directory


def a_produce_frame(partition: TopicPartition, batch: bytes) -> bytes:
    """A produce request with one batch."""
    data = PartitionProduceData(index=partition.partition, records=memoryview(batch))
    topic = TopicProduceData(name=partition.topic, partition_data=[data])
    return encode_request(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), 9, 0, "crash")


def view_of(batch: bytes) -> BatchView:
    return batch_at(batch)
