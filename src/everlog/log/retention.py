"""Which segments may go (L5): the oldest, whole, and only where every record in one is past the limit."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from everlog.log.segment import LOG_SUFFIX
from everlog.log.segments import SegmentList
from everlog.log.settings import LogSettings
from everlog.ports.files import Files


class SegmentFacts(NamedTuple):
    """What retention looks at in a segment."""

    end_offset: int
    """One behind its last offset."""
    size: int
    largest_timestamp: int
    """That of its newest record; where no record has one, when the file was last written."""


class RetentionLimits(NamedTuple):
    """What decides besides the settings."""

    wall: int
    total_bytes: int
    start_offset: int
    high_watermark: int


def facts_of(files: Files, segments: SegmentList) -> Iterator[SegmentFacts]:
    """The facts of a log's segments, oldest first, but for an active one that is empty."""
    for segment in segments.in_order:
        if segment is segments.active and not segment.size:
            return
        timestamp = segment.largest_timestamp()[0]
        if timestamp < 0:
            timestamp = files.modified(segment.stem + LOG_SUFFIX)
        yield SegmentFacts(segment.end_offset, segment.size, timestamp)


def expired_count(
    oldest_first: Iterable[SegmentFacts], settings: LogSettings, limits: RetentionLimits
) -> int:
    """Return how many segments, counted from the oldest, are no longer to be kept.

    A segment goes if all of it lies below the log's start, or the policy deletes and it is too old, or
    what would be left without it still has `retention_bytes`. It stays while a record in it is at or
    above the high watermark. Facts are asked for no further than needed.
    """
    left = limits.total_bytes
    count = 0
    for segment in oldest_first:
        if segment.end_offset > limits.high_watermark:
            break
        below_start = segment.end_offset <= limits.start_offset
        if not below_start and not (
            settings.cleanup_delete and _past_policy(segment, settings, limits.wall, left)
        ):
            break
        left -= segment.size
        count += 1
    return count


def _past_policy(segment: SegmentFacts, settings: LogSettings, wall: int, left: int) -> bool:
    too_old = settings.retention_ms >= 0 and wall - segment.largest_timestamp > settings.retention_ms
    too_much = settings.retention_bytes >= 0 and left - segment.size >= settings.retention_bytes
    return too_old or too_much
