"""Records to a batch and back: fields, gaps, timestamps, and the bytes themselves (L1, P1, P3, C1)."""

import gc

import pytest

from everlog.model.errors import CorruptDataError
from everlog.records.batch import HEADER, HEADER_BYTES, batch_at
from everlog.records.builder import NewRecord, build_batch, record_bytes_at_most
from everlog.records.compression import Codec
from everlog.records.crc import crc32c
from everlog.records.reader import Record, read_records
from tests.unit.records.sections import NOON, a_record, field, sized, varint

ORDERS = [
    NewRecord(b"customer-1", b"pizza", [("trace", b"\x01\x02"), ("größe", None)], NOON),
    NewRecord(None, b"", (), NOON + 5),
    NewRecord(b"", None, [("", b"")], NOON - 7),
]


def a_raw_batch(
    section: bytes, count: int, *, last_offset_delta: int | None = None, attributes: int = 0
) -> bytearray:
    """A batch around a records section made by hand, as compaction may have left it."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    header = HEADER.pack(
        500, HEADER_BYTES - 12 + len(section), 3, 2, 0, attributes, last, NOON, NOON + 9, -1, -1, -1, count
    )
    raw = bytearray(header + section)
    raw[17:21] = crc32c(memoryview(raw)[21:]).to_bytes(4, "big")
    return raw


@pytest.mark.parametrize("codec", Codec)
def test_what_is_built_is_read_back(codec: Codec) -> None:
    batch = batch_at(build_batch(ORDERS, codec=codec, base_offset=40))

    assert batch.checksum_holds()
    assert batch.codec == codec
    assert (batch.base_timestamp, batch.max_timestamp) == (NOON, NOON + 5)
    assert read_records(batch) == [
        Record(40, NOON, b"customer-1", b"pizza", (("trace", b"\x01\x02"), ("größe", None))),
        Record(41, NOON + 5, None, b"", ()),
        Record(42, NOON - 7, b"", None, (("", b""),)),
    ]


def test_a_batch_has_the_bytes_that_the_format_gives_it() -> None:
    raw = build_batch(
        [NewRecord(b"k", b"v", [("h", None)], 1_000), NewRecord(None, b"w", (), 1_002)],
        producer_id=0x0102030405060708,
        producer_epoch=9,
        base_sequence=11,
        transactional=True,
    )

    expected = (
        "0000000000000000" "00000045" "ffffffff" "02" "CCCCCCCC" "0010" "00000001"
        "00000000000003e8" "00000000000003ea" "0102030405060708" "0009" "0000000b" "00000002"
        "16" "00" "00" "00" "026b" "0276" "02" "0268" "01"
        "0e" "00" "04" "02" "01" "0277" "00"
    )  # fmt: skip
    body = bytes.fromhex(expected.replace("CCCCCCCC", "00000000"))
    assert raw[:17] == body[:17]
    assert raw[21:] == body[21:]
    assert raw[17:21] == crc32c(body[21:]).to_bytes(4, "big")


def test_under_log_append_time_every_record_has_the_brokers_time() -> None:
    batch = batch_at(build_batch(ORDERS, log_append_time=NOON + 1_000))

    assert batch.max_timestamp == NOON + 1_000
    assert [record.timestamp for record in read_records(batch)] == [NOON + 1_000] * 3


def test_records_around_a_gap_keep_their_offsets() -> None:
    section = a_record(2, value=b"a") + a_record(7, value=b"b")
    batch = batch_at(a_raw_batch(section, 2, last_offset_delta=9))

    assert [(record.offset, record.value) for record in read_records(batch)] == [(502, b"a"), (507, b"b")]
    assert batch.next_offset == 510


def test_a_batch_emptied_by_compaction_has_no_records() -> None:
    assert read_records(batch_at(a_raw_batch(b"", 0, last_offset_delta=9))) == []


def test_a_header_name_that_is_not_utf8_keeps_its_bytes() -> None:
    batch = batch_at(a_raw_batch(a_record(headers=[(b"\xff\xfeabc", b"x")]), 1))
    (record,) = read_records(batch)
    rebuilt = build_batch([NewRecord(record.key, record.value, record.headers, record.timestamp)])

    assert rebuilt[HEADER_BYTES:] == batch.records


BAD = {
    "offsets that fall": (a_record(1) + a_record(0), 2, "record 1 of 2 is damaged: its offset delta is 0"),
    "an offset twice": (a_record(0) + a_record(0), 2, "record 1 of 2 is damaged: its offset delta is 0"),
    "an offset beyond the last": (a_record(0) + a_record(2), 2, "its offset delta is 2, expected 1 to 1"),
    "a negative offset delta": (a_record(-1), 1, "its offset delta is -1"),
    "a record too few": (a_record(0), 2, "record 1 of 2 is damaged"),
    "a record too many": (a_record(0) + a_record(1), 1, "bytes are left over"),
    "more records than bytes": (b"", 2_000_000_000, "gives its number of records as 2000000000"),
    "a negative count": (b"", -1, "gives its number of records as -1"),
    "a size beyond the end": (varint(99) + bytes(8), 1, "its size is 99"),
    "bytes that nobody claims": (sized(bytes(3) + field(b"k") * 2 + bytes(2)), 1, "make it up"),
    "a key length of -2": (sized(bytes(3) + varint(-2) + bytes(2)), 1, "length of a field is -2"),
    "a header without a name": (
        sized(bytes(3) + field(b"k") * 2 + varint(1) + varint(-1) + b"\x00"),
        1,
        "no name",
    ),
    "more headers than bytes": (
        sized(bytes(3) + field(b"k") * 2 + varint(2**31 - 1)),
        1,
        "2147483647 headers",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_batch_of_records_is_refused(case: str) -> None:
    section, count, reason = BAD[case]

    with pytest.raises(CorruptDataError, match=reason):
        read_records(batch_at(a_raw_batch(section, count)))


def test_records_that_unpack_beyond_the_bound_are_refused() -> None:
    batch = batch_at(build_batch([NewRecord(b"k", bytes(100_000))], codec=Codec.ZSTD))

    assert len(read_records(batch)) == 1
    with pytest.raises(CorruptDataError, match="more than 50000 bytes"):
        read_records(batch, max_bytes=50_000)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="codec 6 does not exist"):
        read_records(batch_at(a_raw_batch(a_record(), 1, attributes=6)))


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_records_without_headers_share_one_tuple_and_hold_nothing_that_needs_collecting() -> None:
    records = read_records(batch_at(build_batch([NewRecord(b"k", b"v", (), NOON)] * 100)))
    gc.collect()  # A tuple of atoms is let go by the collector when it first looks at it.

    assert all(record.headers is records[0].headers for record in records)
    assert not gc.is_tracked(records[0].headers)


@pytest.mark.parametrize(
    "record", [*ORDERS, NewRecord(b"k" * 5_000, None, [("n" * 300, b"v" * 70)] * 80, NOON)]
)
def test_the_bound_on_a_records_size_holds_and_is_close(record: NewRecord) -> None:
    taken = len(build_batch([record])) - HEADER_BYTES

    assert taken <= record_bytes_at_most(record) <= taken + 20
