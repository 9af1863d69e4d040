"""Offsets as people write them (C7, L7)."""

import pytest

from everlog.client.core.consumer.offset_spec import (
    AfterStart,
    AtOffset,
    AtTime,
    BeforeEnd,
    OffsetRange,
    OffsetSpec,
    Point,
    duration_from_text,
    parse_offset_spec,
    resolve,
)
from everlog.model.errors import ConfigError
from everlog.model.ids import Offset, Timestamp

NOW = Timestamp(1_800_000_000_000)
HOUR_MS = 3_600_000
DAY = Timestamp(1_769_817_600_000)  # 2026-01-31T00:00Z


def at(timestamp: int) -> AtTime:
    return AtTime(Timestamp(timestamp))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("start", AfterStart(), None),
        ("end", BeforeEnd(), None),
        ("+5", AfterStart(5), None),
        ("-5", BeforeEnd(5), None),
        ("120", AtOffset(Offset(120)), None),
        ("100:200", AtOffset(Offset(100)), AtOffset(Offset(200))),
        (":200", AfterStart(), AtOffset(Offset(200))),
        ("100:", AtOffset(Offset(100)), None),
        ("-100:end", BeforeEnd(100), BeforeEnd()),
        ("@1700000000000", at(1_700_000_000_000), None),
        ("@1700000000", at(1_700_000_000_000), None),
        ("@2026-01-31", at(DAY), None),
        ("@2026-01-31T08:00", at(DAY + 8 * HOUR_MS), None),
        ("@2026-01-31T08:00:00+02:00", at(DAY + 6 * HOUR_MS), None),
        ("@-1h", at(NOW - HOUR_MS), None),
        ("@-2h:-1h", at(NOW - 2 * HOUR_MS), at(NOW - HOUR_MS)),
        ("@-1h:now", at(NOW - HOUR_MS), at(NOW)),
        ("@-1h:end", at(NOW - HOUR_MS), BeforeEnd()),
        ("@:-1h", AfterStart(), at(NOW - HOUR_MS)),
        ("@2026-01-31T08:00:1h30m", at(DAY + 8 * HOUR_MS), at(DAY + 9 * HOUR_MS + HOUR_MS // 2)),
        ("@2026-01-31T08:00:2026-01-31T09:00", at(DAY + 8 * HOUR_MS), at(DAY + 9 * HOUR_MS)),
    ],
)
def test_each_form_of_the_grammar_is_read(text: str, start: Point, end: Point | None) -> None:
    assert parse_offset_spec(text, NOW) == OffsetSpec(start, end)


@pytest.mark.parametrize(
    "text", ["", "x", "1:x", "@", "@foo", "@-1x", "--5", "+", "1.5", "@--1h", "@99", "5-7"]
)
def test_what_the_grammar_does_not_know_is_refused_with_the_text_and_what_was_expected(text: str) -> None:
    with pytest.raises(ConfigError, match="expected start, end") as refused:
        parse_offset_spec(text, NOW)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("start", 10, None),
        ("+5", 15, None),
        ("+500", 100, None),
        ("-5", 95, None),
        ("-500", 10, None),
        ("7", 7, None),
        (":end", 10, 100),
        ("@-1h", 50, None),
        ("@-2h:-1h", 100, 50),
    ],
)
def test_a_spec_is_resolved_within_what_the_partition_holds(text: str, start: int, end: int | None) -> None:
    by_time = {Timestamp(NOW - HOUR_MS): Offset(50), Timestamp(NOW - 2 * HOUR_MS): None}

    resolved = resolve(parse_offset_spec(text, NOW), Offset(10), Offset(100), by_time)

    assert resolved == OffsetRange(Offset(start), None if end is None else Offset(end))


def test_only_the_moments_of_a_spec_need_to_be_looked_up() -> None:
    assert parse_offset_spec("@-1h:end", NOW).timestamps == [NOW - HOUR_MS]
    assert parse_offset_spec("5:10", NOW).timestamps == []


def test_durations_add_up_their_units() -> None:
    assert duration_from_text("1d2h3m4s5ms") == 86_400_000 + 2 * HOUR_MS + 180_000 + 4_000 + 5
    assert duration_from_text("5ms") == 5
    assert duration_from_text("5m") == 300_000
    assert duration_from_text("") is None
    assert duration_from_text("5") is None
