"""Record batches under random records and random damage (L1, P3, O5)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonReader

from everlog.model.errors import CorruptDataError
from everlog.records.batch import HEADER_BYTES, batch_at
from everlog.records.builder import NewRecord, build_batch, record_bytes_at_most
from everlog.records.compression import Codec, compress, decompress
from everlog.records.reader import Record, read_records
from everlog.records.skim import Skim, kernel_is_loaded, skim, skim_compiled, skim_plainly
from everlog.records.varint import append_varint, read_varlong, varint_bytes

TIMESTAMPS = st.integers(-(2**62), 2**62 - 1)
"""No two of them are further apart than the 64 bits of a record's delta."""
BYTES = st.binary(max_size=60) | st.binary(min_size=1, max_size=3).map(lambda piece: piece * 700)
HEADERS = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=20)), max_size=4)
RECORDS = st.builds(NewRecord, st.none() | BYTES, st.none() | BYTES, HEADERS, TIMESTAMPS)
BATCHES = st.lists(RECORDS, min_size=1, max_size=12)
CODECS = st.sampled_from(Codec)


def as_read(records: list[NewRecord], base_offset: int) -> list[Record]:
    return [
        Record(base_offset + i, record.timestamp, record.key, record.value, tuple(record.headers))
        for i, record in enumerate(records)
    ]


@given(BATCHES, CODECS, st.integers(0, 2**62))
def test_reading_undoes_building(records: list[NewRecord], codec: Codec, base_offset: int) -> None:
    batch = batch_at(build_batch(records, codec=codec, base_offset=base_offset))

    assert batch.checksum_holds()
    assert read_records(batch) == as_read(records, base_offset)


def test_timestamps_further_apart_than_a_delta_holds_are_refused() -> None:
    """They made a batch that nobody could read; found by the test below."""
    first, far = NewRecord(None, None, timestamp=-(2**62)), NewRecord(None, None, timestamp=2**62)

    with pytest.raises(ValueError, match=r"9223372036854775808 ms .* 64 bits"):
        build_batch([first, far])
    assert read_records(batch_at(build_batch([far, first])))[1].timestamp == -(2**62)


@given(BATCHES)
def test_a_skim_agrees_with_the_records(records: list[NewRecord]) -> None:
    batch = batch_at(build_batch(records))
    times = [record.timestamp for record in records]
    summary = Skim(max(times), times.index(max(times)), any(record.key is None for record in records))

    assert skim_plainly(batch.records, batch.count, batch.base_timestamp) == summary
    assert skim(batch.records, batch.count, batch.base_timestamp) == summary
    assert batch.max_timestamp == summary.max_timestamp


@given(BATCHES, st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]))
def test_kafka_python_reads_what_we_build(records: list[NewRecord], codec: Codec) -> None:
    reader: Any = KafkaPythonReader(bytes(build_batch(records, codec=codec)))

    assert reader.validate_crc()
    found = [
        Record(r.offset, r.timestamp, r.key, r.value, tuple((name, content) for name, content in r.headers))
        for r in reader
    ]
    assert found == as_read(records, 0)


@pytest.mark.skipif(
    not kernel_is_loaded(),
    reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set",
)
@given(BATCHES, st.data())
def test_both_skims_say_the_same_of_damaged_records(records: list[NewRecord], data: st.DataObject) -> None:
    batch = batch_at(build_batch(records))
    section = bytearray(batch.records)
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, len(section) - 1))
        section[position] = data.draw(st.integers(0, 255))
    count = batch.count + data.draw(st.integers(-1, 1))
    base = data.draw(st.sampled_from([batch.base_timestamp, 2**63 - 1, -(2**63)]))

    assert outcome(skim_compiled, section, count, base) == outcome(skim_plainly, section, count, base)


def outcome(skimmer: Any, section: bytearray, count: int, base_timestamp: int) -> Skim | str:
    try:
        result: Skim = skimmer(section, count, base_timestamp)
    except CorruptDataError as error:
        return str(error)
    return result


@given(st.binary(max_size=5_000) | st.binary(max_size=40).map(lambda piece: piece * 3_000), CODECS)
def test_unpacking_undoes_packing(data: bytes, codec: Codec) -> None:
    packed = compress(codec, data)

    assert decompress(codec, packed, len(data)) == data
    if data:
        with pytest.raises(CorruptDataError):
            decompress(codec, packed, len(data) - 1)


@given(BATCHES, CODECS, st.data())
def test_damage_to_a_batch_is_seen_by_its_checksum(
    records: list[NewRecord], codec: Codec, data: st.DataObject
) -> None:
    raw = build_batch(records, codec=codec)
    position = data.draw(st.integers(17, len(raw) - 1))
    raw[position] ^= data.draw(st.integers(1, 255))

    assert not batch_at(raw).checksum_holds()


@given(BATCHES, CODECS, st.data())
def test_damage_that_no_checksum_covers_ends_in_records_or_the_one_error(
    records: list[NewRecord], codec: Codec, data: st.DataObject
) -> None:
    raw = build_batch(records, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(8, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_records(batch_at(raw), max_bytes=1 << 20)
    except CorruptDataError:
        return
    assert len(found) == batch_at(raw).count


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varlong_reads_back(value: int) -> None:
    out = bytearray()
    append_varint(out, value)

    assert len(out) == varint_bytes(value) <= 10
    assert read_varlong(out, 0) == (value, len(out))


@given(RECORDS)
def test_a_records_size_is_bounded(record: NewRecord) -> None:
    taken = len(build_batch([record])) - HEADER_BYTES

    assert taken <= record_bytes_at_most(record) <= taken + 20
