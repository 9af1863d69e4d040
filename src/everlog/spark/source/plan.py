"""What a trigger or a batch reads: ranges of offsets, their splits into tasks, and what counts as lost.

The rules are those of Spark's Kafka connector, with one difference: what is no loss is not called one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from everlog.model.topics import TopicPartition
from everlog.spark.source.offsets import DataLost, Offsets
from everlog.spark.source.options import Limits

Rows = Any
"""A pyarrow.RecordBatch, which has no types to check against."""
GUESSED_BYTES = 1024.0
"""What a record is taken to have where no sample could be had."""
SMALL_BYTES = 1024 * 1024
"""Up to about this a trigger is read by the planner, where low latency was asked for."""
SMALL_RANGES = 16
"""Of no more partitions than this: the planner reads one after the other."""
_LEAST_BYTES = 64.0


@dataclass(frozen=True, slots=True, order=True)
class ReadRange:
    """Offsets of one partition, from `start` up to but without `end`; what one task reads."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets it has; there may be fewer records."""
        return self.end - self.start


# How much a trigger takes.


def limit_offsets(start: Offsets, end: Offsets, most: int) -> Offsets:
    """An earlier end, so that about `most` offsets are read in all: partitions get their share of it.

    One with anything to read gets one offset at least, so none is starved.
    """
    sizes = {place: end[place] - start[place] for place in end if end[place] > start[place]}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    limited = dict(end)
    for place, size in sizes.items():
        limited[place] = min(end[place], start[place] + max(1, most * size // total))
    return limited


def limit_bytes(
    start: Offsets, end: Offsets, most: int, bytes_per_offset: Mapping[TopicPartition, float]
) -> Offsets:
    """An earlier end, so that about `most` bytes are read in all, by what an offset has been seen to take.

    As above each partition gets a share, and one offset at least: a record larger than the limit is read.
    """
    known = [each for each in bytes_per_offset.values() if each > 0]
    usual = sum(known) / len(known) if known else GUESSED_BYTES
    sizes = {place: end[place] - start[place] for place in end if end[place] > start[place]}
    weights = {place: size * (bytes_per_offset.get(place) or usual) for place, size in sizes.items()}
    total = sum(weights.values())
    if total <= most:
        return dict(end)
    limited = dict(end)
    for place, size in sizes.items():
        limited[place] = start[place] + min(size, max(1, int(size * most / total)))
    return limited


@dataclass(slots=True)
class Admission:
    """Decides how far each trigger goes; keeps when the last one went at all."""

    limits: Limits
    _moved_at_ms: int | None = field(default=None)

    def waits(self, start: Offsets, end: Offsets, now_ms: int) -> bool:
        """Whether there is too little to read yet, and no reason to read it all the same.

        The first look after a start is such a reason, as in Spark's Kafka connector.
        """
        least = self.limits.min_offsets
        if least is None:
            return False
        new = sum(max(0, offset - start[place]) for place, offset in end.items())
        # Nobody knows for how long a query that has just begun was away, nor how soon it will be again.
        since = self._moved_at_ms
        if since is not None and new < least and now_ms - since < self.limits.max_delay_ms:
            return True
        self._moved_at_ms = now_ms
        return False


@dataclass(slots=True)
class SmallBatches:
    """Decides which triggers the planner reads itself, by what offsets were seen to take."""

    _bytes_per_offset: float = GUESSED_BYTES

    def taken(self, ranges: Sequence[ReadRange], batches: Iterable[Rows]) -> list[Rows] | None:
        """All batches of the ranges; None if that is more than a little, when few are asked for, or none."""
        offsets = sum(one.size for one in ranges)
        if not 0 < len(ranges) <= SMALL_RANGES or offsets * self._bytes_per_offset > SMALL_BYTES:
            return None
        found, size = list[Rows](), 0
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            if size > 2 * SMALL_BYTES:
                break
        self._bytes_per_offset = max(_LEAST_BYTES, size / offsets)
        return found if size <= 2 * SMALL_BYTES else None


# What has changed since.


@dataclass(frozen=True, slots=True)
class Changes:
    """How the partitions of two offsets differ."""

    added: tuple[TopicPartition, ...]
    removed: tuple[TopicPartition, ...]


def changes(before: Collection[TopicPartition], now: Collection[TopicPartition]) -> Changes:
    """The partitions that came and those that went."""
    return Changes(
        tuple(sorted(place for place in now if place not in before)),
        tuple(sorted(place for place in before if place not in now)),
    )


def lost_with_partitions(
    removed: Sequence[TopicPartition], still_there: Collection[TopicPartition]
) -> str | None:
    """What was lost with partitions that are not read any more; nothing, if only the options have changed."""
    gone = [place for place in removed if place not in still_there]
    if not gone:
        return None
    named = ", ".join(map(str, gone))
    return f"partitions that were being read do not exist any more, and unread records with them: {named}"


def lost_before_added(
    added: Sequence[TopicPartition], known_topics: Collection[str], earliest: Offsets
) -> str | None:
    """What was lost of partitions before they were seen.

    Only a topic that was being read can lose anything so; one that is new to the query begins where it does.
    """
    late = [place for place in added if place.topic in known_topics and earliest.get(place, 0) > 0]
    if not late:
        return None
    named = ", ".join(f"{place} starts at offset {earliest[place]}" for place in late)
    return f"records of new partitions were deleted before they could be read: {named}"


def lost_behind_end(start: Offsets, end: Offsets) -> str | None:
    """What shows that logs were cut or made anew: offsets that were read, or asked for, and are not there."""
    behind = [place for place in sorted(start) if place in end and start[place] > end[place]]
    if not behind:
        return None
    named = ", ".join(f"{place} ends at {end[place]}, expected {start[place]} or more" for place in behind)
    return f"offsets lie behind the end of the log, so it was cut or its topic made anew: {named}"


def runs_backwards(start: Offsets, end: Offsets) -> str | None:
    """What shows that a batch was asked to read from an offset to an earlier one."""
    odd = [place for place in sorted(end) if place in start and start[place] > end[place]]
    if not odd:
        return None
    named = ", ".join(f"{place} from {start[place]} to {end[place]}" for place in odd)
    return f"{named}: expected no start behind its end"


def raise_loss(loss: str | None, *, fail: bool) -> str | None:
    """DataLost if something was lost and the user wants to hear of it; else what there is to log."""
    if loss is not None and fail:
        raise DataLost(loss)
    return loss


# Ranges to tasks.


def ranges_between(start: Offsets, end: Offsets) -> list[ReadRange]:
    """What lies between two offsets, a range for each partition that has anything."""
    return [
        ReadRange(place.topic, place.partition, start[place], end[place])
        for place in sorted(end)
        if place in start and end[place] > start[place]
    ]


def split_ranges(
    ranges: Sequence[ReadRange], min_partitions: int | None, max_records: int | None
) -> list[ReadRange]:
    """Split ranges so that none has more than `max_records` and there are about `min_partitions` of them."""
    made = list(ranges)
    if max_records is not None:
        made = [part for one in made for part in _divided(one, -(-one.size // max_records))]
    if min_partitions is None or not made or len(made) >= min_partitions:
        return made
    total = sum(one.size for one in made)
    # Small ranges stay whole and take no part in the sharing out, or the large ones would get too few.
    whole = [one for one in made if _share(one.size, total, min_partitions) == 1]
    left = total - sum(one.size for one in whole)
    wanted = max(1, min_partitions - len(whole))
    kept = set(whole)
    return [
        part
        for one in made
        for part in ([one] if one in kept else _divided(one, _share(one.size, left, wanted)))
    ]


def _share(size: int, total: int, parts: int) -> int:
    return max(1, round(size / total * parts))


def _divided(whole: ReadRange, parts: int) -> list[ReadRange]:
    parts = max(1, min(parts, whole.size))
    bounds = [whole.start + whole.size * part // parts for part in range(parts + 1)]
    return [replace(whole, start=first, end=last) for first, last in pairwise(bounds)]
