"""Where offsets are moved to: every way to say it, kept within the log (C7)."""

import pytest

from everlog.client.core.admin.offset_reset import (
    Found,
    FromFile,
    Move,
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
    csv_row,
    plan_move,
    read_csv,
)
from everlog.client.core.admin.place_spec import parse_places
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.model.errors import ConfigError
from everlog.model.ids import Offset, Timestamp
from everlog.model.topics import TopicPartition

ZERO = TopicPartition("orders", 0)


def found(committed: int | None = 50, at_time: int | None = None) -> Found:
    return Found(
        None if committed is None else OffsetAndMetadata(Offset(committed)),
        Offset(10),
        Offset(100),
        None if at_time is None else Offset(at_time),
    )


@pytest.mark.parametrize(
    ("target", "to", "asked"),
    [
        (ToEarliest(), 10, 10),
        (ToLatest(), 100, 100),
        (ToOffset(60), 60, 60),
        (ToOffset(3), 10, 3),
        (ToOffset(300), 100, 300),
        (ToOffset(100), 100, 100),
        (ShiftBy(-5), 45, 45),
        (ShiftBy(-500), 10, -450),
        (ShiftBy(500), 100, 550),
        (ToCurrent(), 50, 50),
        (FromFile({ZERO: 20}), 20, 20),
        (FromFile({ZERO: 2}), 10, 2),
    ],
    ids=str,
)
def test_each_target_gives_an_offset_within_the_log(target: Target, to: int, asked: int) -> None:
    move = plan_move(target, ZERO, found())

    assert (move.before, move.to, move.asked, move.is_clamped) == (50, to, asked, to != asked)


def test_a_time_gives_its_first_record_or_the_end_if_there_is_none() -> None:
    target = ToTime(Timestamp(1))

    assert plan_move(target, ZERO, found(at_time=33)).to == 33
    assert plan_move(target, ZERO, found()).to == 100


def test_what_is_committed_stays_even_outside_the_log_and_is_the_end_where_nothing_is() -> None:
    assert plan_move(ToCurrent(), ZERO, found(committed=3)).to == 3
    assert plan_move(ToCurrent(), ZERO, found(committed=None)).to == 100


def test_there_is_no_shifting_without_a_committed_offset() -> None:
    with pytest.raises(ConfigError, match="orders-0 has no committed offset to shift by 2"):
        plan_move(ShiftBy(2), ZERO, found(committed=None))


def test_a_file_must_name_the_partition() -> None:
    with pytest.raises(ConfigError, match="no offset for orders-0"):
        plan_move(FromFile({}), ZERO, found())


def test_rows_are_read_as_they_were_written() -> None:
    move = Move(ZERO, None, Offset(7), 7)

    assert read_csv([csv_row(move), "", '"audit", 3 ,9'], "f") == {ZERO: 7, TopicPartition("audit", 3): 9}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["orders,0,5", "orders,x,5"], "file f line 2 is 'orders,x,5'.*topic,partition,offset"),
        (["orders,0"], "line 1"),
        (["orders,0,-5"], "line 1"),
        ([",0,5"], "line 1"),
        (["orders,0,5", "orders,0,6"], "line 2 names orders-0 a second time"),
        ([""], "is empty"),
    ],
)
def test_a_row_that_is_none_is_named_by_its_line(lines: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_csv(lines, "file f")


def test_partitions_are_named_by_topic_all_or_some() -> None:
    assert parse_places(["a", "b:2,0", "b:1", "c:1", "c"]) == {"a": None, "b": [0, 1, 2], "c": None}


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:x", "a:1,", "a:-1"])
def test_what_names_no_partitions_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected TOPIC or TOPIC:PARTITION"):
        parse_places([text])
