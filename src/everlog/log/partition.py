"""One partition's log: segments in order; append, read, roll, truncate, move the start (L1, L3, L4)."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from everlog.log import replay, search
from everlog.log.aborted_index import AbortedTxn
from everlog.log.aborted_search import AbortedSearch
from everlog.log.appending import Appended, Origin, World
from everlog.log.checkpoint import PARTITION_METADATA
from everlog.log.compaction_swap import Swaps
from everlog.log.directory_probe import PASSING
from everlog.log.epochs import LeaderEpochs
from everlog.log.lane import Lane, LaneLimits
from everlog.log.producers import Marker, Producers
from everlog.log.recovery import Opening, RecoveryReport, load_log
from everlog.log.removal import Removals
from everlog.log.replicated import ReplicatedBatch, checked_batches, first_base
from everlog.log.retention import RetentionLimits, SegmentFacts, expired_count
from everlog.log.rewriting import Damage, DoubtfulSegment, RewritePlan
from everlog.log.search import FoundRecord, Span
from everlog.log.segment import (
    DERIVED_SUFFIXES,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    SNAPSHOT_SUFFIX,
    Segment,
    file_name,
)
from everlog.log.settings import FOREVER, LogSettings
from everlog.log.sync import SyncPlan, Unsynced
from everlog.log.validate import check_structure, validated
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import NO_EPOCH, NO_TIMESTAMP, Instant, LeaderEpoch, Offset, Timestamp
from everlog.model.topics import TopicPartition
from everlog.ports.files import FileSlice
from everlog.records.batch import CONTROL, HEADER_BYTES, TRANSACTIONAL, BatchView

__all__ = ["Appended", "Origin", "PartitionLog", "World"]

_CLIENT = Origin.CLIENT
_READ_QUICKLY_BYTES = 16 << 10


class PartitionLog:
    """The records of one partition from `start_offset` up to `end_offset`.

    One loop calls everything here. An OSError of the disk comes out as a StorageError: after a refused
    append the log is as before and may take the next one; after a failed sync it takes none until what that
    was about is on disk, see `rewrite_plan`. Reads go on in either case.
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
        self._segments: list[Segment] = loaded.segments
        self._bases: list[Offset] = [segment.base_offset for segment in loaded.segments]
        self._active: Segment = loaded.segments[-1]
        self._aborted = AbortedSearch(world.files, path, self._segments, self._bases)
        self._time_steps = search.TimeSteps()
        self.start_offset: Offset = loaded.start_offset
        """The first offset that may be read. It only rises, but for a log that is cut below it."""
        self._end_offset: Offset = self._active.end_offset
        self.lane: Lane | None = None
        """Where plain batches are appended, if there have been any; it may be ahead of what is known here."""
        self.recovery_point: Offset = loaded.recovery_point
        """All records below are durable; never above what was synced."""
        self._producers: Producers = loaded.producers
        self.epochs: LeaderEpochs = loaded.epochs
        self.report: RecoveryReport = loaded.report
        """What recovery had to do when the log was opened."""
        self.damaged_at: Offset | None = None
        """Where the first segment begins in which a read has found damaged bytes; None if none has."""
        self.failure: StorageError | None = None
        """Why the log takes no appends, if it does not."""
        self.in_doubt = False
        """Whether that is because nobody knows what is on the disk; then `rewrite_plan` may end it."""
        self._is_rewriting = False
        """Whether such a plan is under way: nothing may be cut under it."""
        self.removals = Removals(world.files)
        """The files of segments that are no longer part of the log."""
        self.before_lowering: Callable[[], None] | None = None
        """Called when `recovery_point` or `start_offset` was lowered, to make it durable before the cut."""
        self.on_trouble: Callable[[bool], None] | None = None
        """Called when the disk has refused something; with True where the log takes nothing more for it."""
        self.bare: bool = loaded.bare
        """Whether the log was opened without ever having had a record: then none of its files is durable."""
        recovered = loaded.segments if loaded.changed or loaded.bare else []
        self._unsynced = Unsynced(world.files, world.clock, path, recovered)
        self._unsynced.is_new = loaded.bare
        self.swaps = Swaps(world.files, path, (self._segments, self._bases), self._unsynced, self.removals)
        """Puts segments that compaction has rewritten into the place of the old ones (L6)."""
        self._roll_after = FOREVER
        self._roll_at_wall = FOREVER
        self._jitter_ms = 0
        self._settings = settings
        self.reconfigure(settings)

    def __repr__(self) -> str:
        return f"PartitionLog({self.partition}, {self.start_offset}..{self.end_offset})"

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record gets."""
        if self.lane is not None:
            self._catch_up()
        return self._end_offset

    @end_offset.setter
    def end_offset(self, offset: Offset) -> None:
        self._end_offset = offset

    @property
    def producers(self) -> Producers:
        """What is known of those that wrote here."""
        if self.lane is not None:
            self._catch_up()
        return self._producers

    @property
    def settings(self) -> LogSettings:
        """What the log obeys now."""
        return self._settings

    @property
    def size(self) -> int:
        """Bytes of log in all segments."""
        self._catch_up()
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; the last one is active."""
        self._catch_up()
        return tuple(self._segments)

    @property
    def generation(self) -> int:
        """Which life of the log this is: cutting it begins another."""
        return self._unsynced.generation

    @property
    def first_unstable_offset(self) -> Offset | None:
        """The first offset of the oldest transaction that is not over and replicated; None if all are."""
        return self.producers.first_unstable_offset

    def reconfigure(self, settings: LogSettings) -> None:
        """Obey other settings from now on."""
        self._pause_lane()
        self._settings = settings
        self._flushes = settings.flush_messages != FOREVER or settings.flush_ms != FOREVER
        self._takes_lanes = settings.keeps_batches and not self._flushes
        jitter = min(settings.segment_jitter_ms, settings.segment_ms)
        self._jitter_ms = self._random.below(jitter) if jitter > 0 else 0
        for segment in self._segments:
            segment.indexes.configure(settings.index_interval_bytes, settings.segment_index_bytes)
        self._watch_age(self._clock.wall())

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
        self._pause_lane()
        settings = self._settings
        marker = None
        base_offset = self.end_offset
        if origin is _CLIENT:
            batch = validated(batch, settings, wall)
            if batch.producer_id >= 0:
                sent = self.producers.check(batch)
                if sent is not None:
                    time = Timestamp(sent.timestamp) if settings.log_append_time else NO_TIMESTAMP
                    # The first answer may have been lost while its sync was still to come.
                    wait = self._flushes and sent.last_offset >= self.recovery_point
                    return Appended(Offset(sent.first_offset), Offset(sent.last_offset), time, True, wait)
                if batch.attributes & TRANSACTIONAL and settings.verify_transactions:
                    self.producers.check_verified(batch)
        else:
            marker = self._admit(batch, origin)
            if origin is Origin.REPLICA:
                base_offset, leader_epoch = Offset(batch.base_offset), LeaderEpoch(batch.leader_epoch)
        last_offset = Offset(base_offset + batch.last_offset_delta)
        active = self._active
        if (
            active.size + len(batch.raw) > settings.segment_bytes
            or batch.max_timestamp > self._roll_after
            or wall > self._roll_at_wall
            or active.indexes.full
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        ):
            active = self._append_rolls(batch, base_offset, last_offset, origin)
        was_empty = not active.size
        batch.stamp(base_offset, leader_epoch)
        try:
            active.append(batch, last_offset)
        except OSError as error:
            self._append_failed(error)
        self.end_offset = Offset(last_offset + 1)
        if leader_epoch != self.epochs.latest:
            assert leader_epoch > self.epochs.latest, (self, leader_epoch, self.epochs.latest)
            self.epochs.assign(leader_epoch, base_offset)
        if batch.producer_id >= 0:
            if marker is not None:
                self._end_txn(batch, marker, last_offset, wall)
            elif not batch.attributes & CONTROL:
                self.producers.applied(batch, base_offset, last_offset, wall)
        unsynced = self._unsynced
        unsynced.changed = True
        unsynced.records += batch.last_offset_delta + 1
        if was_empty:
            self._watch_age(wall)
        time = wall if settings.log_append_time else NO_TIMESTAMP
        return Appended(base_offset, last_offset, time, False, self._flushes and unsynced.wanted(settings))

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

    def append_replicated(self, records: memoryview, wall: Timestamp) -> bool:
        """Append what the leader sent, as it is; returns whether it has to be synced before it counts (L8).

        The batches are written together, with one write unless a segment ends between them. Refused where
        they are damaged or do not follow on, StorageError where the disk refuses; then none of those that are
        not part of the log yet will be.
        """
        if self.failure is not None:
            raise self.failure
        self.leave_lane()
        start = self.start_offset
        if start == self.end_offset and len(records) >= HEADER_BYTES and first_base(records) < start:
            # The log begins in the middle of a batch, as the leader's does since records were deleted.
            self.restart_at(first_base(records))
        batches = checked_batches(records, self.end_offset, self.epochs.latest)
        at = 0
        while at < len(batches):
            count = self._count_for_segment(batches, at, wall)
            self._write_replicated(batches[at : at + count], wall)
            at += count
        self.move_start_to(min(start, self.end_offset))
        return bool(batches) and self._flushes and self._unsynced.wanted(self._settings)

    def _count_for_segment(self, batches: list[ReplicatedBatch], at: int, wall: Timestamp) -> int:
        """How many batches from `at` on go to the active segment, which may be new for them; at least one."""
        first = batches[at].batch
        if self._must_roll(first, wall):
            self._append_rolls(first, Offset(first.base_offset), first.last_offset, Origin.REPLICA)
        active = self._active
        room = self._settings.segment_bytes - active.size - len(first.raw)
        count = 1
        for batch, _ in batches[at + 1 :]:
            room -= len(batch.raw)
            if (
                room < 0
                or batch.max_timestamp > self._roll_after
                or batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            ):
                break
            count += 1
        return count

    def _must_roll(self, batch: BatchView, wall: Timestamp) -> bool:
        active = self._active
        return (
            active.size + len(batch.raw) > self._settings.segment_bytes
            or batch.max_timestamp > self._roll_after
            or wall > self._roll_at_wall
            or active.indexes.full
            or batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def _write_replicated(self, batches: list[ReplicatedBatch], wall: Timestamp) -> None:
        active = self._active
        was_empty = not active.size
        try:
            active.append_together([batch for batch, _ in batches])
        except OSError as error:
            self._append_failed(error)
        self.end_offset = active.end_offset
        unsynced = self._unsynced
        unsynced.changed = True
        for batch, marker in batches:
            if batch.leader_epoch != self.epochs.latest:
                self.epochs.assign(LeaderEpoch(batch.leader_epoch), Offset(batch.base_offset))
            if batch.producer_id >= 0:
                if marker is not None:
                    self._end_txn(batch, marker, Offset(batch.last_offset), wall)
                elif not batch.attributes & CONTROL:
                    self.producers.applied(batch, batch.base_offset, batch.last_offset, wall)
            unsynced.records += batch.last_offset_delta + 1
        if was_empty:
            self._watch_age(wall)

    # The short way in

    def enter_lane(self, make: Callable[[], Lane], leader_epoch: LeaderEpoch, producer_id: int) -> bool:
        """Let plain batches be appended through the log's lane, those of this producer (-1: of none) too.

        False if they cannot be, for what the log or the producer is like now; `append` is right then.
        """
        self._catch_up()
        active = self._active
        if (
            not self._takes_lanes
            or self.failure is not None
            or leader_epoch != self.epochs.latest
            or not active.size
            or active.indexes.full
        ):
            return False
        following = self.producers.next_of(producer_id) if producer_id >= 0 else None
        if producer_id >= 0 and following is None:
            return False
        settings = self._settings
        try:
            appender, until = active.file.lend() or (None, FOREVER)
        except OSError:
            return False  # It has no descriptor and gets none. `append` finds the same, and says so.
        limits = LaneLimits(
            min(settings.segment_bytes, until),
            active.base_offset + MAX_RELATIVE_OFFSET,
            settings.max_message_bytes,
            settings.timestamp_after_max_ms,
            min(self._roll_after, FOREVER),
            min(self._roll_at_wall, FOREVER),
            settings.cleanup_compact,
        )
        if self.lane is None:
            self.lane = make()
        self.lane.enter(
            active.file, appender, active.size, self._end_offset, leader_epoch, active.indexes.room, limits
        )
        if following is not None:
            self.lane.admit(producer_id, *following)
        return True

    def leave_lane(self) -> None:
        """Take no more batches through the lane, and lend the file no more."""
        if self.lane is not None:
            self._catch_up()
            self.lane.leave()
            self.lane = None
            file = self._active.file
            file.take_back()
            with suppress(OSError):  # It must work before the segment is sealed, and only then.
                file.trim()

    def _pause_lane(self) -> None:
        """Take no batches through the lane before `enter_lane`: what it knows is about to change."""
        if self.lane is not None:
            self._catch_up()
            self.lane.pause()

    def _catch_up(self) -> None:
        """Take in what was appended through the lane."""
        lane = self.lane
        if lane is None or not lane.pending:
            return
        batches = lane.drain()
        self._active.grown(batches, lane.position, lane.end_offset)
        self._unsynced.changed = True
        self._unsynced.records += lane.end_offset - self._end_offset
        self._end_offset = self._active.end_offset
        heard_at = lane.wall
        for batch in batches:
            if batch[5] >= 0:
                self._producers.applied_in_lane(batch, heard_at)

    def _admit(self, batch: BatchView, origin: Origin) -> Marker | None:
        """Check a batch that no client sent; returns what it ends if it is a transaction's marker."""
        check_structure(batch)
        if origin is Origin.REPLICA:
            if batch.base_offset < self.end_offset or batch.leader_epoch < self.epochs.latest:
                raise Refused(
                    ErrorCode.INVALID_RECORD,
                    f"{batch} does not follow offset {self.end_offset} and epoch {self.epochs.latest}",
                )
        elif len(batch.raw) > self._settings.max_message_bytes:
            raise Refused(
                ErrorCode.MESSAGE_TOO_LARGE, f"{batch} is above {self._settings.max_message_bytes} bytes"
            )
        if batch.producer_id < 0:
            return None
        marker = replay.marker_of(batch) if batch.attributes & CONTROL else None
        if origin is not Origin.REPLICA:
            self.producers.check_epoch(batch, marker)
        return marker

    def _append_rolls(
        self, batch: BatchView, base_offset: Offset, last_offset: int, origin: Origin
    ) -> Segment:
        """Return the segment that the batch goes to, a new one unless the active one is empty and fits."""
        if origin is not Origin.REPLICA and len(batch.raw) > self._settings.segment_bytes:
            raise Refused(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the record batch has {batch.size} bytes, a segment holds {self._settings.segment_bytes}",
            )
        if self._active.size or last_offset - self._active.base_offset > MAX_RELATIVE_OFFSET:
            # A leader's compaction may have left a gap here. The new segment begins before it, where it can:
            # then recovery takes a gap between segments for what it is, a segment that lost its end.
            too_far = last_offset - self.end_offset > MAX_RELATIVE_OFFSET
            self._roll(base_offset if too_far else self.end_offset)
        return self._active

    def _append_failed(self, error: OSError) -> NoReturn:
        refusal = self._refused("cannot be written", error)
        if self._active.file.broken:
            self.failure = refusal
            self.in_doubt = True
        raise refusal from error

    def _refused(self, what: str, error: Exception, *, lasting: bool = False) -> StorageError:
        """Return what to raise where the disk has refused something; who looks after the disk is told."""
        if self.on_trouble is not None and isinstance(error, OSError):
            self.on_trouble(lasting)
        return StorageError(f"{self.partition} {what}: {error}")

    def _end_txn(self, batch: BatchView, marker: Marker, offset: Offset, wall: Timestamp) -> None:
        aborted = self.producers.ended(batch, marker, offset, wall)
        if aborted is not None:
            self._active.add_aborted(aborted)

    def roll(self) -> None:
        """Seal the active segment and begin the next one, unless nothing is in it yet."""
        if self._active.size:
            self._roll(self.end_offset)

    def _roll(self, base_offset: Offset) -> None:
        """Seal the active segment and begin another at `base_offset`; StorageError leaves all as it was."""
        self.leave_lane()
        old = self._active
        try:
            replay.write_snapshot(self._files, self.path, base_offset, self.producers)
            old.save_for_seal()
            new = Segment.create(self._files, self.path, base_offset, self._settings.index_interval_bytes)
        except OSError as error:
            raise self._refused("cannot begin a segment", error) from error
        old.seal()
        old.end_offset = base_offset
        new.indexes.configure(self._settings.index_interval_bytes, self._settings.segment_index_bytes)
        self._segments.append(new)
        self._bases.append(base_offset)
        self._active = new
        self._unsynced.sealed.append(old)
        self._unsynced.names_changed = self._unsynced.changed = True
        # What is known of it is taken in now: a lookup that did so for thousands would take a while.
        self._time_steps.learn(None, self._segments, self._life, lambda: True)
        self._watch_age(self._clock.wall())

    def _watch_age(self, wall: Timestamp) -> None:
        """Set when the active segment is too old: by its first batch's time, or ours if that has none."""
        self._roll_after = self._roll_at_wall = FOREVER
        if self._active.size:
            age_ms = self._settings.segment_ms - self._jitter_ms
            first = self._active.indexes.first_timestamp
            if first >= 0:
                self._roll_after = first + age_ms
            else:
                self._roll_at_wall = wall + age_ms

    # Reading

    def read(
        self, offset: Offset, max_bytes: int, end_offset: Offset, at_least_one: bool = True
    ) -> FileSlice | None:
        """Return the whole batches from the one that holds `offset` on, all below `end_offset`.

        Up to `max_bytes`, but for a first batch that is larger where `at_least_one` asks for it; at most to
        the end of a segment. None if nothing may be sent. OFFSET_OUT_OF_RANGE if the log does not have
        `offset` and will not have it next. Every byte was proved: CorruptDataError instead of a bad one.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition} has offsets {self.start_offset} to {self.end_offset}, found {offset}",
            )
        end_offset = min(end_offset, self.end_offset)
        if offset >= end_offset:
            return None
        try:
            for at in range(search.segment_index(self._bases, offset), len(self._segments)):
                segment = self._segments[at]
                first = segment.find(offset)
                if first is not None:
                    limits = search.ReadLimits(max_bytes, end_offset, at_least_one)
                    return search.read_slice(segment, first, limits, self.epochs)
        except OSError as error:
            raise self._refused(f"cannot be read at {offset}", error) from error
        except CorruptDataError:
            damaged = self._bases[search.segment_index(self._bases, offset)]
            self.damaged_at = damaged if self.damaged_at is None else min(damaged, self.damaged_at)
            raise
        return None

    def offset_for_time(self, timestamp: Timestamp, end_offset: Offset) -> FoundRecord | None:
        """The first record below `end_offset` whose timestamp is at least `timestamp` (L7)."""
        self._catch_up()
        try:
            first = self._time_steps.first_for(timestamp, self._segments, self._life)
            span = Span(self.start_offset, end_offset)
            return search.record_at_time(self._segments[first:], self.epochs, timestamp, span)
        except OSError as error:
            raise self._refused("cannot be searched", error) from error

    def offset_of_max_timestamp(self, end_offset: Offset) -> FoundRecord | None:
        """The first record that has the largest timestamp of the log; None if none has a timestamp."""
        self._catch_up()
        try:
            newest = self._segments[self._time_steps.newest(self._segments, self._life)]
            span = Span(self.start_offset, end_offset)
            return search.record_of_max_timestamp(newest, self._active, self.epochs, span)
        except OSError as error:
            raise self._refused("cannot be searched", error) from error

    def learn_times(self, timestamp: Timestamp | None, enough: Callable[[], bool]) -> bool:
        """Look at segments until `offset_for_time`, or for None `offset_of_max_timestamp`, need look at none.

        False where `enough` has ended it before. Only segments that were sealed before this process began,
        and that no lookup has come to yet, have to be looked at.
        """
        try:
            return self._time_steps.learn(timestamp, self._segments, self._life, enough)
        except OSError as error:
            raise self._refused("cannot be searched", error) from error

    @property
    def _life(self) -> search.Life:
        return self.generation, self.swaps.count

    def aborted_between(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        """The aborted transactions that have records between two offsets, in the order of their markers."""
        try:
            return self._aborted.between(start, end)
        except OSError as error:
            raise self._refused("cannot be searched", error) from error

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Where readers of committed records stop: before the first transaction that is not over."""
        self.producers.replicated(high_watermark)
        unstable = self.producers.first_unstable_offset
        return high_watermark if unstable is None else min(unstable, high_watermark)

    # Cutting and retention

    def truncate_to(self, offset: Offset) -> None:
        """Cut the log so that it ends at `offset`, or before the batch that holds it."""
        if offset >= self.end_offset:
            return
        if offset < self._bases[0]:
            self.restart_at(offset)
            return
        try:
            at = search.segment_index(self._bases, offset)
            first = self._segments[at].find(offset)
            if first is not None:
                offset = min(offset, Offset(first.base_offset))
            self._cut(at + 1, offset)
        except (OSError, CorruptDataError) as error:
            self.failure = self._refused(f"cannot be cut at {offset}", error, lasting=True)
            raise self.failure from error

    def restart_at(self, offset: Offset) -> None:
        """Throw away all records and begin again at `offset`."""
        self.leave_lane()
        self._lower_to(offset)
        try:
            self._drop_segments(0)
            replay.drop_snapshots(self._files, self.path, Offset(-1))
            self._active = Segment.create(self._files, self.path, offset, self._settings.index_interval_bytes)
        except OSError as error:
            self.failure = self._refused(f"cannot begin again at {offset}", error, lasting=True)
            raise self.failure from error
        self._active.indexes.configure(
            self._settings.index_interval_bytes, self._settings.segment_index_bytes
        )
        self._segments.append(self._active)
        self._bases.append(offset)
        self.start_offset = self.end_offset = offset
        self._producers = Producers()
        self.epochs.truncate_end(Offset(0))
        self._watch_age(self._clock.wall())

    def give_up_damaged(self) -> Offset:
        """Give up the segment that was found damaged and all behind it; returns where the log ends then."""
        assert self.damaged_at is not None, self.partition
        at = search.segment_index(self._bases, self.damaged_at)
        damaged, self.damaged_at = self._bases[at], None
        if at == 0:
            self.restart_at(self.start_offset)
        else:
            try:
                self._cut(at, damaged)
            except (OSError, CorruptDataError) as error:
                self.failure = self._refused(f"cannot be cut at {damaged}", error, lasting=True)
                self.in_doubt = False
                raise self.failure from error
        if self.in_doubt:
            # All before it was brought to disk anew, and what comes behind it now is new.
            self.failure = None
            self.in_doubt = False
        return self.end_offset

    def _cut(self, at: int, offset: Offset) -> None:
        """Drop the segments from the one at `at` on, and of the one before what lies behind `offset`."""
        self.leave_lane()
        self._lower_to(offset)
        self._drop_segments(at)
        self._active.unseal()
        self.end_offset = self._active.truncate_to(offset)
        replay.drop_snapshots(self._files, self.path, self.end_offset)
        self._producers = replay.load_producers(
            self._files, self.path, self._segments, self.end_offset, self._clock.wall()
        )
        self.epochs.truncate_end(self.end_offset)
        self._watch_age(self._clock.wall())

    def _lower_to(self, offset: Offset) -> None:
        """Make it durable that nothing from `offset` on is, before other bytes take those places."""
        if self._is_rewriting:
            raise StorageError(f"{self.partition} cannot be cut while it is written to disk anew")
        self._unsynced.begin_generation()
        if self.recovery_point > offset or self.start_offset > offset:
            self.recovery_point = min(self.recovery_point, offset)
            self.start_offset = min(self.start_offset, offset)
            if self.before_lowering is not None:
                self.before_lowering()

    def _drop_segments(self, first: int) -> None:
        """Take the segments from the one at `first` on out of the log, the newest first."""
        due = Instant(self._clock.now() + self._settings.file_delete_delay_ms)
        self.swaps.settle(due)
        while len(self._segments) > first:
            segment = self._segments[-1]
            self.removals.shelve_now(segment, due)
            self._segments.pop()
            self._bases.pop()
            self._unsynced.forget(segment)
        # Before anything takes their place: a segment that came back after a crash would follow the new end.
        self._files.sync_dir(self.path)
        if self._segments:
            self._active = self._segments[-1]

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
        limits = RetentionLimits(wall, self.size, self.start_offset, high_watermark)
        try:
            count = expired_count(self._retention_facts(), self._settings, limits)
        except OSError as error:
            raise self._refused("cannot be looked through", error) from error
        if count:
            if count == len(self._segments):
                self._roll(self.end_offset)
            gone = self._segments[:count]
            del self._segments[:count], self._bases[:count]
            for segment in gone:
                self._unsynced.forget(segment)
            self.removals.condemn(gone)
            self.move_start_to(self._bases[0])
        return self.removals.waiting

    def expire_producers(self, wall: Timestamp) -> None:
        """Forget producers that have been silent for long enough."""
        self._pause_lane()
        self.producers.expire(wall, self._settings.producer_id_expiration_ms)

    def _retention_facts(self) -> Iterator[SegmentFacts]:
        for segment in self._segments:
            if segment is self._active and not segment.size:
                return
            timestamp = segment.largest_timestamp()[0]
            if timestamp < 0:
                timestamp = self._files.modified(segment.stem + LOG_SUFFIX)
            yield SegmentFacts(segment.end_offset, segment.size, timestamp)

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
        if path not in self._unsynced.others:
            self._unsynced.others.append(path)
        self._unsynced.changed = self._unsynced.names_changed = True

    def sync_plan(self) -> SyncPlan | None:
        """What would make all records up to now durable; None if nothing was written since the last plan.

        Its `run` blocks and may be called beside the loop, one plan at a time. Then `synced` or
        `sync_failed` must be called.
        """
        return self._unsynced.plan(self._active, self.end_offset, self.epochs)

    def synced(self, plan: SyncPlan) -> None:
        """Take in that a plan has been carried out: the recovery point moves up to its end."""
        if plan.generation == self._unsynced.generation and self.failure is None:
            self.recovery_point = max(self.recovery_point, plan.end_offset)

    def sync_failed(self, error: OSError) -> None:
        """Take in that a plan failed: nobody knows what is on the disk now, so nothing is added to it."""
        self._pause_lane()
        # One that was deleted meanwhile had its files renamed under the sync.
        first = self.failure is None
        lasting = first and error.errno not in PASSING
        self.failure = self._refused("cannot be synced", error, lasting=lasting)
        self.in_doubt = self.in_doubt or first

    def sync_postponed(self) -> None:
        """Take in that a plan could not be ended and no sync has failed: the next one covers it again."""
        if self.on_trouble is not None:
            self.on_trouble(False)
        self._unsynced.begin_anew(self._sealed_behind_recovery_point(), self.epochs)

    def _sealed_behind_recovery_point(self) -> list[Segment]:
        return [
            segment
            for segment in self._segments[:-1]
            if segment.end_offset > self.recovery_point or segment.broken
        ]

    def rewrite_plan(self) -> RewritePlan:
        """What brings all to disk that may not be there since a sync has failed.

        Its `run` blocks and may be called beside the loop. Then one of `rewritten`, `rewrite_failed` and
        `lost` must be called; until then the log cannot be cut.
        """
        self.leave_lane()
        self._is_rewriting = True
        sealed = self._sealed_behind_recovery_point()
        derived = [segment.stem + suffix for segment in sealed for suffix in DERIVED_SUFFIXES]
        derived += [self._active.stem + SNAPSHOT_SUFFIX, f"{self.path}/{PARTITION_METADATA}"]
        return RewritePlan(
            self._files,
            tuple(
                DoubtfulSegment(segment.base_offset, segment.end_offset, segment.file, segment.size)
                for segment in (*sealed, self._active)
            ),
            tuple(derived),
            self.recovery_point,
        )

    def rewritten(self) -> None:
        """Take in that all is on disk again: the log goes on, unless it was retired meanwhile."""
        self._is_rewriting = False
        if self.in_doubt:
            self._unsynced.begin_anew(self._sealed_behind_recovery_point(), self.epochs)
            self.failure = None
            self.in_doubt = False

    def rewrite_failed(self) -> None:
        """Take in that the disk still refuses."""
        self._is_rewriting = False

    def lost(self, damage: Damage) -> None:
        """Take in that the disk has not kept what a failed sync was about."""
        self._is_rewriting = False
        self.damaged_at = damage.base_offset

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
        if not self._unsynced.changed and self.recovery_point == self.end_offset:
            return None
        self._unsynced.changed = True
        self._unsynced.is_new = False  # One sync of that directory will do for all.
        try:
            replay.write_snapshot(self._files, self.path, self.end_offset, self.producers)
            replay.remove_snapshots(self._files, self.path, self._segments, keep=self.end_offset)
            return self.sync_plan() if self._reads_quickly() else self._plan_with_derived()
        except OSError as error:
            self.sync_failed(error)
            raise StorageError(f"{self.partition} cannot be closed: {error}") from error

    def _reads_quickly(self) -> bool:
        """Whether little is lost if a crash after the stop takes what is derived from the active segment."""
        active = self._active
        most = min(self._settings.index_interval_bytes, _READ_QUICKLY_BYTES)
        return active.size <= most and not active.may_have_aborted

    def _plan_with_derived(self) -> SyncPlan:
        self._active.save_for_seal()
        self._unsynced.names_changed = True
        self._unsynced.sealed.append(self._active)
        plan = self.sync_plan()
        assert plan is not None
        snapshot = f"{self.path}/{file_name(self.end_offset, SNAPSHOT_SUFFIX)}"
        return replace(plan, derived=(*plan.derived, snapshot))

    def take_the_place_of(self, log: "PartitionLog", path: str) -> None:
        """Go on for a log that this is a copy of, in a directory that was renamed to `path`.

        What cannot be read from records is taken over: who has been verified, which epochs had none.
        """
        self.leave_lane()
        log.leave_lane()
        assert self.end_offset == log.end_offset, (self, log)
        old, self.path = self.path, path
        for segment in self._segments:
            segment.moved_to(path)
        self._unsynced.moved(old, path)
        self.removals.moved(old, path)
        self._aborted = AbortedSearch(self._files, path, self._segments, self._bases)
        self.swaps = Swaps(self._files, path, (self._segments, self._bases), self._unsynced, self.removals)
        self._producers = log.producers
        self.epochs = log.epochs
        self.epochs.changed = True

    def retire(self, why: str = "was deleted") -> None:
        """Take no more appends. Reads go on until its files are removed."""
        self.leave_lane()
        self.failure = StorageError(f"{self.partition} {why}")
        self.in_doubt = False

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self.leave_lane()
        for segment in self._segments:
            segment.close()
