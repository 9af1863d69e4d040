"""The twins that encode and read records one by one say the same of anything (P1, C1, O5)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.model.errors import CorruptDataError
from everlog.records import rows, rows_plain
from everlog.records.batch import HEADER_BYTES, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec, compress
from everlog.records.rows import rows_are_compiled

pytestmark = pytest.mark.skipif(
    not rows_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)

TIMES = st.integers(0, 2**63 - 1) | st.integers(-(2**70), 2**70)
CONTENT = st.none() | st.binary(max_size=200) | st.binary(max_size=9).map(bytearray)
ANYTHING = CONTENT | st.text(max_size=3) | st.integers() | st.just(memoryview(b"abcd")[::2])
NAMES = st.text(max_size=12) | st.binary(max_size=6).map(lambda b: b.decode("utf-8", "surrogateescape"))
HEADERS = st.lists(st.tuples(NAMES, CONTENT), max_size=4) | st.just(())
LOOSE_HEADERS = HEADERS | st.lists(st.tuples(NAMES | st.binary(), ANYTHING) | st.lists(NAMES, max_size=3))
GOOD = st.tuples(CONTENT, CONTENT, HEADERS, st.integers(0, 2**63 - 1))
LOOSE = GOOD | st.tuples(ANYTHING, ANYTHING, LOOSE_HEADERS | st.none(), TIMES | st.none())


def appended(twin: Any, records: list[tuple[Any, ...]]) -> list[object]:
    buffer = twin.BatchBuffer()
    said: list[object] = []
    for record in records:
        try:
            said.append(buffer.append(*record))
        except (TypeError, ValueError) as error:
            said.append((type(error), str(error)))
        said.append((buffer.count, buffer.size_bytes, buffer.base_timestamp, buffer.max_timestamp))
    if buffer.count:
        said.append(buffer.seal(producer_id=5, producer_epoch=1, base_sequence=9))
    return said


@given(st.lists(LOOSE, max_size=8))
def test_both_encode_the_same_and_refuse_the_same(records: list[tuple[Any, ...]]) -> None:
    assert appended(rows, records) == appended(rows_plain, records)


def read(twin: Any, raw: bytes, start: int, end: int | None) -> object:
    into: list[Any] = ["before"]
    try:
        twin.read_rows(batch_at(raw), "orders", 3, start, end, into)
    except CorruptDataError as error:
        assert into == ["before"]
        return str(error)
    return [
        (
            r.topic,
            r.partition,
            r.offset,
            r.timestamp,
            r.timestamp_type,
            r.key,
            r.value,
            r.headers,
            r.leader_epoch,
        )
        for r in into[1:]
    ]


@given(
    st.lists(GOOD, min_size=1, max_size=8),
    st.sampled_from(Codec),
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 2**63 - 1),
    st.data(),
)
def test_both_read_the_same_and_refuse_with_the_same_words(
    records: list[tuple[Any, ...]], codec: Codec, base: int, appended_at: int | None, data: st.DataObject
) -> None:
    batch = build_batch(
        [NewRecord(*record) for record in records],
        codec=codec,
        base_offset=base,
        leader_epoch=4,
        log_append_time=appended_at,
    )
    for _ in range(data.draw(st.integers(0, 3))):
        # Not the length and the magic, which `batch_at` and its callers look at; nor what is packed.
        position = data.draw(st.integers(21, (len(batch) if codec == Codec.NONE else HEADER_BYTES) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    near = st.integers(base - 3, base + len(records) + 3) | st.integers(-(2**70), 2**70)
    start, end = data.draw(near), data.draw(st.none() | near)

    assert read(rows, bytes(batch), start, end) == read(rows_plain, bytes(batch), start, end)


@given(st.binary(max_size=120), st.integers(-1, 9), st.sampled_from(Codec))
def test_both_say_the_same_of_any_bytes(section: bytes, count: int, codec: Codec) -> None:
    batch = build_batch([NewRecord(b"", b"", (), 0)], codec=codec)[:HEADER_BYTES]
    batch += compress(codec, section)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[23:27] = batch[57:61] = count.to_bytes(4, "big", signed=True)

    assert read(rows, bytes(batch), 0, None) == read(rows_plain, bytes(batch), 0, None)
