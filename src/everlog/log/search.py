"""Searches over a log's segments: the bytes to send for an offset, the record of a moment."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from everlog.log.epochs import LeaderEpochs
from everlog.log.scan import Header
from everlog.log.segment import Segment
from everlog.model.ids import LeaderEpoch, Offset, Timestamp
from everlog.ports.files import FileSlice
from everlog.records.reader import read_records


class FoundRecord(NamedTuple):
    """A record found by its time."""

    offset: Offset
    timestamp: Timestamp
    leader_epoch: LeaderEpoch


class Span(NamedTuple):
    """Which part of a log a search may see."""

    start_offset: Offset
    end_offset: Offset


class ReadLimits(NamedTuple):
    """How much a read may return."""

    max_bytes: int
    end_offset: Offset
    """No batch with this offset or one above is returned."""
    at_least_one: bool
    """Whether a first batch above `max_bytes` is returned as a whole; else nobody could get past it."""


def read_slice(segment: Segment, first: Header, limits: ReadLimits, epochs: LeaderEpochs) -> FileSlice | None:
    """Return the whole batches from `first` on, within the limits and proved; None if nothing may be sent."""
    if first.last_offset >= limits.end_offset:
        return None
    end = first.end
    limit = first.position + limits.max_bytes
    if end <= limit:
        if limits.end_offset < segment.end_offset:
            beyond = segment.find(limits.end_offset)
            if beyond is not None:
                limit = min(limit, beyond.position)
        end = segment.boundary_before(limit, end)
    elif not limits.at_least_one:
        return None
    segment.prove(first.position, end, epochs)
    return FileSlice(segment.file, first.position, end - first.position)


Life = tuple[int, int]
"""How often a log was cut, and compaction has put segments into it: all else that changes is its ends."""


class TimeSteps:
    """The largest timestamp up to the end of each sealed segment: where a lookup by time has to begin.

    What was sealed by this process is known. Of other segments it is asked for as far as lookups need it,
    which opens three files each: `learn` does that a little at a time.
    """

    __slots__ = ("_largest", "_life", "_own", "_seen")

    def __init__(self) -> None:
        self._seen: list[Segment] = []
        """Sealed segments from the oldest one on; of each, in the two lists that follow:"""
        self._own: list[int] = []
        """its largest timestamp, -1 if it has none,"""
        self._largest: list[int] = []
        """and the largest up to its end."""
        self._life: Life = (0, 0)

    def first_for(self, timestamp: int, segments: Sequence[Segment], life: Life) -> int:
        """Which segment is the first that has `timestamp` or a later one; the active one may not have it."""
        self.learn(timestamp, segments, life)
        return bisect_left(self._largest, timestamp)

    def newest(self, segments: Sequence[Segment], life: Life) -> int:
        """The first segment that has the largest timestamp of sealed ones; the active one if none has any."""
        self.learn(None, segments, life)
        largest = self._largest
        return bisect_left(largest, largest[-1]) if largest and largest[-1] >= 0 else len(segments) - 1

    def learn(
        self,
        timestamp: int | None,
        segments: Sequence[Segment],
        life: Life,
        enough: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Get to know what a lookup of `timestamp` needs, or that of the largest one for None.

        False where segments are left to be looked at, and `enough` said that others should have their turn.
        """
        self._follow(segments, life)
        seen, own, largest = self._seen, self._own, self._largest
        sealed = len(segments) - 1
        while len(seen) < sealed and (timestamp is None or not largest or largest[-1] < timestamp):
            segment = segments[len(seen)]
            if not segment.knows_largest and enough():
                return False
            value = segment.largest_timestamp()[0]
            own.append(value)
            largest.append(max(value, largest[-1] if largest else -1))
            seen.append(segment)
        return True

    def _follow(self, segments: Sequence[Segment], life: Life) -> None:
        """Forget what is no longer so."""
        seen = self._seen
        if not seen:
            self._life = life
            return
        gone = 0
        if segments[0] is not seen[0]:
            gone = bisect_left(seen, segments[0].base_offset, key=lambda one: one.base_offset)
        count = len(seen) - gone
        if (
            life != self._life
            or not 0 < count < len(segments)
            or segments[0] is not seen[gone]
            or segments[count - 1] is not seen[-1]
        ):
            gone = len(seen)
            self._life = life
        if gone:
            self._follow_front(gone)

    def _follow_front(self, gone: int) -> None:
        own, largest = self._own, self._largest
        del self._seen[:gone], own[:gone], largest[:gone]
        top = -1
        for at, value in enumerate(own):
            top = max(top, value)
            if largest[at] == top:
                break  # From here on it is one of those left that is the largest so far.
            largest[at] = top


def record_at_time(
    segments: Sequence[Segment], epochs: LeaderEpochs, timestamp: Timestamp, span: Span
) -> FoundRecord | None:
    """The first record in the span whose timestamp is at least `timestamp` (KIP-79)."""
    for segment in segments:
        if segment.end_offset <= span.start_offset or segment.largest_timestamp()[0] < timestamp:
            continue
        header = segment.find_time(timestamp, span.start_offset, epochs)
        while header is not None and header.base_offset < span.end_offset:
            for record in read_records(segment.batch_at(header)):
                if record.timestamp >= timestamp and record.offset >= span.start_offset:
                    if record.offset >= span.end_offset:
                        return None
                    return FoundRecord(
                        Offset(record.offset), Timestamp(record.timestamp), LeaderEpoch(header.leader_epoch)
                    )
            # The records so new in this batch lie before the log's start, or compaction took them.
            header = segment.find_time(timestamp, header.last_offset + 1, epochs)
    return None


def record_of_max_timestamp(
    newest_sealed: Segment, active: Segment, epochs: LeaderEpochs, span: Span
) -> FoundRecord | None:
    """The first record that has the largest timestamp of the log (KIP-734)."""
    largest, in_active = newest_sealed.largest_timestamp()[0], active.largest_timestamp()[0]
    newest = active if in_active > largest else newest_sealed
    largest = max(largest, in_active)
    return record_at_time([newest], epochs, Timestamp(largest), span) if largest >= 0 else None


def segment_index(bases: Sequence[Offset], offset: int) -> int:
    """Which segment holds an offset: the last whose base offset is at most that."""
    return max(bisect_right(bases, offset) - 1, 0)
