"""One partition's log, put together of its parts: append, read, roll, cut, move the start (L1, L3, L4)."""

from collections.abc import Callable

from everlog.log.aborted_index import AbortedTxn
from everlog.log.appending import Appended, Origin, World
from everlog.log.compaction_swap import Swaps
from everlog.log.cutting import Cutting
from everlog.log.durability import Durability
from everlog.log.epochs import LeaderEpochs
from everlog.log.lane import Lane
from everlog.log.producers import Producers
from everlog.log.reading import Reading
from everlog.log.recovery import Opening, RecoveryReport, load_log
from everlog.log.removal import Removals
from everlog.log.replicated import checked_batches, first_base
from everlog.log.retention import RetentionLimits, expired_count, facts_of
from everlog.log.rewriting import Damage, RewritePlan
from everlog.log.search import FoundRecord, ReadLimits, Span
from everlog.log.segment import Segment
from everlog.log.segments import SegmentList
from everlog.log.settings import LogSettings
from everlog.log.sync import SyncPlan, Unsynced
from everlog.log.tail import NotWrittenError, Tail
from everlog.log.trouble import Trouble
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import NO_EPOCH, Instant, LeaderEpoch, Offset, Timestamp
from everlog.model.topics import TopicPartition
from everlog.ports.files import FileSlice
from everlog.records.batch import HEADER_BYTES, BatchView

__all__ = ["Appended", "Origin", "PartitionLog", "World"]


class PartitionLog:
    """The records of one partition from `start_offset` up to `end_offset`.

    One loop calls everything here. An OSError of the disk comes out as a StorageError: after a refused
    append the log is as before and may take the next one; after a failed sync it takes none until what that
    was about is on disk, see `rewrite_plan`. Reads go on in either case.

    What is here is what several of its parts do together, and the lane, which is taken in before any of them
    is asked. The rest is theirs: which segments there are (`segments`), their end and what is appended there
    (`tail`), what is read (`reading`), how it is cut (`cutting`), what is durable (`sync`, `durability`).
    """

    def __init__(
        self, world: World, path: str, partition: TopicPartition, settings: LogSettings, opening: Opening
    ) -> None:
        """Open the log in a directory that exists, recovering it if the last stop was not clean."""
        self._files = world.files
        self._clock = world.clock
        self._random = world.random
        self.path = path
        self.partition = partition
        try:
            loaded = load_log(world.files, path, settings, opening, world.clock.wall())
        except (OSError, CorruptDataError) as error:
            raise StorageError(f"{path} cannot be opened: {error}") from error
        self.start_offset: Offset = loaded.start_offset
        """The first offset that may be read. It only rises, but for a log that is cut below it."""
        self.report: RecoveryReport = loaded.report
        """What recovery had to do when the log was opened."""
        self.bare: bool = loaded.bare
        """Whether the log was opened without ever having had a record: then none of its files is durable."""
        self.lane: Lane | None = None
        """Where plain batches are appended, if there have been any; it may be ahead of what is known here."""
        self.failure: StorageError | None = None
        """Why the log takes no appends, if it does not."""
        self.in_doubt = False
        """Whether that is because nobody knows what is on the disk; then `rewrite_plan` may end it."""
        self.before_cut: Callable[[], None] | None = None
        """Called when `recovery_point` or `start_offset` has moved for a cut, to make that durable first."""
        recovered = loaded.segments if loaded.changed or loaded.bare else []
        self._unsynced = Unsynced(world.files, world.clock, path, recovered, loaded.recovery_point)
        self._unsynced.is_new = loaded.bare
        self.removals = Removals(world.files)
        """The files of segments that are no longer part of the log."""
        self._segments = SegmentList(world.files, path, loaded.segments, self._unsynced, self.removals)
        self.swaps = Swaps(world.files, self._segments, self._unsynced, self.removals)
        """Puts segments that compaction has rewritten into the place of the old ones (L6)."""
        self._trouble = Trouble(partition)
        self._tail = Tail(world, loaded, self._segments, self._unsynced, self._trouble)
        self._cutting = Cutting(world.clock, self._tail, self.swaps, self._unsynced, self._trouble)
        self._durability = Durability(world.files, self._tail, self._unsynced, self._trouble)
        self._reading = Reading(world.files, self._segments, self._trouble)
        self.reconfigure(settings)

    def __repr__(self) -> str:
        return f"PartitionLog({self.partition}, {self.start_offset}..{self.end_offset})"

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record gets."""
        lane = self.lane
        if lane is not None and lane.pending:
            self._tail.catch_up(lane)
        return self._tail.end_offset

    @property
    def producers(self) -> Producers:
        """What is known of those that wrote here."""
        if self.lane is not None:
            self._catch_up()
        return self._tail.producers

    @property
    def epochs(self) -> LeaderEpochs:
        """Which leader epoch began at which offset."""
        return self._tail.epochs

    @property
    def settings(self) -> LogSettings:
        """What the log obeys now."""
        return self._tail.settings

    @property
    def size(self) -> int:
        """Bytes of log in all segments."""
        self._catch_up()
        return self._segments.size

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; the last one is active."""
        self._catch_up()
        return tuple(self._segments.in_order)

    @property
    def generation(self) -> int:
        """Which life of the log this is: cutting it begins another."""
        return self._unsynced.generation

    @property
    def recovery_point(self) -> Offset:
        """All records below are durable; never above what was synced."""
        return self._unsynced.recovery_point

    @property
    def damaged_at(self) -> Offset | None:
        """Where the first segment begins in which a read has found damaged bytes; None if none has."""
        return self._reading.damaged_at

    @damaged_at.setter
    def damaged_at(self, base_offset: Offset | None) -> None:
        self._reading.damaged_at = base_offset

    @property
    def on_trouble(self) -> Callable[[bool], None] | None:
        """Called when the disk has refused something; with True where the log takes nothing more for it."""
        return self._trouble.listener

    @on_trouble.setter
    def on_trouble(self, listener: Callable[[bool], None] | None) -> None:
        self._trouble.listener = listener

    @property
    def first_unstable_offset(self) -> Offset | None:
        """The first offset of the oldest transaction that is not over and replicated; None if all are."""
        return self.producers.first_unstable_offset

    def reconfigure(self, settings: LogSettings) -> None:
        """Obey other settings from now on."""
        self._pause_lane()
        jitter = min(settings.segment_jitter_ms, settings.segment_ms)
        jitter_ms = self._random.below(jitter) if jitter > 0 else 0
        self._tail.configure(settings)
        self._segments.configure(settings, jitter_ms, self._clock.wall())

    # Appending

    def append(
        self, batch: BatchView, leader_epoch: LeaderEpoch, wall: Timestamp, origin: Origin
    ) -> Appended:
        """Give a batch the next offsets and write it; a batch that is there already gets its old ones.

        The batch's bytes must be writable: its place is stamped into them. Refused where the batch breaks
        a rule (`RecordsRefused` names the records), StorageError where the disk refuses.
        """
        if self.failure is not None:
            raise self.failure
        if self.lane is not None:
            self._pause_lane()
        try:
            return self._tail.append(batch, leader_epoch, wall, origin, self.leave_lane)
        except NotWrittenError as refused:
            raise self._durability.not_written(self, refused.error) from refused.error

    def append_replicated(self, records: memoryview, wall: Timestamp) -> bool:
        """Append what the leader sent, as it is; returns whether it has to be synced before it counts (L8).

        The batches are written together, with one write unless a segment ends between them. Refused where
        they are damaged or do not follow on, StorageError where the disk refuses; then none of those that are
        not part of the log yet will be.
        """
        if self.failure is not None:
            raise self.failure
        self.leave_lane()
        tail, start = self._tail, self.start_offset
        if start == tail.end_offset and len(records) >= HEADER_BYTES and first_base(records) < start:
            # The log begins in the middle of a batch, as the leader's does since records were deleted.
            self.restart_at(first_base(records))
        batches = checked_batches(records, tail.end_offset, tail.epochs.latest)
        try:
            wait_for_sync = tail.append_replicated(batches, wall)
        except NotWrittenError as refused:
            raise self._durability.not_written(self, refused.error) from refused.error
        self.move_start_to(min(start, tail.end_offset))
        return wait_for_sync

    def roll(self) -> None:
        """Seal the active segment and begin the next one, unless nothing is in it yet."""
        if self._segments.active.size:
            self.leave_lane()
            self._tail.roll(self._tail.end_offset)

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """Note that `epoch` begins at the end of the log, which may stay without records in it.

        Until it has some it need not be durable: whoever leads after a restart leads in a later one.
        """
        if epoch > self.epochs.latest:
            self._pause_lane()
            self.epochs.assign(epoch, self.end_offset)

    def forget_empty_epochs(self) -> None:
        """Forget epochs that were led here without a record in them: a follower speaks of records only."""
        self._pause_lane()
        self.epochs.truncate_end(self.end_offset)

    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last record; -1 if there is none."""
        if self.start_offset == self.end_offset:
            return NO_EPOCH
        return self.epochs.epoch_at(Offset(self.end_offset - 1))

    def epoch_end(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The newest epoch up to this one that there is, and where it ends; (-1, 0) if there is none."""
        return self.epochs.newest_up_to(epoch, self.end_offset)

    # The short way in

    def enter_lane(self, make: Callable[[], Lane], leader_epoch: LeaderEpoch, producer_id: int) -> bool:
        """Let plain batches be appended through the log's lane, those of this producer (-1: of none) too.

        False if they cannot be, for what the log or the producer is like now; `append` is right then.
        """
        self._catch_up()
        if self.failure is not None:
            return False
        lane = self._tail.open_lane(self.lane, make, leader_epoch, producer_id)
        if lane is None:
            return False
        self.lane = lane
        return True

    def leave_lane(self) -> None:
        """Take no more batches through the lane, and lend the file no more."""
        if self.lane is not None:
            self._catch_up()
            self._tail.close_lane(self.lane)
            self.lane = None

    def _pause_lane(self) -> None:
        """Take no batches through the lane before `enter_lane`: what it knows is about to change."""
        if self.lane is not None:
            self._catch_up()
            self.lane.pause()

    def _catch_up(self) -> None:
        """Take in what was appended through the lane."""
        lane = self.lane
        if lane is not None and lane.pending:
            self._tail.catch_up(lane)

    # Reading

    def read(
        self, offset: Offset, max_bytes: int, end_offset: Offset, at_least_one: bool = True
    ) -> FileSlice | None:
        """Return the whole batches from the one that holds `offset` on, all below `end_offset`.

        Up to `max_bytes`, but for a first batch that is larger where `at_least_one` asks for it; at most to
        the end of a segment. None if nothing may be sent. OFFSET_OUT_OF_RANGE if the log does not have
        `offset` and will not have it next. Every byte was proved: CorruptDataError instead of a bad one.
        """
        log_end = self.end_offset
        if not self.start_offset <= offset <= log_end:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition} has offsets {self.start_offset} to {log_end}, found {offset}",
            )
        end_offset = min(end_offset, log_end)
        if offset >= end_offset:
            return None
        limits = ReadLimits(max_bytes, end_offset, at_least_one)
        return self._reading.read(offset, limits, self._tail.epochs)

    def offset_for_time(self, timestamp: Timestamp, end_offset: Offset) -> FoundRecord | None:
        """The first record below `end_offset` whose timestamp is at least `timestamp` (L7)."""
        self._catch_up()
        return self._reading.offset_for_time(timestamp, Span(self.start_offset, end_offset), self.epochs)

    def offset_of_max_timestamp(self, end_offset: Offset) -> FoundRecord | None:
        """The first record that has the largest timestamp of the log; None if none has a timestamp."""
        self._catch_up()
        return self._reading.offset_of_max_timestamp(Span(self.start_offset, end_offset), self.epochs)

    def learn_times(self, timestamp: Timestamp | None, enough: Callable[[], bool]) -> bool:
        """Look at segments until a lookup by time need look at none, or `enough` ends it; see `Reading`."""
        return self._reading.learn_times(timestamp, enough)

    def aborted_between(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        """The aborted transactions that have records between two offsets, in the order of their markers."""
        return self._reading.aborted_between(start, end)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Where readers of committed records stop: before the first transaction that is not over."""
        producers = self.producers
        producers.replicated(high_watermark)
        unstable = producers.first_unstable_offset
        return high_watermark if unstable is None else min(unstable, high_watermark)

    # Cutting and retention

    def truncate_to(self, offset: Offset) -> None:
        """Cut the log so that it ends at `offset`, or before the batch that holds it."""
        if offset < self.end_offset:
            self._cutting.cut_at(self, offset)

    def restart_at(self, offset: Offset) -> None:
        """Throw away all records and begin again at `offset`."""
        self._cutting.begin_again(self, offset)

    def give_up_damaged(self) -> Offset:
        """Give up the segment that was found damaged and all behind it; returns where the log ends then."""
        assert self.damaged_at is not None, self.partition
        damaged_at, self.damaged_at = self.damaged_at, None
        self._cutting.give_up(self, damaged_at)
        if self.in_doubt:
            # All before it was brought to disk anew, and what comes behind it now is new.
            self.failure = None
            self.in_doubt = False
        return self.end_offset

    def move_start_to(self, offset: Offset) -> None:
        """Let the log begin at `offset`; what lies before can be read no more, and goes with its segments."""
        if offset > self.end_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition} ends at {self.end_offset}, it cannot begin at {offset}",
            )
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_start(offset)

    def enforce_retention(self, wall: Timestamp, high_watermark: Offset) -> bool:
        """Let go of expired segments (L5); returns whether files wait in `removals`.

        They wait for `shelve`, once the log-start checkpoint is durable.
        """
        if self.failure is not None:
            return self.removals.waiting
        segments = self._segments
        limits = RetentionLimits(wall, self.size, self.start_offset, high_watermark)
        try:
            count = expired_count(facts_of(self._files, segments), self.settings, limits)
        except OSError as error:
            raise self._trouble.refused("cannot be looked through", error) from error
        if count:
            if count == len(segments):
                self.roll()
            segments.expire(count)
            self.move_start_to(segments.bases[0])
        return self.removals.waiting

    def expire_producers(self, wall: Timestamp) -> None:
        """Forget producers that have been silent for long enough."""
        self._pause_lane()
        self.producers.expire(wall, self.settings.producer_id_expiration_ms)

    # Durability

    @property
    def sync_due_at(self) -> Instant | None:
        """When `sync_plan` must be carried out at the latest, by `flush.ms` and `flush.messages` (L8)."""
        return self._unsynced.due_at

    @property
    def sealed_unsynced(self) -> bool:
        """Whether segments were sealed since the last plan: a sync now keeps the next recovery short."""
        return bool(self._unsynced.sealed)

    def sync_with(self, path: str) -> None:
        """Let the next plan make another file of the log's directory durable too, and its name."""
        self._unsynced.also(path)

    def sync_plan(self) -> SyncPlan | None:
        """What would make all records up to now durable; None if nothing was written since the last plan.

        Its `run` blocks and may be called beside the loop, one plan at a time. Then `synced` or
        `sync_failed` must be called.
        """
        self._catch_up()
        return self._durability.plan()

    def synced(self, plan: SyncPlan) -> None:
        """Take in that a plan has been carried out: the recovery point moves up to its end."""
        if self.failure is None:
            self._unsynced.synced(plan)

    def sync_failed(self, error: OSError) -> None:
        """Take in that a plan failed: nobody knows what is on the disk now, so nothing is added to it."""
        self._pause_lane()
        self._durability.failed(self, error)

    def sync_postponed(self) -> None:
        """Take in that a plan could not be ended and no sync has failed: the next one covers it again."""
        self._durability.postponed()

    def rewrite_plan(self) -> RewritePlan:
        """What brings all to disk that may not be there since a sync has failed.

        Its `run` blocks and may be called beside the loop. Then one of `rewritten`, `rewrite_failed` and
        `lost` must be called; until then the log cannot be cut.
        """
        self.leave_lane()
        self._cutting.forbidden = True
        return self._durability.rewrite_plan()

    def rewritten(self) -> None:
        """Take in that all is on disk again: the log goes on, unless it was retired meanwhile."""
        self._cutting.forbidden = False
        self._durability.rewritten(self)

    def rewrite_failed(self) -> None:
        """Take in that the disk still refuses."""
        self._cutting.forbidden = False

    def lost(self, damage: Damage) -> None:
        """Take in that the disk has not kept what a failed sync was about."""
        self._cutting.forbidden = False
        self.damaged_at = damage.base_offset

    # The end

    def closing_plan(self) -> SyncPlan | None:
        """What makes everything durable, so that the next start scans nothing; None if it is already.

        Carried out as a `sync_plan` is, with nothing appended any more, then the directory is synced that all
        logs lie in. StorageError if the disk refuses.
        """
        if self.failure is not None:
            raise self.failure
        self.leave_lane()
        if self.bare and not self.end_offset and not self.generation:
            return None  # Nothing is lost with files that a start makes anew where they are missing.
        return self._durability.closing_plan(self)

    def take_the_place_of(self, log: "PartitionLog", path: str) -> None:
        """Go on for a log that this is a copy of, in a directory that was renamed to `path`.

        What cannot be read from records is taken over: who has been verified, which epochs had none.
        """
        self.leave_lane()
        log.leave_lane()
        assert self.end_offset == log.end_offset, (self, log)
        old, self.path = self.path, path
        self._segments.moved_to(path)
        self._unsynced.moved(old, path)
        self.removals.moved(old, path)
        self._tail.producers = log.producers
        self._tail.epochs = log.epochs
        self.epochs.changed = True

    def retire(self, why: str = "was deleted") -> None:
        """Take no more appends. Reads go on until its files are removed."""
        self.leave_lane()
        self.failure = StorageError(f"{self.partition} {why}")
        self.in_doubt = False

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self.leave_lane()
        self._segments.close()
