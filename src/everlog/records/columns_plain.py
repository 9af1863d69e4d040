"""The plain twins of `_columns`, and the reference for them; see `columns` for what they promise."""

from array import array
from collections.abc import Iterator, Sequence
from struct import Struct

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records.batch import LOG_APPEND_TIME, BatchView, batch_at
from everlog.records.builder import Header, NewRecord, append_record
from everlog.records.column_buffers import (
    LARGEST_INT64,
    Binary,
    BinarySource,
    Columns,
    EncodedRows,
    HeaderSource,
    Keyless,
    NumberSource,
    Routed,
    RowSource,
    Span,
    Views,
)
from everlog.records.murmur2 import partition_of_key
from everlog.records.reader import Record, records_in
from everlog.records.varint import SMALLEST_INT64

_LARGEST_INT32 = (1 << 31) - 1
_NARROW, _NARROW_PAIR, _WIDE, _WIDE_PAIR = Struct("=i"), Struct("=2i"), Struct("=q"), Struct("=2q")

_VIEW, _SHORT_VIEW, _LARGEST_INLINE = Struct("=i4sii"), Struct("=i12s"), 12


class _BinaryWriter:
    """A column of bytes on its way."""

    def __init__(self) -> None:
        self._offsets = array("i", [0])
        self._data = bytearray()
        self._validity = bytearray()
        self._nulls = 0

    def add(self, field: bytes | None) -> None:
        row = len(self._offsets) - 1
        if row % 8 == 0:
            self._validity.append(0xFF)
        if field is None:
            self._validity[row >> 3] &= ~(1 << (row & 7))
            self._nulls += 1
        else:
            if len(field) > _LARGEST_INT32 - len(self._data):
                raise OverflowError("a column of more than 2 GiB")
            self._data += field
        self._offsets.append(len(self._data))

    def finished(self) -> Binary:
        validity = self._validity if self._nulls else None
        return Binary(bytearray(self._offsets), self._data, validity, self._nulls)


def decode_columns(spans: Sequence[Span]) -> Columns:
    """As `columns.decode_columns`."""
    offsets, timestamps = array("q"), array("q")
    types, epochs, topics, partitions = array("b"), array("i"), array("i"), array("i")
    lists = array("i", [0])
    key, value, name, content, times = (_BinaryWriter() for _ in range(5))
    header_count = 0
    for span, batch in _batches_of(spans):
        for record in _records_of(span, batch):
            if not span.start <= record.offset < span.stop:
                continue
            offsets.append(record.offset)
            timestamps.append(record.timestamp)
            times.add(None if record.timestamp == -1 else b"")
            types.append(1 if batch.attributes & LOG_APPEND_TIME else 0)
            epochs.append(batch.leader_epoch)
            topics.append(span.topic)
            partitions.append(span.partition)
            key.add(record.key)
            value.add(record.value)
            for header_name, header_content in record.headers:
                name.add(_text(header_name.encode("utf-8", "surrogateescape")))
                content.add(header_content)
                header_count += 1
            lists.append(header_count)
    timed = times.finished()
    return Columns(
        len(offsets),
        bytearray(offsets),
        bytearray(timestamps),
        timed.validity,
        timed.null_count,
        bytearray(types),
        bytearray(epochs),
        bytearray(topics),
        bytearray(partitions),
        key.finished(),
        value.finished(),
        bytearray(lists),
        header_count,
        name.finished(),
        content.finished(),
    )


def decode_with_views(spans: Sequence[Span]) -> tuple[Columns, Views]:
    """As `columns.decode_with_views`; the reader makes objects of values, so the views are of a copy."""
    columns = decode_columns(spans)
    offsets, data, validity, null_count = columns.value
    bounds = memoryview(offsets).cast("i")
    views = bytearray()
    for row, start in enumerate(bounds[:-1]):
        value = bytes(data[start : bounds[row + 1]])
        if len(value) <= _LARGEST_INLINE:
            views += _SHORT_VIEW.pack(len(value), value)
        else:
            views += _VIEW.pack(len(value), value[:4], 0, start)
    return columns, Views(views, (data,), validity, null_count)


def _batches_of(spans: Sequence[Span]) -> Iterator[tuple[Span, BatchView]]:
    for span in spans:
        view = memoryview(span.raw)
        if span.section is not None:
            yield span, BatchView(view)
            continue
        position = 0
        while position < len(view):
            batch = batch_at(view, position)
            yield span, batch
            position += batch.size


def _records_of(span: Span, batch: BatchView) -> Iterator[Record]:
    """The records of a batch, all of them looked at before the first comes out."""
    section = batch.records if span.section is None else span.section
    records = records_in(batch, bytes(section))
    for record in records:
        for what, number in (("offset", record.offset), ("timestamp", record.timestamp)):
            if not SMALLEST_INT64 <= number <= LARGEST_INT64:
                raise CorruptDataError(f"a record's {what} is {number}, which has no 64 bits")
    return iter(records)


def as_text(names: Binary, count: int) -> Binary:
    """Return a column of bytes as one of UTF-8."""
    offsets = memoryview(names.offsets).cast("i")
    mended = _BinaryWriter()
    for at in range(count):
        mended.add(_text(bytes(names.data[offsets[at] : offsets[at + 1]])))
    return mended.finished()


def _text(name: bytes) -> bytes:
    return name.decode("utf-8", "replace").encode("utf-8")


def encode_rows(
    source: RowSource, order: Buffer | None, first: int, stop: int, max_bytes: int, room: int = 0
) -> EncodedRows:
    """As `columns.encode_rows`."""
    numbers = None if order is None else memoryview(order).cast("i")
    if (
        not 0 <= first < stop <= (source.rows if numbers is None else len(numbers))
        or max_bytes < 0
        or room < 0
    ):
        raise ValueError(f"no rows from {first} to {stop}")
    section = bytearray(room)
    base_timestamp = max_timestamp = -1
    for at in range(first, stop):
        row = at if numbers is None else numbers[at]
        record = _record_at(source, row)
        if at == first:
            base_timestamp = max_timestamp = record.timestamp
        before = len(section)
        delta = record.timestamp - base_timestamp
        if not SMALLEST_INT64 <= delta <= LARGEST_INT64:
            raise _outside(row)
        append_record(section, record, at - first, delta)
        if at > first and len(section) - room > max_bytes:
            del section[before:]
            return EncodedRows(section, at, base_timestamp, max_timestamp)
        max_timestamp = max(max_timestamp, record.timestamp)
    return EncodedRows(section, stop, base_timestamp, max_timestamp)


def _record_at(source: RowSource, row: int) -> NewRecord:
    if not 0 <= row < source.rows:
        raise _outside(row)
    try:
        timestamp = source.now
        if source.timestamps is not None:
            given = _number_at(source.timestamps, row, 64)
            timestamp = timestamp if given is None else given
        headers = () if source.headers is None else _headers_at(source.headers, row)
        return NewRecord(_field_at(source.key, row), _field_at(source.value, row), headers, timestamp)
    except IndexError:
        raise _outside(row) from None


def _outside(row: int) -> ValueError:
    return ValueError(f"row {row}: its columns point outside their data")


def _field_at(source: BinarySource | None, row: int) -> bytes | None:
    if source is None or not _is_valid(source.validity, source.start + row):
        return None
    start, end = _bounds_at(source.offsets, source.start + row, source.wide)
    if not 0 <= start <= end <= len(source.data):
        raise IndexError
    return bytes(source.data[start:end])


def _bounds_at(offsets: Buffer, slot: int, wide: bool) -> tuple[int, int]:
    pair = _WIDE_PAIR if wide else _NARROW_PAIR
    start, end = _unpacked(pair, offsets, slot * pair.size // 2)
    return start, end


def _unpacked(struct: Struct, data: Buffer, at: int) -> tuple[int, ...]:
    if at + struct.size > len(data):
        raise IndexError
    return struct.unpack_from(data, at)


def _is_valid(validity: Buffer | None, slot: int) -> bool:
    return validity is None or memoryview(validity).cast("B")[slot >> 3] >> (slot & 7) & 1 == 1


def _number_at(source: NumberSource, row: int, bits: int) -> int | None:
    if not _is_valid(source.validity, source.start + row):
        return None
    one = _WIDE if bits == 64 else _NARROW
    return _unpacked(one, source.numbers, (source.start + row) * one.size)[0]


def _headers_at(source: HeaderSource, row: int) -> list[Header]:
    if not _is_valid(source.validity, source.start + row):
        return []
    start, end = _bounds_at(source.offsets, source.start + row, source.wide)
    if not 0 <= start <= end <= source.entries:
        raise IndexError
    headers: list[Header] = []
    for at in range(start, end):
        name, content = _field_at(source.names, at), _field_at(source.contents, at)
        if name is None:
            raise ValueError(f"row {row}: a header has no name")
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    return headers


def route_rows(
    rows: int,
    key: BinarySource | None,
    given: NumberSource | None,
    partition_count: int,
    keyless: Keyless,
) -> Routed:
    """As `columns.route_rows`."""
    by_partition = [array("i") for _ in range(partition_count)]
    run_at = keyless.run_at
    for row in range(rows):
        try:
            wanted = None if given is None else _number_at(given, row, 32)
            name = None if wanted is not None else _field_at(key, row)
        except IndexError:
            raise _outside(row) from None
        if wanted is not None:
            if not 0 <= wanted < partition_count:
                raise ValueError(f"row {row}: partition {wanted}, expected 0 to {partition_count - 1}")
        elif name is not None:
            wanted = partition_of_key(name, partition_count)
        else:
            wanted = keyless.partitions[run_at // keyless.run_rows % len(keyless.partitions)]
            run_at += 1
        by_partition[wanted].append(row)
    order = bytearray()
    ends: list[int] = []
    for chosen in by_partition:
        order += bytes(chosen)
        ends.append(len(order) // 4)
    return Routed(order, tuple(ends), run_at)


_POLYNOMIAL = 0x82F63B78
"""CRC-32C's, its highest power in the lowest bit as in the checksum itself."""
_ONE = 1 << 31


def join_checksums(first: int, second: int, second_bytes: int) -> int:
    """As `columns.join_checksums`: the first one, followed by that many bytes of zero, and the second."""
    power = _ONE >> 8  # x to the eighth: one byte
    while second_bytes:
        if second_bytes & 1:
            first = _multiplied(power, first)
        power = _multiplied(power, power)
        second_bytes >>= 1
    return first ^ second


def _multiplied(one: int, other: int) -> int:
    """The product of two polynomials, modulo CRC-32C's."""
    product = 0
    bit = _ONE
    while bit:
        if one & bit:
            product ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
        bit >>= 1
    return product
