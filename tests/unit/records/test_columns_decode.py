"""Batches to columns (C1): what comes out is what the reader reads, and what it refuses is refused.

Every test runs over the plain version and, where it is built, over the compiled one.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from types import ModuleType
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.model.errors import CorruptDataError
from everlog.records import columns, columns_plain
from everlog.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, BatchView, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.column_buffers import LARGEST_INT64, Binary, Columns, Span, Views
from everlog.records.columns import columns_are_compiled
from everlog.records.compression import Codec, decompress
from everlog.records.reader import Record, read_records
from tests.unit.records.sections import NOON, a_record, sized, varint

needs_kernel = pytest.mark.skipif(
    not columns_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)
Decode = Callable[[Sequence[Span]], Columns]


@pytest.fixture(params=["plain", pytest.param("compiled", marks=needs_kernel)])
def decode(request: pytest.FixtureRequest) -> Decode:
    twin: ModuleType = columns_plain if request.param == "plain" else columns
    function: Decode = twin.decode_columns
    return function


def bits(validity: object, rows: int) -> list[bool]:
    if validity is None:
        return [True] * rows
    assert isinstance(validity, bytes | bytearray)
    return [bool(validity[row >> 3] >> (row & 7) & 1) for row in range(rows)]


def fields(column: Binary, rows: int) -> list[bytes | None]:
    bounds = memoryview(column.offsets).cast("i")
    assert len(bounds) == rows + 1
    assert len(column.data) == bounds[rows]
    valid = bits(column.validity, rows)
    assert column.null_count == valid.count(False)
    return [bytes(column.data[bounds[row] : bounds[row + 1]]) if valid[row] else None for row in range(rows)]


def records_of(found: Columns) -> list[Record]:
    """The columns as the reader would have given the records."""
    names = fields(found.header_name, found.header_count)
    contents = fields(found.header_value, found.header_count)
    lists = memoryview(found.header_lists).cast("i")
    timed = bits(found.timestamp_validity, found.rows)
    times = memoryview(found.timestamp).cast("q")
    assert [time != -1 for time in times] == timed
    headers = [
        tuple(
            (name.decode(), content)
            for name, content in zip(
                names[lists[i] : lists[i + 1]], contents[lists[i] : lists[i + 1]], strict=True
            )
            if name is not None
        )
        for i in range(found.rows)
    ]
    return [
        Record(*row)
        for row in zip(
            memoryview(found.offset).cast("q"),
            times,
            fields(found.key, found.rows),
            fields(found.value, found.rows),
            headers,
            strict=True,
        )
    ]


def a_span(batch: BatchView, start: int = 0, stop: int = LARGEST_INT64) -> Span:
    section = decompress(batch.codec, batch.records) if batch.codec else None
    return Span(batch.raw, section, start, stop, 0, 7)


names = st.text(max_size=9) | st.sampled_from(["ä", "日本", "x" * 70])
some_bytes = st.none() | st.binary(max_size=40) | st.integers(0, 300).map(lambda size: b"v" * size)
some_records = st.builds(
    NewRecord,
    some_bytes,
    some_bytes,
    st.just(()) | st.lists(st.tuples(names, some_bytes), max_size=3),
    st.sampled_from([NOON, -1, 0, NOON + 70, NOON - 9_000, 1 << 40]),
)


def built(records: list[NewRecord], codec: Codec, base: int, epoch: int, appended: int | None) -> bytes:
    return bytes(
        build_batch(records, codec=codec, base_offset=base, leader_epoch=epoch, log_append_time=appended)
    )


batches = st.builds(
    built,
    st.lists(some_records, min_size=1, max_size=80),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
    st.integers(0, 1 << 40),
    st.integers(-1, 9),
    st.none() | st.just(NOON + 5),
)


@settings(max_examples=200, deadline=None)
@given(raw=st.lists(batches, max_size=4), start=st.integers(0, 90), length=st.integers(0, 90))
@pytest.mark.parametrize("twin", [columns_plain, pytest.param(columns, marks=needs_kernel)])
def test_columns_hold_what_the_reader_reads(
    twin: ModuleType, raw: list[bytes], start: int, length: int
) -> None:
    views = [batch_at(data) for data in raw]
    spans = [
        a_span(view, view.base_offset + start, view.base_offset + start + length) if start else a_span(view)
        for view in views
    ]
    found: Columns = twin.decode_columns(spans)

    expected = [
        (view, record)
        for view, span in zip(views, spans, strict=True)
        for record in read_records(view)
        if span.start <= record.offset < span.stop
    ]
    assert records_of(found) == [record for _, record in expected]
    assert found == columns_plain.decode_columns(spans)
    assert list(memoryview(found.leader_epoch).cast("i")) == [view.leader_epoch for view, _ in expected]
    assert list(found.timestamp_type) == [view.attributes >> 3 & 1 for view, _ in expected]
    assert list(memoryview(found.partition).cast("i")) == [7] * found.rows
    assert list(memoryview(found.topic).cast("i")) == [0] * found.rows


@settings(max_examples=100, deadline=None)
@given(
    raw=st.lists(
        st.builds(
            built,
            st.lists(some_records, min_size=1, max_size=20),
            st.just(Codec.NONE),
            st.integers(0, 99),
            st.integers(-1, 9),
            st.none() | st.just(NOON + 5),
        ),
        max_size=5,
    ),
    start=st.integers(0, 99),
)
@pytest.mark.parametrize("twin", [columns_plain, pytest.param(columns, marks=needs_kernel)])
def test_batches_back_to_back_are_read_as_those_by_themselves(
    twin: ModuleType, raw: list[bytes], start: int
) -> None:
    one_by_one = [Span(data, None, start, LARGEST_INT64, 0, 7) for data in raw]
    whole = [Span(b"".join(raw), None, start, LARGEST_INT64, 0, 7)] if raw else []
    decoded: Columns = twin.decode_columns(whole)

    assert decoded == twin.decode_columns(one_by_one)
    views = twin.decode_with_views([span._replace(raw=memoryview(span.raw)) for span in whole])[1]
    assert values_of(views, decoded.rows) == fields(decoded.value, decoded.rows)


@pytest.mark.parametrize("left", [1, 11, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 3])
def test_what_is_left_of_a_batch_behind_others_is_refused(decode: Decode, left: int) -> None:
    batch = built([NewRecord(None, b"value", (), NOON)] * 2, Codec.NONE, 0, 0, None)

    with pytest.raises(CorruptDataError):
        decode([Span(batch + batch[:left], None, 0, LARGEST_INT64, 0, 0)])


def a_batch(section: bytes, count: int, *, last: int | None = None, base: int = 0, time: int = NOON) -> Span:
    length = HEADER_BYTES - LENGTH_OVERHEAD + len(section)
    delta = count - 1 if last is None else last
    header = HEADER.pack(base, length, 3, 2, 0, 0, delta, time, time, -1, -1, -1, count)
    return a_span(batch_at(header + section))


BAD = {
    "size beyond the end": varint(100) + a_record(0)[1:],
    "size of nothing": varint(0),
    "a negative size": varint(-1) + a_record(0)[1:],
    "no room for the offset": sized(b"\x00" + varint(5)),
    "offset delta above the last": a_record(7),
    "key beyond the record": sized(b"\x00" + varint(0) + varint(0) + varint(50) + b"k" + varint(-1)),
    "key length of -2": sized(b"\x00" + varint(0) + varint(0) + varint(-2) + varint(-1) + varint(0)),
    "value beyond the record": sized(b"\x00" + varint(0) + varint(0) + varint(-1) + varint(9) + b"v"),
    "value length of -2": sized(b"\x00" + varint(0) + varint(0) + varint(-1) + varint(-2) + varint(0)),
    "headers below none": sized(b"\x00" + varint(0) + varint(0) + varint(-1) + varint(-1) + varint(-1)),
    "more headers than bytes": sized(b"\x00" + varint(0) * 2 + varint(-1) * 2 + varint(99) + b"ab"),
    "a header without a name": sized(b"\x00" + varint(0) * 2 + varint(-1) * 2 + varint(1) + varint(-1) * 2),
    "a header that ends early": sized(b"\x00" + varint(0) * 2 + varint(-1) * 2 + varint(1) + varint(0)),
    "bytes behind the headers": sized(b"\x00" + varint(0) * 2 + varint(-1) * 2 + varint(0) + b"\x00"),
    "bytes behind real headers": sized(
        b"\x00" + varint(0) * 2 + varint(-1) * 2 + varint(1) + varint(0) + varint(-1) + b"\x00"
    ),
    "a header that is not there": sized(
        b"\x00" + varint(0) * 2 + varint(-1) + varint(20) + b"v" * 20 + varint(1)
    ),
    "headers below none, long": sized(
        b"\x00" + varint(0) * 2 + varint(-1) + varint(20) + b"v" * 20 + varint(-1)
    ),
    "bytes behind a long value": sized(
        b"\x00" + varint(0) * 2 + varint(-1) + varint(20) + b"v" * 20 + b"\x00\x00"
    ),
    "no number of headers": sized(b"\x00" + varint(0) * 2 + varint(-1) + varint(20) + b"v" * 20),
    "a long value beyond the record": sized(b"\x00" + varint(0) * 2 + varint(-1) + varint(20) + b"v" * 19)
    + b"v" * 9,
    "bytes left over": a_record(0) + b"\x00",
    "a record left over": a_record(0) + a_record(1),
    "varint without end": b"\xff" * 11,
    "nothing": b"",
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_records_are_refused_in_the_words_of_the_reader(decode: Decode, name: str) -> None:
    good, bad = a_batch(a_record(0), 1), a_batch(BAD[name] + b"", 1)
    with pytest.raises(CorruptDataError) as refused:
        decode([good, bad])
    with pytest.raises(CorruptDataError) as expected:
        read_records(BatchView(memoryview(bad.raw)))
    assert str(refused.value) == str(expected.value)


def test_offset_deltas_must_rise_and_counts_must_fit(decode: Decode) -> None:
    for span in (
        a_batch(a_record(1) + a_record(1), 2, last=5),
        a_batch(a_record(1) + a_record(0), 2),
        a_batch(a_record(0), 1 << 30),
        a_batch(a_record(0), -1),
        a_batch(b"", -1, last=0),
        a_batch(a_record(0, timestamp_delta=9), 1, time=LARGEST_INT64 - 3),
        a_batch(a_record(9), 1, last=9, base=LARGEST_INT64 - 3),
    ):
        with pytest.raises(CorruptDataError):
            decode([span])


def test_gaps_of_compaction_and_empty_batches_are_fine(decode: Decode) -> None:
    found = decode([a_batch(b"", 0, last=4), a_batch(a_record(2) + a_record(9), 2, last=11, base=5)])

    assert list(memoryview(found.offset).cast("q")) == [7, 14]


@pytest.mark.parametrize(
    "name",
    [
        b"\xff",
        "ä€😀".encode(),
        b"\xc3",
        b"\xc1\xbf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xe2\x82\x28",
        b"a\xf0\x9f",
        b"\xf5\x80\x80\x80",
    ],
)
def test_a_header_name_that_is_not_utf8_is_mended(decode: Decode, name: bytes) -> None:
    found = decode([a_batch(a_record(0, headers=[(b"plain", b""), (name, b"x")]), 1)])

    assert fields(found.header_name, found.header_count) == [
        b"plain",
        name.decode("utf-8", "replace").encode(),
    ]


def test_nothing_to_decode_gives_no_rows(decode: Decode) -> None:
    found = decode([])

    assert (found.rows, found.header_count, bytes(found.key.offsets)) == (0, 0, bytes(4))


def values_of(found: Views, rows: int) -> list[bytes | None]:
    """What the views show."""
    valid = bits(found.validity, rows)
    assert found.null_count == valid.count(False)
    assert len(found.views) == 16 * rows
    values: list[bytes | None] = []
    for row in range(rows):
        view = bytes(found.views[16 * row : 16 * row + 16])
        size, prefix, number, at = cast(tuple[int, bytes, int, int], Struct("=i4sii").unpack(view))
        value = view[4 : 4 + size]
        if size > 12:
            value = bytes(found.buffers[number][at : at + size])
            assert value[:4] == prefix
        else:
            assert view[4 + size :] == bytes(12 - size)
        values.append(value if valid[row] else None)
    return values


@settings(max_examples=200, deadline=None)
@given(raw=st.lists(batches, max_size=4), start=st.integers(0, 90), apart=st.booleans())
@pytest.mark.parametrize("twin", [columns_plain, pytest.param(columns, marks=needs_kernel)])
def test_views_show_the_values_that_columns_hold(
    twin: ModuleType, raw: list[bytes], start: int, apart: bool
) -> None:
    answer, places, at = bytearray(b"".join(raw)), list[BatchView](), 0
    for data in raw:
        places.append(batch_at(data) if apart else batch_at(answer, at))
        at += len(data)
    spans = [a_span(view, view.base_offset + start) for view in places]
    plain = columns_plain.decode_columns(spans)
    found: tuple[Columns, Views] = twin.decode_with_views(spans)

    assert found[0]._replace(value=plain.value) == plain
    assert values_of(found[1], plain.rows) == fields(plain.value, plain.rows)


@needs_kernel
def test_batches_of_one_answer_share_a_buffer_of_views() -> None:
    one = build_batch([NewRecord(None, b"v" * 50, (), NOON)])
    answer = bytearray(one + one)
    spans = [a_span(batch_at(answer, 0)), a_span(batch_at(answer, len(one))), a_span(batch_at(one))]
    _, found = columns.decode_with_views(spans)

    assert [buffer is known for buffer, known in zip(found.buffers, (answer, one), strict=True)] == [True] * 2
    assert found.views[:8] == found.views[16:24] == found.views[32:40]


@needs_kernel
def test_what_is_damaged_is_refused_with_views_too() -> None:
    damaged = build_batch([NewRecord(None, b"v" * 50, (), NOON)])
    damaged[HEADER_BYTES] = 0x7E
    with pytest.raises(CorruptDataError):
        columns.decode_with_views([a_span(batch_at(damaged))])


@needs_kernel
@settings(max_examples=300, deadline=None)
@given(raw=batches, at=st.integers(0, 400), byte=st.integers(0, 255), count=st.integers(-1, 90))
def test_both_versions_agree_on_damage(raw: bytes, at: int, byte: int, count: int) -> None:
    damaged = bytearray(raw)
    damaged[HEADER_BYTES + at % (len(raw) - HEADER_BYTES)] = byte
    if count % 7 == 0:
        damaged[57:61] = count.to_bytes(4, "big", signed=True)
    span = Span(damaged, None, 0, LARGEST_INT64, 0, 0)
    answers: list[Columns | str] = []
    for twin in (columns_plain, columns):
        try:
            answers.append(twin.decode_columns([span]))
        except CorruptDataError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


@needs_kernel
def test_a_column_of_many_headers_and_keys_grows() -> None:
    records = [
        NewRecord(b"k" * (i % 300), None, [("h" * (i % 9), b"x" * (i % 50))] * (i % 5), NOON)
        for i in range(9_000)
    ]
    span = a_span(batch_at(build_batch(records)))

    assert columns.decode_columns([span]) == columns_plain.decode_columns([span])
