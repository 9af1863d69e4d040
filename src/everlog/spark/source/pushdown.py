"""Filters that Spark hands down with a batch read, as bounds of what is read.

Topic, partition and offset cut ranges exactly, so Spark need not look again. A lower bound of timestamps only
says from where on to read: records need not be in order of time. An upper bound of them says nothing at all.
"""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from everlog.model.topics import TopicPartition
from everlog.spark.source.offsets import Offsets
from everlog.spark.source.record_schema import NEVER_NULL

_PUSHDOWN_PROCESS = "pyspark.sql.worker.data_source_pushdown_filters"


def spark_pushes_filters() -> bool:
    """Whether this process is the one in which Spark hands filters down.

    A reader with `pushFilters` is refused by Spark in any other where spark.sql.python.filterPushdown.enabled
    is not set; the setting itself is not to be seen from here.
    """
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return _PUSHDOWN_PROCESS in sys.modules or getattr(spec, "name", None) == _PUSHDOWN_PROCESS


@dataclass(frozen=True, slots=True)
class Bounds:
    """What of the log can have rows that are wanted."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int | None = None
    """The lowest offset wanted."""
    end: int | None = None
    """The offset behind the highest one wanted."""
    since_ms: int | None = None
    """Records that are older are not wanted."""

    def covers(self, place: TopicPartition) -> bool:
        """Whether a partition can have anything."""
        return (self.topics is None or place.topic in self.topics) and (
            self.partitions is None or place.partition in self.partitions
        )

    def cut(
        self, start: Offsets, end: Offsets, since: Mapping[TopicPartition, int | None]
    ) -> tuple[Offsets, Offsets]:
        """Starts and ends of what is left; `since` has the first offset of `since_ms`, None for no record."""
        starts: Offsets = {}
        ends: Offsets = {}
        for place in end:
            if not self.covers(place):
                continue
            low, high = start[place], end[place]
            if self.since_ms is not None:
                found = since[place]
                low = high if found is None else max(low, found)
            starts[place] = low if self.first is None else max(low, self.first)
            ends[place] = high if self.end is None else min(high, self.end)
        return starts, ends


def take_filters(filters: Iterable[Any], record: Collection[str]) -> tuple[Bounds, list[Any]]:
    """Bounds that all of the filters together set, and those that Spark must still apply itself.

    `record` has the columns that are the record's: a value may have a field `offset` of its own.
    """
    bounds = Bounds()
    left: list[Any] = []
    for one in filters:
        narrower, is_exact = _narrowed(bounds, one, record)
        bounds = narrower
        if not is_exact:
            left.append(one)
    return bounds, left


def _narrowed(bounds: Bounds, one: Any, record: Collection[str]) -> tuple[Bounds, bool]:
    """Bounds with one more filter, and whether they say all that it says."""
    kind = type(one).__name__
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in record:
        return bounds, False
    column, value = path[0], getattr(one, "value", None)
    if kind == "IsNotNull":
        return bounds, column in NEVER_NULL
    if column == "timestamp":
        return _narrowed_by_time(bounds, kind, value), False
    if column in ("topic", "partition") and kind in ("EqualTo", "EqualNullSafe", "In"):
        values = frozenset(one.value if kind == "In" else [one.value])
        if column == "topic":
            return replace(bounds, topics=values if bounds.topics is None else bounds.topics & values), True
        return replace(
            bounds, partitions=values if bounds.partitions is None else bounds.partitions & values
        ), True
    if column == "offset" and isinstance(value, int):
        return _narrowed_by_offset(bounds, kind, value)
    return bounds, False


def _narrowed_by_offset(bounds: Bounds, kind: str, value: int) -> tuple[Bounds, bool]:
    low: int | None = None
    high: int | None = None
    match kind:
        case "EqualTo" | "EqualNullSafe":
            low, high = value, value + 1
        case "GreaterThan":
            low = value + 1
        case "GreaterThanOrEqual":
            low = value
        case "LessThan":
            high = value
        case "LessThanOrEqual":
            high = value + 1
        case _:
            return bounds, False
    first = bounds.first if low is None else max(low, bounds.first or 0)
    end = bounds.end if high is None else high if bounds.end is None else min(high, bounds.end)
    return replace(bounds, first=first, end=end), True


def _narrowed_by_time(bounds: Bounds, kind: str, value: object) -> Bounds:
    if kind not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return bounds
    if not isinstance(value, datetime) or value.tzinfo is None:
        return bounds
    # Rounded down: records have milliseconds only, and Spark looks at each row again.
    since = max(0, int(value.timestamp() * 1000) - 1)
    return replace(bounds, since_ms=since if bounds.since_ms is None else max(since, bounds.since_ms))
