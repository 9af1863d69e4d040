"""Filters as bounds: which are exact, which only help, and which are Spark's to apply."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from everlog.model.topics import TopicPartition
from everlog.spark.source.pushdown import Bounds, spark_pushes_filters, take_filters
from everlog.spark.source.record_schema import TYPES

A, B = TopicPartition("t", 0), TopicPartition("u", 1)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def test_offsets_cut_exactly() -> None:
    offset = ("offset",)
    for one, bounds in [
        (EqualTo(offset, 5), Bounds(first=5, end=6)),
        (GreaterThan(offset, 5), Bounds(first=6)),
        (GreaterThanOrEqual(offset, 5), Bounds(first=5)),
        (LessThan(offset, 5), Bounds(end=5)),
        (LessThanOrEqual(offset, 5), Bounds(end=6)),
        (IsNotNull(offset), Bounds()),
    ]:
        assert take_filters([one], TYPES) == (bounds, [])


def test_filters_narrow_each_other() -> None:
    filters = [GreaterThan(("offset",), 5), GreaterThan(("offset",), 3), LessThan(("offset",), 20)]
    more = [LessThan(("offset",), 30), In(("partition",), (0, 1)), EqualTo(("partition",), 1)]
    bounds, left = take_filters([*filters, *more, EqualTo(("topic",), "u")], TYPES)

    assert left == []
    assert bounds == Bounds(frozenset({"u"}), frozenset({1}), 6, 20)
    assert bounds.cut({A: 0, B: 0}, {A: 100, B: 100}, {}) == ({B: 6}, {B: 20})


def test_time_helps_from_below_only_and_spark_looks_again() -> None:
    since = GreaterThanOrEqual(("timestamp",), NOON)
    until = LessThan(("timestamp",), NOON)

    assert take_filters([since], TYPES) == (Bounds(since_ms=NOON_MS - 1), [since])
    assert take_filters([until], TYPES) == (Bounds(), [until])
    bounds = Bounds(since_ms=NOON_MS)
    assert bounds.cut({A: 3, B: 0}, {A: 9, B: 9}, {A: 5, B: None}) == ({A: 5, B: 9}, {A: 9, B: 9})


def test_what_cannot_be_used_is_left_to_spark() -> None:
    filters = [
        Not(EqualTo(("offset",), 5)),
        EqualTo(("key",), b"k"),
        StringStartsWith(("topic",), "t"),
        EqualTo(("payload", "offset"), 5),
        IsNotNull(("value",)),
        In(("offset",), (1, 2)),
    ]
    assert take_filters(filters, TYPES) == (Bounds(), filters)


def test_a_field_of_the_value_that_is_called_offset_is_not_the_offset() -> None:
    theirs = [EqualTo(("offset",), 5)]
    assert take_filters(theirs, {"key", "topic"}) == (Bounds(), theirs)


def test_filters_are_not_taken_in_processes_where_spark_hands_none_down() -> None:
    assert not spark_pushes_filters()
