"""Which offsets of which partitions a batch holds, and which a table holds.

All ends are exclusive. A range may hold fewer records than offsets: compacted records and markers of
transactions have offsets, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from everlog.model.topics import TopicPartition

Span = tuple[int, int]
"""First offset, and the offset after the last."""


@dataclass(frozen=True, slots=True)
class OffsetRanges:
    """One range for each partition: what a batch holds. Picklable, and JSON by `dump` and `load`.

    >>> ranges = OffsetRanges.of({("orders", 0): (0, 10)})
    >>> ranges.dump()
    {'orders': {'0': [0, 10]}}
    """

    spans: Mapping[TopicPartition, Span] = field(default_factory=dict[TopicPartition, Span])

    @classmethod
    def of(cls, spans: Mapping[tuple[str, int], Span]) -> "OffsetRanges":
        """Ranges by (topic, partition); empty ones are left out."""
        return cls(
            {TopicPartition(*place): span for place, span in sorted(spans.items()) if span[0] < span[1]}
        )

    @classmethod
    def between(
        cls, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> "OffsetRanges":
        """Between two offsets of a streaming source, `{"topic": {"0": 123}}`; a new partition begins at 0."""
        return cls.of(
            {
                (topic, int(partition)): (start.get(topic, {}).get(partition, 0), last)
                for topic, ends in end.items()
                for partition, last in ends.items()
            }
        )

    @classmethod
    def load(cls, dumped: Mapping[str, Mapping[str, Any]]) -> "OffsetRanges":
        """What `dump` gave."""
        return cls.of(
            {
                (topic, int(partition)): (int(span[0]), int(span[1]))
                for topic, spans in dumped.items()
                for partition, span in spans.items()
            }
        )

    def dump(self) -> dict[str, dict[str, list[int]]]:
        """As JSON: topic, then partition, then start and end."""
        dumped: dict[str, dict[str, list[int]]] = {}
        for place, span in sorted(self.spans.items()):
            dumped.setdefault(place.topic, {})[str(place.partition)] = list(span)
        return dumped

    def hull(self, other: "OffsetRanges") -> "OffsetRanges":
        """The smallest ranges that hold both."""
        hull = dict(self.spans)
        for place, (start, end) in other.spans.items():
            first, last = hull.get(place, (start, end))
            hull[place] = min(first, start), max(last, end)
        return OffsetRanges(dict(sorted(hull.items())))

    @property
    def offsets(self) -> int:
        """How many offsets they hold in all."""
        return sum(end - start for start, end in self.spans.values())


@dataclass(frozen=True, slots=True)
class Coverage:
    """All offsets that a table has taken in: for each partition ranges that are apart and in order."""

    spans: Mapping[TopicPartition, tuple[Span, ...]] = field(
        default_factory=dict[TopicPartition, tuple[Span, ...]]
    )

    @classmethod
    def load(cls, dumped: Mapping[str, Mapping[str, Any]]) -> "Coverage":
        """What `dump` gave."""
        return cls(
            {
                TopicPartition(topic, int(partition)): tuple((int(start), int(end)) for start, end in spans)
                for topic, partitions in sorted(dumped.items())
                for partition, spans in sorted(partitions.items(), key=lambda item: int(item[0]))
            }
        )

    def dump(self) -> dict[str, dict[str, list[list[int]]]]:
        """As JSON: topic, then partition, then pairs of start and end."""
        dumped: dict[str, dict[str, list[list[int]]]] = {}
        for place, spans in sorted(self.spans.items()):
            dumped.setdefault(place.topic, {})[str(place.partition)] = [list(span) for span in spans]
        return dumped

    def plus(self, ranges: OffsetRanges) -> "Coverage":
        """This and those; neighbours grow together."""
        spans = dict(self.spans)
        for place, span in ranges.spans.items():
            spans[place] = _joined([*spans.get(place, ()), span])
        return Coverage(spans)

    def with_all(self, other: "Coverage") -> "Coverage":
        """What one of the two has taken in."""
        spans = dict(self.spans)
        for place, more in other.spans.items():
            spans[place] = _joined([*spans.get(place, ()), *more])
        return Coverage(spans)

    def without(self, other: "Coverage") -> "Coverage":
        """What this has taken in and the other has not."""
        spans: dict[TopicPartition, tuple[Span, ...]] = {}
        for place, here in self.spans.items():
            left = list(here)
            for start, end in other.spans.get(place, ()):
                cut = [
                    part
                    for one in left
                    for part in ((one[0], min(one[1], start)), (max(one[0], end), one[1]))
                ]
                left = [part for part in cut if part[0] < part[1]]
            if left:
                spans[place] = tuple(left)
        return Coverage(spans)

    def ends(self) -> dict[TopicPartition, int]:
        """For each partition the offset after the highest that was taken in."""
        return {place: spans[-1][1] for place, spans in self.spans.items()}

    def overlaps(self, ranges: OffsetRanges) -> bool:
        """Whether some offset of the ranges has been taken in."""
        return any(
            start < span[1] and span[0] < end
            for place, span in ranges.spans.items()
            for start, end in self.spans.get(place, ())
        )

    def holds(self, place: TopicPartition, offset: int) -> bool:
        """Whether that offset has been taken in."""
        return any(start <= offset < end for start, end in self.spans.get(place, ()))

    def first_missing(self, place: TopicPartition, offset: int) -> int:
        """The first offset from there on that has not been taken in."""
        for start, end in self.spans.get(place, ()):
            if start <= offset < end:
                offset = end
        return offset

    def missing_below(self, place: TopicPartition, offset: int) -> bool:
        """Whether some offset below that one has not been taken in, and may yet come."""
        return self.first_missing(place, 0) < offset


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return tuple(joined)
