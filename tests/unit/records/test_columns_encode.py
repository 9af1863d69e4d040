"""Columns to batches (P1): rows become what the builder makes of them, and go where their keys say.

Every test runs over the plain version and, where it is built, over the compiled one.
"""

from array import array
from collections.abc import Sequence
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.records import columns, columns_plain
from everlog.records.batch import HEADER_BYTES
from everlog.records.builder import NewRecord, build_batch
from everlog.records.column_buffers import (
    BinarySource,
    EncodedRows,
    HeaderSource,
    Keyless,
    NumberSource,
    RowSource,
)
from everlog.records.columns import columns_are_compiled
from everlog.records.crc import crc32c
from everlog.records.murmur2 import partition_of_key
from tests.unit.records.sections import NOON

needs_kernel = pytest.mark.skipif(
    not columns_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)
both_twins = pytest.mark.parametrize(
    "twin",
    [pytest.param(columns_plain, id="plain"), pytest.param(columns, id="compiled", marks=needs_kernel)],
)


def bitmap(valid: Sequence[bool], start: int) -> bytes:
    """A bitmap whose rows begin at bit `start`, with ones in front."""
    number = (1 << start) - 1
    for row, is_valid in enumerate(valid):
        number |= is_valid << (start + row)
    return number.to_bytes((start + len(valid) + 7) // 8 or 1, "little")


def binary(fields: Sequence[bytes | None], *, start: int = 0, wide: bool = False) -> BinarySource:
    """A column whose rows begin at slot `start`; other bytes lie before them."""
    data = bytearray(b"before" * start)
    offsets = [6 * slot for slot in range(start + 1)]
    for field in fields:
        data += field or b""
        offsets.append(len(data))
    valid = [field is not None for field in fields]
    return BinarySource(
        array("q" if wide else "i", offsets).tobytes(),
        bytes(data),
        None if all(valid) else bitmap(valid, start),
        start,
        wide,
    )


def numbers(values: Sequence[int | None], kind: str, *, start: int = 0) -> NumberSource:
    valid = [value is not None for value in values]
    raw = array(kind, [5] * start + [value or 0 for value in values]).tobytes()
    return NumberSource(raw, None if all(valid) else bitmap(valid, start), start)


def headers(
    rows: Sequence[Sequence[tuple[str, bytes | None]] | None], *, start: int = 0, wide: bool = False
) -> HeaderSource:
    offsets = [0] * (start + 1)
    pairs: list[tuple[str, bytes | None]] = []
    for row in rows:
        pairs.extend(row or ())
        offsets.append(len(pairs))
    valid = [row is not None for row in rows]
    return HeaderSource(
        array("q" if wide else "i", offsets).tobytes(),
        None if all(valid) else bitmap(valid, start),
        start,
        wide,
        len(pairs),
        binary([name.encode() for name, _ in pairs], start=start, wide=wide),
        binary([content for _, content in pairs], start=start),
    )


def rows_of(
    records: Sequence[NewRecord], *, start: int = 0, wide: bool = False, now: int = NOON + 1
) -> RowSource:
    return RowSource(
        len(records),
        binary([record.key for record in records], start=start, wide=wide),
        binary([record.value for record in records], start=start),
        headers([list(record.headers) or None for record in records], start=start, wide=wide),
        numbers([record.timestamp for record in records], "q", start=start),
        now,
    )


some_bytes = st.none() | st.binary(max_size=20) | st.integers(0, 300).map(lambda size: b"v" * size)
some_records = st.builds(
    NewRecord,
    some_bytes,
    some_bytes,
    st.just(()) | st.lists(st.tuples(st.text(max_size=5), some_bytes), max_size=3),
    st.sampled_from([NOON, 0, NOON + 70, NOON - 9_000, 1 << 62]),
)


@both_twins
@settings(max_examples=150, deadline=None)
@given(
    records=st.lists(some_records, min_size=1, max_size=70),
    start=st.integers(0, 9),
    wide=st.booleans(),
    max_bytes=st.integers(0, 2_000),
    reverse=st.booleans(),
)
def test_rows_become_what_the_builder_makes(
    twin: ModuleType, records: list[NewRecord], start: int, wide: bool, max_bytes: int, reverse: bool
) -> None:
    source = rows_of(records, start=start, wide=wide)
    turned = list(range(len(records)))[:: -1 if reverse else 1]
    order = array("i", turned).tobytes() if reverse else None
    at = 0
    while at < len(records):
        found: EncodedRows = twin.encode_rows(source, order, at, len(records), max_bytes)
        taken = [records[row] for row in turned[at : found.next]]
        assert taken
        assert found.section == build_batch(taken)[HEADER_BYTES:]
        assert found.base_timestamp == taken[0].timestamp
        assert found.max_timestamp == max(record.timestamp for record in taken)
        assert len(taken) == 1 or len(found.section) <= max_bytes
        if found.next < len(records):
            one_more = [*taken, records[turned[found.next]]]
            assert len(build_batch(one_more)) - HEADER_BYTES > max_bytes
        at = found.next


@both_twins
def test_columns_that_are_left_out_are_null_and_of_now(twin: ModuleType) -> None:
    found = twin.encode_rows(RowSource(2, None, None, None, None, NOON), None, 0, 2, 1_000)

    assert found.section == build_batch([NewRecord(None, None, (), NOON)] * 2)[HEADER_BYTES:]


@both_twins
def test_a_row_without_a_timestamp_is_of_now(twin: ModuleType) -> None:
    times = numbers([None, NOON], "q", start=3)
    found = twin.encode_rows(RowSource(2, None, None, None, times, NOON - 5), None, 0, 2, 1_000)

    assert (found.base_timestamp, found.max_timestamp) == (NOON - 5, NOON)


@both_twins
def test_a_header_without_a_name_is_refused(twin: ModuleType) -> None:
    named = headers([[], [("a", b"x")]])
    nameless = named._replace(names=binary([None]))
    with pytest.raises(ValueError, match="row 1: a header has no name"):
        twin.encode_rows(RowSource(2, None, None, nameless, None, NOON), None, 0, 2, 1_000)


GOOD = binary([b"abc", b"de"])
LONGER = memoryview(array("i", [0, 3, 5, 5, 5, 5, 5, 5]).tobytes())
"""Bytes that lie behind a buffer, and would do if anybody looked there."""


@both_twins
@pytest.mark.parametrize(
    "bad",
    [
        GOOD._replace(data=b"abcd"),
        GOOD._replace(offsets=array("i", [0, 4, 3]).tobytes()),
        GOOD._replace(offsets=array("i", [0, 3, -1]).tobytes()),
        GOOD._replace(offsets=array("i", [0, 3]).tobytes()),
        GOOD._replace(offsets=b""),
        GOOD._replace(offsets=LONGER[:8]),
        GOOD._replace(offsets=LONGER[:12], start=1),
        GOOD._replace(start=1),
        GOOD._replace(wide=True),
        GOOD._replace(validity=b""),
        GOOD._replace(validity=memoryview(b"\xff\xff\xff")[:0]),
    ],
)
def test_columns_that_point_outside_their_data_are_refused(twin: ModuleType, bad: BinarySource) -> None:
    for source in (
        RowSource(2, None, bad, None, None, NOON),
        RowSource(2, bad, None, None, None, NOON),
        RowSource(1, None, None, headers([[("a", b""), ("b", b"")]])._replace(contents=bad), None, NOON),
    ):
        with pytest.raises(ValueError):
            twin.encode_rows(source, None, 0, source.rows, 1_000)
    with pytest.raises(ValueError):
        twin.route_rows(2, bad, None, 3, Keyless((0,), 1))


@both_twins
def test_lists_of_headers_and_numbers_that_end_early_are_refused(twin: ModuleType) -> None:
    good = headers([[("a", b"")], []])
    for bad in (
        good._replace(offsets=array("i", [0, 2, 2]).tobytes()),
        good._replace(offsets=array("i", [-1, 0, 0]).tobytes()),
        good._replace(offsets=array("i", [0, 1]).tobytes()),
        good._replace(validity=b""),
        good._replace(entries=9, offsets=array("i", [0, 9, 9]).tobytes()),
    ):
        with pytest.raises(ValueError):
            twin.encode_rows(RowSource(2, None, None, bad, None, NOON), None, 0, 2, 1_000)
    pair = headers([[("a", b""), ("b", b"")]])
    with pytest.raises(ValueError, match="row 0"):
        twin.encode_rows(RowSource(1, None, None, pair._replace(entries=1), None, NOON), None, 0, 1, 1_000)
    two = memoryview(numbers([NOON, NOON], "q").numbers)
    with pytest.raises(ValueError):
        twin.encode_rows(RowSource(2, None, None, None, NumberSource(two[:8], None, 0), NOON), None, 0, 2, 99)


@both_twins
@pytest.mark.parametrize(("first", "stop"), [(0, 3), (-1, 1), (1, 1), (2, 1)])
def test_rows_that_are_not_there_are_refused(twin: ModuleType, first: int, stop: int) -> None:
    source = RowSource(2, None, GOOD, None, None, NOON)
    for order in (None, array("i", [1, 0]).tobytes()):
        with pytest.raises(ValueError):
            twin.encode_rows(source, order, first, stop, 1_000)
    with pytest.raises(ValueError, match="row 2"):
        twin.encode_rows(source, array("i", [0, 2]).tobytes(), 0, 2, 1_000)
    shorter = source._replace(rows=1)
    with pytest.raises(ValueError, match="row 1"):
        twin.encode_rows(shorter, array("i", [0, 1]).tobytes(), 0, 2, 1_000)


@both_twins
@settings(max_examples=150, deadline=None)
@given(
    keys=st.lists(some_bytes, max_size=60),
    given_partitions=st.none() | st.lists(st.none() | st.integers(0, 4), min_size=60, max_size=60),
    start=st.integers(0, 9),
    run_rows=st.integers(1, 7),
    run_at=st.integers(0, 50),
)
def test_rows_go_where_they_ask_else_by_key_else_in_turn(
    twin: ModuleType,
    keys: list[bytes | None],
    given_partitions: list[int | None] | None,
    start: int,
    run_rows: int,
    run_at: int,
) -> None:
    wanted = given_partitions[: len(keys)] if given_partitions else None
    keyless = Keyless((4, 1, 2), run_rows, run_at)
    given_column = None if wanted is None else numbers(wanted, "i", start=start)
    routed = twin.route_rows(len(keys), binary(keys, start=start), given_column, 5, keyless)

    expected: list[list[int]] = [[] for _ in range(5)]
    turn = run_at
    for row, key in enumerate(keys):
        asked = None if wanted is None else wanted[row]
        if asked is not None:
            expected[asked].append(row)
        elif key is not None:
            expected[partition_of_key(key, 5)].append(row)
        else:
            expected[(4, 1, 2)[turn // run_rows % 3]].append(row)
            turn += 1
    order = list(memoryview(routed.order).cast("i"))
    assert [order[begin:end] for begin, end in zip((0, *routed.ends), routed.ends, strict=False)] == expected
    assert routed.run_at == turn


@both_twins
@settings(max_examples=80, deadline=None)
@given(rows=st.integers(1, 90), run_rows=st.integers(1, 30), run_at=st.integers(0, 1 << 31))
def test_runs_of_rows_without_keys_are_where_the_rows_go(
    twin: ModuleType, rows: int, run_rows: int, run_at: int
) -> None:
    keyless = Keyless((2, 0), run_rows, run_at)
    routed = twin.route_rows(rows, None, None, 3, keyless)

    by_partition: list[list[int]] = [[], [], []]
    for partition, start, end in keyless.runs(rows):
        by_partition[partition].extend(range(start, end))
    order = list(memoryview(routed.order).cast("i"))
    assert [
        order[begin:end] for begin, end in zip((0, *routed.ends), routed.ends, strict=False)
    ] == by_partition
    assert routed.run_at == run_at + rows


@both_twins
@pytest.mark.parametrize("partition", [-1, 3, 1 << 30])
def test_a_partition_that_does_not_exist_is_refused_by_row(twin: ModuleType, partition: int) -> None:
    with pytest.raises(ValueError, match=f"row 1: partition {partition}, expected 0 to 2"):
        twin.route_rows(2, None, numbers([0, partition], "i"), 3, Keyless((0,), 1))


@both_twins
@given(st.binary(max_size=100), st.binary(max_size=100), st.integers(0, 3_000_000))
@settings(max_examples=20, deadline=None)
def test_checksums_of_two_pieces_are_joined_to_that_of_both(
    twin: ModuleType, first: bytes, second: bytes, more: int
) -> None:
    second += bytes(more)
    joined = twin.join_checksums(crc32c(first), crc32c(second), len(second))
    assert joined == crc32c(first + second)
