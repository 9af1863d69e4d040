"""The end of one log: what is appended there, how, and what is known of all that was (L1, L3)."""

from collections.abc import Callable
from contextlib import suppress

from everlog.log import replay
from everlog.log.appending import Appended, Origin, World
from everlog.log.epochs import LeaderEpochs
from everlog.log.lane import Lane, LaneLimits
from everlog.log.producers import Marker, Producers
from everlog.log.recovery import Loaded
from everlog.log.replicated import ReplicatedBatch, not_following
from everlog.log.segment import MAX_RELATIVE_OFFSET, Segment
from everlog.log.segments import SegmentList
from everlog.log.settings import FOREVER, LogSettings
from everlog.log.sync import Unsynced
from everlog.log.trouble import Trouble
from everlog.log.validate import check_structure, validated
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_TIMESTAMP, Instant, LeaderEpoch, Offset, Timestamp
from everlog.records.batch import CONTROL, TRANSACTIONAL, BatchView

_CLIENT = Origin.CLIENT


class NotWrittenError(Exception):
    """The disk has refused the bytes of a batch: what was to be appended from there on is not in the log."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Tail:
    """Where a log goes on, and what is known of the records before that.

    It is told its settings before all else. It does not hold the log's lane: whoever calls has taken in
    first, by `catch_up`, what was appended through that.
    """

    __slots__ = (
        "_clock",
        "_files",
        "_flushes",
        "_takes_lanes",
        "_trouble",
        "_unsynced",
        "end_offset",
        "epochs",
        "producers",
        "segments",
        "settings",
    )

    def __init__(
        self, world: World, loaded: Loaded, segments: SegmentList, unsynced: Unsynced, trouble: Trouble
    ) -> None:
        self._files = world.files
        self._clock = world.clock
        self._unsynced = unsynced
        self._trouble = trouble
        self.segments = segments
        self.end_offset: Offset = segments.active.end_offset
        """The offset that the next record gets."""
        self.producers: Producers = loaded.producers
        self.epochs: LeaderEpochs = loaded.epochs

    def configure(self, settings: LogSettings) -> None:
        """Obey other settings from now on."""
        self.settings = settings
        self._flushes = settings.flush_messages != FOREVER or settings.flush_ms != FOREVER
        self._takes_lanes = settings.keeps_batches and not self._flushes

    # Appending

    def append(
        self,
        batch: BatchView,
        leader_epoch: LeaderEpoch,
        wall: Timestamp,
        origin: Origin,
        leave_lane: Callable[[], None],
    ) -> Appended:
        """Give a batch the next offsets and write it; a batch that is there already gets its old ones.

        The lane ends with its segment, so it is left before that is sealed. Refused where the batch breaks a
        rule, NotWrittenError where the disk refuses its bytes, StorageError where it refuses a new segment.
        """
        settings = self.settings
        marker = None
        base_offset = self.end_offset
        if origin is _CLIENT:
            batch = validated(batch, settings, wall)
            if batch.producer_id >= 0:
                sent = self.producers.check(batch)
                if sent is not None:
                    time = Timestamp(sent.timestamp) if settings.log_append_time else NO_TIMESTAMP
                    # The first answer may have been lost while its sync was still to come.
                    wait = self._flushes and sent.last_offset >= self._unsynced.recovery_point
                    return Appended(Offset(sent.first_offset), Offset(sent.last_offset), time, True, wait)
                if batch.attributes & TRANSACTIONAL and settings.verify_transactions:
                    self.producers.check_verified(batch)
        else:
            marker = self._admit(batch, origin)
            if origin is Origin.REPLICA:
                base_offset, leader_epoch = Offset(batch.base_offset), LeaderEpoch(batch.leader_epoch)
        last_offset = Offset(base_offset + batch.last_offset_delta)
        segments = self.segments
        active = segments.active
        if (
            active.size + len(batch.raw) > settings.segment_bytes
            or batch.max_timestamp > segments.roll_after
            or wall > segments.roll_at_wall
            or active.indexes.full
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        ):
            if origin is not Origin.REPLICA:
                self._check_fits(batch)
            leave_lane()
            active = self._append_rolls(base_offset, last_offset)
        was_empty = not active.size
        batch.stamp(base_offset, leader_epoch)
        try:
            active.append(batch, last_offset)
        except OSError as error:
            raise NotWrittenError(error) from error
        self.end_offset = Offset(last_offset + 1)
        if leader_epoch != self.epochs.latest:
            assert leader_epoch > self.epochs.latest, (segments.path, leader_epoch, self.epochs.latest)
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
            segments.watch_age(wall)
        time = wall if settings.log_append_time else NO_TIMESTAMP
        return Appended(base_offset, last_offset, time, False, self._flushes and unsynced.wanted(settings))

    def _admit(self, batch: BatchView, origin: Origin) -> Marker | None:
        """Check a batch that no client sent; returns what it ends if it is a transaction's marker."""
        check_structure(batch)
        if origin is Origin.REPLICA:
            if batch.base_offset < self.end_offset or batch.leader_epoch < self.epochs.latest:
                raise not_following(batch, self.end_offset, self.epochs.latest)
        elif len(batch.raw) > self.settings.max_message_bytes:
            raise Refused(
                ErrorCode.MESSAGE_TOO_LARGE, f"{batch} is above {self.settings.max_message_bytes} bytes"
            )
        if batch.producer_id < 0:
            return None
        marker = replay.marker_of(batch) if batch.attributes & CONTROL else None
        if origin is not Origin.REPLICA:
            self.producers.check_epoch(batch, marker)
        return marker

    def _end_txn(self, batch: BatchView, marker: Marker, offset: Offset, wall: Timestamp) -> None:
        aborted = self.producers.ended(batch, marker, offset, wall)
        if aborted is not None:
            self.segments.active.add_aborted(aborted)

    def append_replicated(self, batches: list[ReplicatedBatch], wall: Timestamp) -> bool:
        """Write the leader's batches as they are; returns whether they have to be synced before they count.

        They follow the log's end and are proved. NotWrittenError where the disk refuses one: then those
        before it may be in the log, and none from there on is.
        """
        segments = self.segments
        at = 0
        while at < len(batches):
            first = batches[at].batch
            if segments.must_roll(first, wall):
                self._append_rolls(Offset(first.base_offset), first.last_offset)
            count = segments.fitting(batches, at)
            self._write_replicated(batches[at : at + count], wall)
            at += count
        return bool(batches) and self._flushes and self._unsynced.wanted(self.settings)

    def _write_replicated(self, batches: list[ReplicatedBatch], wall: Timestamp) -> None:
        active = self.segments.active
        was_empty = not active.size
        try:
            active.append_together([batch for batch, _ in batches])
        except OSError as error:
            raise NotWrittenError(error) from error
        self.end_offset = active.end_offset
        epochs, unsynced = self.epochs, self._unsynced
        unsynced.changed = True
        for batch, marker in batches:
            if batch.leader_epoch != epochs.latest:
                epochs.assign(LeaderEpoch(batch.leader_epoch), Offset(batch.base_offset))
            if batch.producer_id >= 0:
                if marker is not None:
                    self._end_txn(batch, marker, Offset(batch.last_offset), wall)
                elif not batch.attributes & CONTROL:
                    self.producers.applied(batch, batch.base_offset, batch.last_offset, wall)
            unsynced.records += batch.last_offset_delta + 1
        if was_empty:
            self.segments.watch_age(wall)

    # The lane

    def open_lane(
        self, lane: Lane | None, make: Callable[[], Lane], leader_epoch: LeaderEpoch, producer_id: int
    ) -> Lane | None:
        """Let plain batches be appended through a lane, made if there is none, those of this producer too.

        None if they cannot be, for what the log or the producer is like now.
        """
        active = self.segments.active
        if (
            not self._takes_lanes
            or leader_epoch != self.epochs.latest
            or not active.size
            or active.indexes.full
        ):
            return None
        following = self.producers.next_of(producer_id) if producer_id >= 0 else None
        if producer_id >= 0 and following is None:
            return None
        try:
            appender, until = active.file.lend() or (None, FOREVER)
        except OSError:
            return None  # It has no descriptor and gets none. `append` finds the same, and says so.
        settings = self.settings
        limits = LaneLimits(
            min(settings.segment_bytes, until),
            active.base_offset + MAX_RELATIVE_OFFSET,
            settings.max_message_bytes,
            settings.timestamp_after_max_ms,
            min(self.segments.roll_after, FOREVER),
            min(self.segments.roll_at_wall, FOREVER),
            settings.cleanup_compact,
        )
        if lane is None:
            lane = make()
        lane.enter(
            active.file, appender, active.size, self.end_offset, leader_epoch, active.indexes.room, limits
        )
        if following is not None:
            lane.admit(producer_id, *following)
        return lane

    def close_lane(self, lane: Lane) -> None:
        """Let nothing more be appended through the lane, and lend the file no more."""
        lane.leave()
        file = self.segments.active.file
        file.take_back()
        with suppress(OSError):  # It must work before the segment is sealed, and only then.
            file.trim()

    def catch_up(self, lane: Lane) -> None:
        """Take in what was appended through the lane."""
        batches = lane.drain()
        active = self.segments.active
        active.grown(batches, lane.position, lane.end_offset)
        unsynced = self._unsynced
        unsynced.changed = True
        unsynced.records += lane.end_offset - self.end_offset
        self.end_offset = active.end_offset
        heard_at = lane.wall
        for batch in batches:
            if batch[5] >= 0:
                self.producers.applied_in_lane(batch, heard_at)

    # Rolling and cutting

    def _check_fits(self, batch: BatchView) -> None:
        if len(batch.raw) > self.settings.segment_bytes:
            raise Refused(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the record batch has {batch.size} bytes, a segment holds {self.settings.segment_bytes}",
            )

    def _append_rolls(self, base_offset: Offset, last_offset: int) -> Segment:
        """Return the segment that a batch goes to, a new one unless the active one is empty and fits."""
        segments = self.segments
        if segments.active.size or last_offset - segments.active.base_offset > MAX_RELATIVE_OFFSET:
            # A leader's compaction may have left a gap here. The new segment begins before it, where it can:
            # then recovery takes a gap between segments for what it is, a segment that lost its end.
            too_far = last_offset - self.end_offset > MAX_RELATIVE_OFFSET
            self.roll(base_offset if too_far else self.end_offset)
        return segments.active

    def roll(self, base_offset: Offset) -> None:
        """Seal the active segment and begin another at `base_offset`; StorageError leaves all as it was."""
        try:
            replay.write_snapshot(self._files, self.segments.path, base_offset, self.producers)
            self.segments.roll(base_offset)
        except OSError as error:
            raise self._trouble.refused("cannot begin a segment", error) from error

    def cut(self, at: int, offset: Offset, due: Instant) -> None:
        """Drop the segments from the one at `at` on, and of the one before what lies behind `offset`."""
        segments, files = self.segments, self._files
        segments.drop_from(at, due)
        segments.active.unseal()
        end = self.end_offset = segments.active.truncate_to(offset)
        replay.drop_snapshots(files, segments.path, end)
        self.producers = replay.load_producers(
            files, segments.path, segments.in_order, end, self._clock.wall()
        )
        self.epochs.truncate_end(end)
        segments.watch_age(self._clock.wall())

    def begin_again(self, offset: Offset, due: Instant) -> None:
        """Throw away all records and begin again at `offset`."""
        self.segments.drop_from(0, due)
        replay.drop_snapshots(self._files, self.segments.path, Offset(-1))
        self.segments.begin(offset)
        self.end_offset = offset
        self.producers = Producers()
        self.epochs.truncate_end(Offset(0))
