"""Which change of a key counts."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.model.topics import TopicPartition
from everlog.tables.arrow import Rows, one_array, pa
from everlog.tables.offsets import Coverage, OffsetRanges
from everlog.tables.schema import DELETED, META
from everlog.tables.upsert import graves_of, identity, latest, matched, not_covered

KEY = ("_key",)
SCHEMA = pa.schema([*META, pa.field(DELETED, pa.bool_()), pa.field("n", pa.int64())])


def rows(*given: dict[str, Any]) -> Rows:
    """Rows of topic t, partition 0, time by offset, unless they say otherwise."""
    listed = [
        {
            "_topic": "t",
            "_partition": 0,
            "_timestamp": each.get("_offset"),
            DELETED: False,
            "n": at,
            **each,
        }
        for at, each in enumerate(given)
    ]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


def a(key: str, offset: int | None, **more: Any) -> dict[str, Any]:
    return {"_key": key.encode(), "_offset": offset, **more}


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 30)), unique_by=lambda pair: pair[1]))
def test_the_latest_of_each_key_is_that_of_the_highest_offset(pairs: list[tuple[str, int]]) -> None:
    found = latest(rows(*(a(key, offset) for key, offset in pairs)), KEY)

    model: dict[bytes, int] = {}
    for key, offset in pairs:
        model[key.encode()] = max(offset, model.get(key.encode(), -1))
    assert {row["_key"]: row["_offset"] for row in found.to_pylist()} == model


def test_an_offset_beats_a_clock_within_a_partition_and_the_clock_decides_between_partitions() -> None:
    one_partition = rows(a("k", 9, _timestamp=1), a("k", 3, _timestamp=100))
    two = rows(a("k", 9, _timestamp=1), a("k", 3, _timestamp=100, _partition=1))

    assert latest(one_partition, KEY)["_offset"].to_pylist() == [9]
    assert latest(two, KEY)["_offset"].to_pylist() == [3]


def test_rows_that_name_no_offset_count_in_the_order_they_come_in() -> None:
    found = latest(rows(a("k", None), a("j", None), a("k", None)), KEY)

    assert found["n"].to_pylist() == [1, 2]


def compared(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[bool], list[int]]:
    before, changes = rows(old), rows(new)
    found = matched(before, identity(before, KEY), changes, identity(changes, KEY))
    return found.beaten.to_pylist(), found.stale.to_pylist()


def test_a_row_is_beaten_by_what_is_newer_only() -> None:
    assert compared(a("k", 5), a("k", 6)) == ([True], [])
    assert compared(a("k", 5), a("k", 4)) == ([False], [0])
    assert compared(a("k", 5), a("k", 5)) == ([False], [0])
    assert compared(a("k", 5), a("j", 9)) == ([False], [])
    assert compared(a("k", 5, _timestamp=100), a("k", 6, _timestamp=1)) == ([True], [])
    assert compared(a("k", 5, _timestamp=1), a("k", 4, _timestamp=100)) == ([False], [0])
    assert compared(a("k", 5, _timestamp=10), a("k", 4, _timestamp=11, _partition=1)) == ([True], [])
    assert compared(a("k", 5, _timestamp=10), a("k", 9, _timestamp=9, _partition=1)) == ([False], [0])
    assert compared(a("k", 5), a("k", None)) == ([True], [])


def test_keys_of_several_columns_are_told_apart() -> None:
    table = pa.table({"x": ["a", "a:1", "a", None], "y": ["1:b", "b", "1:b", "c"]})

    one, two, three, four = identity(table, ("x", "y")).to_pylist()

    assert one == three
    assert one != two
    assert four is None


def test_a_number_and_a_date_make_keys() -> None:
    table = pa.table({"x": pa.array([7, 7], pa.int64()), "y": pa.array([0, 1], pa.date32())})

    one, two = identity(table, ("x", "y")).to_pylist()

    assert one != two


def test_a_deletion_is_remembered_while_offsets_below_it_are_missing() -> None:
    changes = rows(a("k", 12, **{DELETED: True}), a("j", 13))
    place = TopicPartition("t", 0)
    gap = Coverage().plus(OffsetRanges.of({place: (10, 20)}))
    whole = gap.plus(OffsetRanges.of({place: (0, 10)}))

    found = graves_of(changes, identity(changes, KEY), gap)

    assert found["_identity"].to_pylist() == [b"k"]
    assert graves_of(changes, identity(changes, KEY), whole).num_rows == 0


def test_rows_of_offsets_that_were_taken_in_are_left_out() -> None:
    covered = Coverage().plus(OffsetRanges.of({("t", 0): (3, 5), ("u", 0): (0, 99)}))
    table = rows(a("a", 2), a("b", 3), a("c", 4), a("d", 5), a("e", 3, _partition=1), a("f", None))

    assert one_array(not_covered(table, covered)["_key"]).to_pylist() == [b"a", b"d", b"e", b"f"]
