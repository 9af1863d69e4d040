"""Searches over a log's segments: the bytes to send for an offset, the record of a moment."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
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


class TimeSteps:
    """The largest timestamp up to the end of each sealed segment: where a lookup by time has to begin.

    It is made as far as lookups need it. Segments that went, or that compaction has rewritten, may leave it
    too large for a while; then a lookup begins too early, and passes over a few more.
    """

    __slots__ = ("_generation", "_largest", "_seen")

    def __init__(self) -> None:
        self._seen: list[Segment] = []
        self._largest: list[int] = []
        self._generation = 0

    def first_for(self, timestamp: int, segments: Sequence[Segment], generation: int) -> int:
        """Which segment is the first that may have `timestamp` or a later one; none before it has.

        `generation` is that of the log: one that is cut may go on with segments that were sealed before.
        """
        seen, largest = self._seen, self._largest
        sealed = len(segments) - 1
        count = len(seen)
        if generation != self._generation or (
            count and (count > sealed or segments[0] is not seen[0] or segments[count - 1] is not seen[-1])
        ):
            seen.clear()
            largest.clear()
            self._generation = generation
        while len(seen) < sealed and (not largest or largest[-1] < timestamp):
            segment = segments[len(seen)]
            largest.append(max(segment.largest_timestamp()[0], largest[-1] if largest else -1))
            seen.append(segment)
        return bisect_left(largest, timestamp)


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
    segments: Sequence[Segment], epochs: LeaderEpochs, span: Span
) -> FoundRecord | None:
    """The first record that has the largest timestamp of the log (KIP-734)."""
    newest: Segment | None = None
    for segment in segments:
        largest = segment.largest_timestamp()[0]
        if largest >= 0 and (newest is None or largest > newest.largest_timestamp()[0]):
            newest = segment
    if newest is None:
        return None
    return record_at_time([newest], epochs, Timestamp(newest.largest_timestamp()[0]), span)


def segment_index(bases: Sequence[Offset], offset: int) -> int:
    """Which segment holds an offset: the last whose base offset is at most that."""
    return max(bisect_right(bases, offset) - 1, 0)
