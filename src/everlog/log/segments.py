"""The segments of one log in order: the last one rolls, the oldest expire, the newest are cut off (L3)."""

from collections.abc import Callable, Sequence

from everlog.log.removal import Removals
from everlog.log.replicated import ReplicatedBatch
from everlog.log.search import Life, TimeSteps
from everlog.log.segment import MAX_RELATIVE_OFFSET, Segment
from everlog.log.settings import FOREVER, LogSettings
from everlog.log.sync import Unsynced
from everlog.model.ids import Instant, Offset, Timestamp
from everlog.ports.files import Files
from everlog.records.batch import BatchView


class SegmentList:
    """A log's segments and their base offsets, from the oldest to the active one.

    It is told its settings before all else. Files of segments that leave the log go to its removals, and what
    is still to be synced is told of all that come and go. An OSError of the disk comes out as it is.
    """

    __slots__ = (
        "_files",
        "_jitter_ms",
        "_removals",
        "_settings",
        "_swapped",
        "_time_steps",
        "_unsynced",
        "active",
        "bases",
        "in_order",
        "path",
        "roll_after",
        "roll_at_wall",
    )

    def __init__(
        self, files: Files, path: str, segments: list[Segment], unsynced: Unsynced, removals: Removals
    ) -> None:
        self._files = files
        self._unsynced = unsynced
        self._removals = removals
        self.path = path
        """The log's directory."""
        self.in_order = segments
        """All of them, oldest first."""
        self.bases: list[Offset] = [segment.base_offset for segment in segments]
        """Their base offsets: which segment holds an offset is found here."""
        self.active: Segment = segments[-1]
        """The last one, which takes batches."""
        self.roll_after: int = FOREVER
        """The largest timestamp that the active segment may have: beyond it, it is too old."""
        self.roll_at_wall: int = FOREVER
        """When the active segment is too old by the clock, if its batches do not say."""
        self._swapped = 0
        self._time_steps = TimeSteps()

    def configure(self, settings: LogSettings, jitter_ms: int, wall: Timestamp) -> None:
        """Obey other settings from now on; the active segment may get `jitter_ms` less old than they say."""
        self._settings = settings
        self._jitter_ms = jitter_ms
        for segment in self.in_order:
            segment.indexes.configure(settings.index_interval_bytes, settings.segment_index_bytes)
        self.watch_age(wall)

    def __len__(self) -> int:
        return len(self.in_order)

    @property
    def size(self) -> int:
        """Bytes of log in all segments."""
        return sum(segment.size for segment in self.in_order)

    def sealed_above(self, offset: Offset) -> list[Segment]:
        """The sealed segments that have records from `offset` on, or a file that takes no more."""
        return [segment for segment in self.in_order[:-1] if segment.end_offset > offset or segment.broken]

    # Rolling

    def must_roll(self, batch: BatchView, wall: Timestamp) -> bool:
        """Whether a batch with its place stamped must not go to the active segment."""
        active = self.active
        return (
            active.size + len(batch.raw) > self._settings.segment_bytes
            or batch.max_timestamp > self.roll_after
            or wall > self.roll_at_wall
            or active.indexes.full
            or batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def fitting(self, batches: Sequence[ReplicatedBatch], at: int) -> int:
        """How many batches from `at` on go to the active segment together; one at least, whatever it is."""
        active = self.active
        room = self._settings.segment_bytes - active.size - len(batches[at].batch.raw)
        count = 1
        for batch, _ in batches[at + 1 :]:
            room -= len(batch.raw)
            if (
                room < 0
                or batch.max_timestamp > self.roll_after
                or batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            ):
                break
            count += 1
        return count

    def roll(self, base_offset: Offset) -> None:
        """Seal the active segment and begin another at `base_offset`; OSError leaves all as it was."""
        old = self.active
        old.save_for_seal()
        new = self._made(base_offset)
        old.seal()
        old.end_offset = base_offset
        self._add(new)
        self._unsynced.sealed.append(old)
        self._unsynced.names_changed = self._unsynced.changed = True
        # What is known of it is taken in now: a lookup that did so for thousands would take a while.
        self.learn_times(None, lambda: True)

    def begin(self, base_offset: Offset) -> None:
        """Begin another segment behind those that there are, if any."""
        self._add(self._made(base_offset))

    def _made(self, base_offset: Offset) -> Segment:
        settings = self._settings
        new = Segment.create(self._files, self.path, base_offset, settings.index_interval_bytes)
        new.indexes.configure(settings.index_interval_bytes, settings.segment_index_bytes)
        return new

    def _add(self, new: Segment) -> None:
        self.in_order.append(new)
        self.bases.append(new.base_offset)
        self.active = new
        self.roll_after = self.roll_at_wall = FOREVER  # It has no age before its first batch.

    def watch_age(self, wall: Timestamp) -> None:
        """Set when the active segment is too old: by its first batch's time, or ours if that has none."""
        self.roll_after = self.roll_at_wall = FOREVER
        if self.active.size:
            age_ms = self._settings.segment_ms - self._jitter_ms
            first = self.active.indexes.first_timestamp
            if first >= 0:
                self.roll_after = first + age_ms
            else:
                self.roll_at_wall = wall + age_ms

    # Leaving and replacing

    def drop_from(self, first: int, due: Instant) -> None:
        """Take the segments from the one at `first` on out of the log, the newest first, durably."""
        while len(self.in_order) > first:
            segment = self.in_order[-1]
            self._removals.shelve_now(segment, due)
            self.in_order.pop()
            self.bases.pop()
            self._unsynced.forget(segment)
        # Before anything takes their place: a segment that came back after a crash would follow the new end.
        self._files.sync_dir(self.path)
        if self.in_order:
            self.active = self.in_order[-1]

    def expire(self, count: int) -> None:
        """Take the oldest segments out, never all; their files wait for the log's start to be durable."""
        assert count < len(self.in_order), (self.path, count)
        gone = self.in_order[:count]
        del self.in_order[:count], self.bases[:count]
        for segment in gone:
            self._unsynced.forget(segment)
        self._removals.condemn(gone)

    def replace(self, at: int, count: int, new: Segment) -> None:
        """Put a sealed segment into the place of those that it stands for."""
        self.in_order[at : at + count] = [new]
        self.bases[at : at + count] = [new.base_offset]
        self._swapped += 1

    def moved_to(self, path: str) -> None:
        """Take in that the directory was renamed."""
        self.path = path
        for segment in self.in_order:
            segment.moved_to(path)

    def close(self) -> None:
        """Let go of the files as they are."""
        for segment in self.in_order:
            segment.close()

    # Times

    @property
    def _life(self) -> Life:
        return self._unsynced.generation, self._swapped

    def first_for_time(self, timestamp: Timestamp) -> int:
        """Which segment is the first that has `timestamp` or a later one; the active one may not have it."""
        return self._time_steps.first_for(timestamp, self.in_order, self._life)

    def newest_by_time(self) -> Segment:
        """The first that has the largest timestamp of sealed ones; the active one if none has any."""
        return self.in_order[self._time_steps.newest(self.in_order, self._life)]

    def learn_times(self, timestamp: Timestamp | None, enough: Callable[[], bool]) -> bool:
        """Get to know what `first_for_time` needs, or `newest_by_time` for None, see `TimeSteps.learn`."""
        return self._time_steps.learn(timestamp, self.in_order, self._life, enough)
