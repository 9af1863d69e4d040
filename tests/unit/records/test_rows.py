"""Records one by one into a batch and out of it: what comes back, and what is refused (P1, C1, O5).

Every test runs over the plain version and, where it is built, over the compiled one.
"""

import gc
import pickle
import subprocess
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

from everlog.model.errors import CorruptDataError
from everlog.records import rows, rows_plain
from everlog.records.batch import HEADER, HEADER_BYTES, BatchView, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec
from everlog.records.reader import Record, read_records
from everlog.records.rows import rows_are_compiled
from everlog.records.rows_plain import BatchBuffer, ConsumerRecord
from tests.unit.records.sections import NOON, a_record, field, sized, varint

needs_kernel = pytest.mark.skipif(
    not rows_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)

RECORDS = [
    NewRecord(b"customer-1", b"pizza", [("trace", b"\x01\x02"), ("größe", None)], NOON),
    NewRecord(None, b"", (), NOON + 5),
    NewRecord(b"", None, [("", b"")], NOON - 7),
    NewRecord(b"k" * 63, b"v" * 64, (), NOON + 70_000),
    NewRecord(b"k" * 9000, b"v" * 70_000, [("h" * 70, b"c" * 130)], 0),
]


@pytest.fixture(params=["plain", pytest.param("compiled", marks=needs_kernel)])
def twin(request: pytest.FixtureRequest) -> Any:
    return rows_plain if request.param == "plain" else rows


@pytest.fixture
def empty(twin: Any) -> Callable[[], BatchBuffer]:
    made: Callable[[], BatchBuffer] = twin.BatchBuffer
    return made


def filled(empty: Callable[[], BatchBuffer], records: list[NewRecord]) -> BatchBuffer:
    buffer = empty()
    for index, record in enumerate(records):
        assert buffer.append(record.key, record.value, record.headers, record.timestamp) == index
    return buffer


def read(
    twin: Any, batch: BatchView, start: int = 0, end: int | None = None, topic: str = "orders"
) -> list[ConsumerRecord]:
    into: list[ConsumerRecord] = []
    twin.read_rows(batch, topic, 3, start, end, into)
    return into


def a_raw_batch(
    section: bytes,
    count: int,
    *,
    base_offset: int = 500,
    last_offset_delta: int | None = None,
    attributes: int = 0,
    base_timestamp: int = NOON,
) -> BatchView:
    last = count - 1 if last_offset_delta is None else last_offset_delta
    length = HEADER_BYTES - 12 + len(section)
    header = HEADER.pack(
        base_offset, length, 7, 2, 0, attributes, last, base_timestamp, NOON + 9, -1, -1, -1, count
    )
    return batch_at(bytearray(header + section))


# --- into a batch


@pytest.mark.parametrize("codec", Codec)
def test_a_sealed_batch_has_the_bytes_of_one_built_at_once(
    empty: Callable[[], BatchBuffer], codec: Codec
) -> None:
    ids = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 12, "transactional": True}

    sealed = filled(empty, RECORDS).seal(codec, None, **ids)  # type: ignore[arg-type]

    assert sealed == build_batch(RECORDS, codec=codec, **ids)  # type: ignore[arg-type]
    assert type(sealed) is bytearray


def test_a_batch_may_be_sealed_again_with_other_ids(empty: Callable[[], BatchBuffer]) -> None:
    buffer = filled(empty, RECORDS)

    first = buffer.seal(producer_id=1, producer_epoch=0, base_sequence=0)
    second = buffer.seal(Codec.ZSTD, 3, producer_id=2, producer_epoch=4, base_sequence=90)

    assert first == build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0)
    assert second == build_batch(
        RECORDS, codec=Codec.ZSTD, level=3, producer_id=2, producer_epoch=4, base_sequence=90
    )


def test_a_batch_goes_on_after_it_was_sealed(empty: Callable[[], BatchBuffer]) -> None:
    buffer = filled(empty, RECORDS[:2])
    first = buffer.seal(producer_id=1, producer_epoch=0, base_sequence=0)
    for record in RECORDS[2:]:
        buffer.append(record.key, record.value, record.headers, record.timestamp)
    second = buffer.seal(producer_id=1, producer_epoch=0, base_sequence=0)

    assert first == build_batch(RECORDS[:2], producer_id=1, producer_epoch=0, base_sequence=0)
    assert second == build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0)


def test_sealed_batches_are_apart(empty: Callable[[], BatchBuffer]) -> None:
    buffer = filled(empty, RECORDS)
    sealed = [buffer.seal(producer_id=number, producer_epoch=0, base_sequence=0) for number in range(3)]

    assert [batch_at(batch).producer_id for batch in sealed] == [0, 1, 2]
    del buffer
    assert all(len(read_records(batch_at(batch))) == len(RECORDS) for batch in sealed)


@needs_kernel
def test_a_sealed_batch_whose_size_was_changed_is_not_taken_for_its_records() -> None:
    buffer = filled(rows.BatchBuffer, RECORDS)
    sealed = buffer.seal()
    sealed.clear()

    for call in (
        buffer.seal,
        buffer.split,
        lambda: buffer.append(None, None, (), NOON),
        lambda: buffer.copy_behind(0),
    ):
        with pytest.raises(ValueError, match="has another size now"):
            call()


def test_it_says_how_many_records_of_which_size_and_time_it_holds(empty: Callable[[], BatchBuffer]) -> None:
    buffer = empty()
    assert (buffer.count, buffer.size_bytes) == (0, HEADER_BYTES)
    assert (buffer.base_timestamp, buffer.max_timestamp) == (-1, -1)

    buffer = filled(empty, RECORDS)

    assert (buffer.count, buffer.size_bytes) == (5, len(build_batch(RECORDS)))
    assert (buffer.base_timestamp, buffer.max_timestamp) == (NOON, NOON + 70_000)


def test_many_records_keep_their_numbers_and_order(empty: Callable[[], BatchBuffer]) -> None:
    records = [NewRecord(b"%d" % n, b"v" * (n % 300), (), NOON + n) for n in range(20_000)]

    assert filled(empty, records).seal() == build_batch(records)


@pytest.mark.parametrize(
    "value", [bytearray(b"pizza"), memoryview(b"_pizza_")[1:6], array("B", b"pizza"), memoryview(b"pizza")]
)
def test_anything_that_holds_bytes_will_do(empty: Callable[[], BatchBuffer], value: Any) -> None:
    buffer = empty()
    buffer.append(value, value, [("name", value)], NOON)

    assert buffer.seal() == build_batch([NewRecord(b"pizza", b"pizza", [("name", b"pizza")], NOON)])


def test_numbers_in_an_array_are_taken_by_their_bytes(empty: Callable[[], BatchBuffer]) -> None:
    numbers = array("I", [1, 2, 3])
    buffer = empty()
    buffer.append(None, numbers, (), NOON)  # type: ignore[arg-type]

    assert read_records(batch_at(buffer.seal()))[0].value == numbers.tobytes()


def test_what_is_appended_is_copied(empty: Callable[[], BatchBuffer]) -> None:
    value = bytearray(b"before")
    buffer = empty()
    buffer.append(None, value, (), NOON)
    value[:] = b"after, and longer, which a buffer in use would refuse"

    assert read_records(batch_at(buffer.seal())) == [Record(0, NOON, None, b"before", ())]


def test_stray_bytes_in_a_name_survive(empty: Callable[[], BatchBuffer]) -> None:
    name = b"\xff\xfename".decode("utf-8", "surrogateescape")
    buffer = empty()
    buffer.append(None, None, [(name, b"")], NOON)

    assert read_records(batch_at(buffer.seal()))[0].headers == ((name, b""),)


BAD: dict[str, tuple[tuple[Any, ...], type[Exception], str]] = {
    "a key of text": (("k", b"", (), NOON), TypeError, "key should be bytes or None, found str"),
    "a value of text": ((b"", "v", (), NOON), TypeError, "value should be bytes or None, found str"),
    "a number": ((b"", 5, (), NOON), TypeError, "value should be bytes or None, found int"),
    "a buffer with holes": (
        (b"", memoryview(b"abcd")[::2], (), NOON),
        TypeError,
        "value should be bytes or None, found memoryview",
    ),
    "headers of a dict": (
        (b"", b"", {"a": b"b"}, NOON),
        TypeError,
        "headers should be a list of pairs, found dict",
    ),
    "no headers at all": (
        (b"", b"", None, NOON),
        TypeError,
        "headers should be a list of pairs, found NoneType",
    ),
    "a header of one": (
        (b"", b"", [("a",)], NOON),
        TypeError,
        "a header should be a pair of a name and a value, found tuple",
    ),
    "a header of text": (
        (b"", b"", ["ab"], NOON),
        TypeError,
        "a header should be a pair of a name and a value, found str",
    ),
    "a name of bytes": (
        (b"", b"", [("ok", None), (b"a", b"b")], NOON),
        TypeError,
        "a header's name should be a str, found bytes",
    ),
    "a header's value of text": (
        (b"", b"", [("a", "b")], NOON),
        TypeError,
        "a header's value should be bytes or None, found str",
    ),
    "a name that has no bytes": ((b"", b"", [("\ud800", b"")], NOON), UnicodeEncodeError, "surrogates"),
    "a time before 1970": (
        (b"", b"", (), -1),
        ValueError,
        "timestamp is -1, expected milliseconds since 1970",
    ),
    "a time beyond all time": (
        (b"", b"", (), 1 << 63),
        ValueError,
        "timestamp is 9223372036854775808, expected milliseconds since 1970",
    ),
    "a time of text": ((b"", b"", (), "noon"), TypeError, "timestamp should be of type int, found str"),
    "no time": ((b"", b"", (), None), TypeError, "timestamp should be of type int, found NoneType"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_record_of_the_wrong_kind_is_refused_and_changes_nothing(
    empty: Callable[[], BatchBuffer], case: str
) -> None:
    arguments, error, words = BAD[case]
    buffer = filled(empty, RECORDS[:2])

    with pytest.raises(error, match=words.replace("(", r"\(")):
        buffer.append(*arguments)

    buffer.append(RECORDS[2].key, RECORDS[2].value, RECORDS[2].headers, RECORDS[2].timestamp)
    assert buffer.seal() == build_batch(RECORDS[:3])


@pytest.mark.parametrize("timestamp", [0, 1, (1 << 63) - 1])
def test_times_from_1970_to_the_end_of_time_fit(empty: Callable[[], BatchBuffer], timestamp: int) -> None:
    buffer = empty()
    buffer.append(None, None, (), timestamp)
    buffer.append(None, None, (), (1 << 63) - 1 - timestamp)

    times = [record.timestamp for record in read_records(batch_at(buffer.seal()))]
    assert times == [timestamp, (1 << 63) - 1 - timestamp]


def test_a_batch_without_records_is_not_sealed(empty: Callable[[], BatchBuffer]) -> None:
    with pytest.raises(ValueError, match="at least one record"):
        empty().seal()


def test_encoded_records_are_adopted_as_they_are(twin: Any) -> None:
    section = build_batch(RECORDS)[HEADER_BYTES:]

    adopted = twin.BatchBuffer.adopt(memoryview(section), 5, NOON, NOON + 70_000)
    assert adopted.seal() == build_batch(RECORDS)
    assert (adopted.count, adopted.size_bytes) == (5, HEADER_BYTES + len(section))

    assert adopted.append(b"one", b"more", (), NOON + 1) == 5
    assert adopted.seal() == build_batch([*RECORDS, NewRecord(b"one", b"more", (), NOON + 1)])


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_is_not_adopted(twin: Any, count: int) -> None:
    with pytest.raises(ValueError, match=f"count is {count}, expected at least 1"):
        twin.BatchBuffer.adopt(b"", count, NOON, NOON)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_batch_splits_into_two_that_hold_the_same(empty: Callable[[], BatchBuffer], count: int) -> None:
    first, second = filled(empty, RECORDS[:count]).split()

    assert first.seal() == build_batch(RECORDS[: count // 2])
    assert second.seal() == build_batch(RECORDS[count // 2 : count])


def test_one_record_cannot_be_split(empty: Callable[[], BatchBuffer]) -> None:
    with pytest.raises(ValueError, match="a batch of 1 records cannot be split"):
        filled(empty, RECORDS[:1]).split()


# --- out of a batch


@pytest.mark.parametrize("codec", Codec)
def test_rows_are_what_was_put_in(twin: Any, codec: Codec) -> None:
    batch = batch_at(build_batch(RECORDS, codec=codec, base_offset=40, leader_epoch=9))

    found = read(twin, batch)

    assert [row.offset for row in found] == [40, 41, 42, 43, 44]
    assert [NewRecord(row.key, row.value, list(row.headers), row.timestamp) for row in found] == [
        record._replace(headers=list(record.headers)) for record in RECORDS
    ]
    assert {(row.topic, row.partition, row.timestamp_type, row.leader_epoch) for row in found} == {
        ("orders", 3, 0, 9)
    }


def test_the_brokers_clock_overrules_the_producers(twin: Any) -> None:
    batch = batch_at(build_batch(RECORDS, log_append_time=NOON + 99))

    assert [(row.timestamp, row.timestamp_type) for row in read(twin, batch)] == [(NOON + 99, 1)] * 5


def test_only_the_records_asked_for_come(twin: Any) -> None:
    batch = batch_at(build_batch(RECORDS, base_offset=10))

    assert [row.offset for row in read(twin, batch, 12)] == [12, 13, 14]
    assert [row.offset for row in read(twin, batch, 0, 12)] == [10, 11]
    assert [row.offset for row in read(twin, batch, 11, 13)] == [11, 12]
    assert read(twin, batch, 15) == read(twin, batch, 0, 10) == []


def test_rows_come_behind_those_that_are_there(twin: Any) -> None:
    into = read(twin, batch_at(build_batch(RECORDS, base_offset=10)))
    twin.read_rows(batch_at(build_batch(RECORDS, base_offset=15)), "orders", 3, 0, None, into)

    assert [row.offset for row in into] == list(range(10, 20))


def test_compaction_may_have_left_gaps_or_nothing(twin: Any) -> None:
    section = a_record(2) + a_record(7)

    assert [row.offset for row in read(twin, a_raw_batch(section, 2, last_offset_delta=9))] == [502, 507]
    assert read(twin, a_raw_batch(b"", 0, last_offset_delta=9)) == []


def read_run(
    twin: Any, raw: bytes, position: int = 0, *, start: int = 0, end: int | None = None, count: int = 99
) -> tuple[list[int], tuple[int, int, int]]:
    """The offsets of the rows, and what is said of the batches."""
    into: list[ConsumerRecord] = []
    said = twin.read_run(memoryview(raw), position, "orders", 3, start, end, into, count)
    return [row.offset for row in into], said


def test_a_run_is_read_until_there_are_rows_enough(twin: Any) -> None:
    batches = [a_raw_batch(a_record(0) + a_record(1), 2, base_offset=base) for base in (10, 12, 14)]
    raw = b"".join(batch.raw for batch in batches)
    size = batches[0].size

    assert read_run(twin, raw) == ([10, 11, 12, 13, 14, 15], (3 * size, 16, 7))
    assert read_run(twin, raw, count=3) == ([10, 11, 12, 13], (2 * size, 14, 7))
    assert read_run(twin, raw, size, count=1) == ([12, 13], (2 * size, 14, 7))
    assert read_run(twin, raw, start=11, end=15) == ([11, 12, 13, 14], (3 * size, 16, 7))
    assert read_run(twin, raw, 3 * size) == ([], (3 * size, -1, -1))


def test_a_run_is_read_up_to_what_is_damaged(twin: Any) -> None:
    good = a_raw_batch(a_record(0), 1, base_offset=10)
    for bad in (a_raw_batch(a_record(0) + b"\x7f", 2, base_offset=11), a_raw_batch(a_record(1), 2)):
        assert read_run(twin, bytes(good.raw) + bytes(bad.raw)) == ([10], (good.size, 11, 7))
        assert read_run(twin, bytes(bad.raw) + bytes(good.raw)) == ([], (0, -1, -1))


def test_deltas_of_every_width_are_read(twin: Any) -> None:
    deltas = [0, 1, -1, 63, -64, 64, 8191, -8192, 8192, 1 << 20, -(1 << 35), 1 << 48]
    section = b"".join(a_record(i, timestamp_delta=delta) for i, delta in enumerate(deltas))

    found = read(twin, a_raw_batch(section, len(deltas)))

    assert [row.timestamp - NOON for row in found] == deltas


MALFORMED: dict[str, tuple[bytes, int]] = {
    "the size is cut off": (b"\x80", 1),
    "the size is negative": (varint(-5) + b"abc", 1),
    "the size is larger than what is left": (varint(100) + b"abc", 1),
    "the size has too many bits": (b"\xff\xff\xff\xff\x7f" + b"\x00" * 30, 1),
    "no attributes": (varint(0), 1),
    "only attributes": (sized(b"\x00"), 1),
    "no offset delta": (sized(b"\x00\x00"), 1),
    "no key": (sized(b"\x00\x00\x00"), 1),
    "the key goes beyond the record": (sized(b"\x00\x00\x00" + varint(9) + b"k"), 1),
    "the key's length is -2": (sized(b"\x00\x00\x00" + varint(-2) + field(b"") + b"\x00"), 1),
    "no value": (sized(b"\x00\x00\x00" + field(b"k")), 1),
    "the value goes beyond the record": (sized(b"\x00\x00\x00" + field(b"k") + varint(80) + b"v"), 1),
    "no header count": (sized(b"\x00\x00\x00" + field(b"k") + field(b"v")), 1),
    "headers are missing": (sized(b"\x00\x00\x00" + field(b"k") + field(b"v") + varint(3)), 1),
    "a negative header count": (sized(b"\x00\x00\x00" + field(b"k") + field(b"v") + varint(-1)), 1),
    "a header without a name": (
        sized(b"\x00\x00\x00" + field(b"k") + field(b"v") + varint(1) + field(None) + field(b"")),
        1,
    ),
    "a header's value beyond the record": (
        sized(b"\x00\x00\x00" + field(b"k") + field(b"v") + varint(1) + field(b"a") + varint(9)),
        1,
    ),
    "a byte too many in the record": (
        sized(b"\x00\x00\x00" + field(b"k") + field(b"v") + b"\x00" + b"!"),
        1,
    ),
    "a field that ends behind the record": (
        varint(4) + b"\x00\x00\x00" + field(b"k") + field(b"v") + b"\x00",
        1,
    ),
    "offsets out of order": (a_record(0) + a_record(0), 2),
    "an offset beyond the last": (a_record(1), 1),
    "a negative offset": (a_record(-1), 1),
    "a varlong too long": (sized(b"\x00" + b"\xff" * 9 + b"\x03" + b"\x00\x01\x01\x00"), 1),
    "a timestamp of 65 bits": (a_record(0, timestamp_delta=(1 << 63) - 1), 1),
    "records left over": (a_record(0) + a_record(1), 1),
    "records missing": (a_record(0), 2),
    "fewer than no records": (b"", -1),
    "more records than bytes": (b"", 1 << 30),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_records_are_refused_and_nothing_is_kept(twin: Any, case: str) -> None:
    section, count = MALFORMED[case]
    into = read(twin, batch_at(build_batch(RECORDS)))

    with pytest.raises(CorruptDataError):
        twin.read_rows(a_raw_batch(section, count), "orders", 0, 0, None, into)

    assert len(into) == len(RECORDS)


@needs_kernel
@pytest.mark.parametrize("case", MALFORMED)
def test_both_versions_refuse_with_the_same_words(case: str) -> None:
    section, count = MALFORMED[case]
    words: set[str] = set()
    for version in (rows, rows_plain):
        with pytest.raises(CorruptDataError) as caught:
            read(version, a_raw_batch(section, count))
        words.add(str(caught.value))

    assert len(words) == 1


def test_offsets_end_with_64_bits(twin: Any) -> None:
    largest = (1 << 63) - 1
    section = a_record(0) + a_record(1)

    assert [r.offset for r in read(twin, a_raw_batch(section, 2, base_offset=largest - 1))] == [
        largest - 1,
        largest,
    ]
    with pytest.raises(CorruptDataError, match="record 1 of 2 is damaged: its offset is 9223372036854775808"):
        read(twin, a_raw_batch(section, 2, base_offset=largest))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(twin: Any, codec: int) -> None:
    with pytest.raises(CorruptDataError, match=f"codec {codec} does not exist"):
        read(twin, a_raw_batch(a_record(0), 1, attributes=codec))


def views_kept_by(error: BaseException) -> list[memoryview]:
    return [
        value
        for frame, _ in walk_tb(error.__traceback__)
        for value in frame.f_locals.values()
        if isinstance(value, memoryview)
    ]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_an_error_that_is_kept_keeps_the_bytes_that_it_is_about(twin: Any, codec: Codec) -> None:
    batch = a_raw_batch(b"not packed at all", 1, attributes=codec)
    with pytest.raises(CorruptDataError) as caught:
        read(twin, batch)
    kept = views_kept_by(caught.value)
    assert kept
    assert all(view.obj is batch.raw.obj for view in kept)


@needs_kernel
def test_so_does_one_of_a_batch_within_a_run() -> None:
    # Nobody hands it runs with packed batches; it is to be safe all the same.
    good, bad = a_raw_batch(a_record(0), 1), a_raw_batch(b"not packed", 1, attributes=Codec.ZSTD)
    raw = bytes(good.raw) + bytes(bad.raw) + bytes(good.raw)
    with pytest.raises(CorruptDataError) as caught:
        read_run(rows, raw)
    kept = views_kept_by(caught.value)
    assert b"not packed" in kept
    assert all(view.obj is raw for view in kept)


def test_bytes_that_do_not_unpack_are_refused(twin: Any) -> None:
    with pytest.raises(CorruptDataError):
        read(twin, a_raw_batch(b"no zstd at all", 1, attributes=Codec.ZSTD))


# --- the record


def a_row(twin: Any, **changes: Any) -> ConsumerRecord:
    fields: dict[str, Any] = {
        "topic": "orders",
        "partition": 3,
        "offset": 1 << 40,
        "timestamp": NOON,
        "timestamp_type": 1,
        "key": b"k",
        "value": b"v",
        "headers": (("trace", b"1"),),
        "leader_epoch": 5,
    }
    row: ConsumerRecord = twin.ConsumerRecord(**{**fields, **changes})
    return row


def test_a_record_shows_its_fields(twin: Any) -> None:
    row = a_row(twin)

    assert repr(row) == (
        "ConsumerRecord(topic='orders', partition=3, offset=1099511627776, timestamp=1700000000000, "
        "timestamp_type=1, key=b'k', value=b'v', headers=(('trace', b'1'),), leader_epoch=5)"
    )
    match row:
        case twin.ConsumerRecord("orders", 3, key=b"k"):
            pass
        case _:
            pytest.fail("no match")


def test_what_is_left_out_is_unknown(twin: Any) -> None:
    row = twin.ConsumerRecord("orders", 3, 7)

    assert (row.timestamp, row.timestamp_type, row.leader_epoch) == (-1, 0, -1)
    assert (row.key, row.value, row.headers) == (None, None, ())


def test_records_are_equal_if_all_fields_are(twin: Any) -> None:
    assert a_row(twin) == a_row(twin)
    assert hash(a_row(twin)) == hash(a_row(twin))
    others: dict[str, Any] = {
        "topic": "other",
        "partition": 4,
        "offset": 5,
        "timestamp": 0,
        "timestamp_type": 0,
        "key": None,
        "value": b"w",
        "headers": (),
        "leader_epoch": 6,
    }
    for name, other in others.items():
        assert a_row(twin, **{name: other}) != a_row(twin), name
    assert a_row(twin) != "orders"
    assert len({a_row(twin), a_row(twin), a_row(twin, offset=1)}) == 2


def test_a_record_does_not_change(twin: Any) -> None:
    row: Any = a_row(twin)
    for name in ("topic", "offset", "value", "novel"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(row, name, None)
    with pytest.raises((AttributeError, TypeError)):
        del row.key


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_record_can_be_pickled(twin: Any, protocol: int) -> None:
    copy = pickle.loads(pickle.dumps(a_row(twin), protocol))

    assert copy == a_row(rows)


def test_a_record_takes_what_deserializers_make(twin: Any) -> None:
    row = a_row(twin).with_content("key", {"price": 5})

    assert row == a_row(twin, key="key", value={"price": 5})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"topic": b"orders"}, TypeError),
        ({"partition": "3"}, TypeError),
        ({"offset": None}, TypeError),
        ({"offset": 1 << 63}, OverflowError),
        ({"timestamp": 1 << 63}, OverflowError),
        ({"headers": [("a", b"")]}, TypeError),
        ({"novel": 1}, TypeError),
    ],
)
def test_a_record_of_other_kinds_of_fields_is_refused(
    twin: Any, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        a_row(twin, **changes)


@needs_kernel
def test_the_collector_need_not_look_at_records() -> None:
    found = read(rows, batch_at(build_batch(RECORDS)))

    assert not any(gc.is_tracked(row) for row in found)


@needs_kernel
@pytest.mark.parametrize(("value", "loaded"), [("1", False), ("0", True), ("", True)])
def test_the_environment_can_ask_for_the_plain_version(value: str, loaded: bool) -> None:
    source = Path(__file__).parents[3] / "src"
    program = "from everlog.records.rows import *; print(rows_are_compiled())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(source), "EVERLOG_PURE_PYTHON": value},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert done.stdout.split() == [str(loaded)]


# --- rows that are handed out one by one


class Place:
    """Where an application is in a partition."""

    def __init__(self) -> None:
        self.position = self.position_epoch = -1
        self.paused = False
        self.version = 0


def a_run(
    twin: Any, place: Place, *, at: int = 0, end: int = 5, until: float = 1.0
) -> tuple[Any, list[float]]:
    """A run over five rows at offsets 40 to 44 with epoch 9, and the hands of its clock."""
    found = read(twin, batch_at(build_batch(RECORDS, base_offset=40, leader_epoch=9)))
    hands = [0.0]
    return twin.RowRun(found, at, end, place, lambda: hands[0], until), hands


def test_the_position_moves_with_each_row(twin: Any) -> None:
    place = Place()
    run, _ = a_run(twin, place, at=1, end=4)

    seen = [(row.offset, place.position, place.position_epoch, run.handed) for row in run]

    assert seen == [(41, 42, 9, 1), (42, 43, 9, 2), (43, 44, 9, 3)]
    assert list(run) == []
    assert run.stop() == 4


def test_an_epoch_that_is_not_known_changes_nothing(twin: Any) -> None:
    place = Place()
    place.position_epoch = 7
    rows_found = read(twin, batch_at(build_batch(RECORDS, leader_epoch=-1)))

    assert len(list(twin.RowRun(rows_found, 0, 5, place, lambda: 0.0, 1.0))) == 5
    assert (place.position, place.position_epoch) == (5, 7)


def test_a_run_that_is_stopped_hands_out_nothing_more(twin: Any) -> None:
    place = Place()
    run, _ = a_run(twin, place)
    assert next(run).offset == 40

    assert run.stop() == 1
    assert list(run) == []
    assert (run.stop(), run.handed, place.position) == (1, 1, 41)


@pytest.mark.parametrize("change", [{"version": 1}, {"paused": True}])
def test_a_run_ends_when_its_rows_are_not_wanted(twin: Any, change: dict[str, Any]) -> None:
    place = Place()
    run, _ = a_run(twin, place)
    next(run)
    for name, value in change.items():
        setattr(place, name, value)

    assert list(run) == []
    assert place.position == 41


def test_a_run_ends_when_its_time_is_up(twin: Any) -> None:
    run, hands = a_run(twin, Place(), until=3.0)
    next(run)
    hands[0] = 2.9
    assert next(run).offset == 41
    hands[0] = 3.0

    assert list(run) == []
    assert run.stop() == 2


@pytest.mark.parametrize(("at", "end"), [(-1, 2), (0, 6)])
def test_rows_that_are_not_there_are_refused(twin: Any, at: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"no rows from {at} to {end} among 5"):
        a_run(twin, Place(), at=at, end=end)


def test_an_error_of_the_clock_comes_through(twin: Any) -> None:
    found = read(twin, batch_at(build_batch(RECORDS)))

    def broken() -> float:
        raise LookupError("no time")

    with pytest.raises(LookupError, match="no time"):
        next(twin.RowRun(found, 0, 5, Place(), broken, 1.0))
