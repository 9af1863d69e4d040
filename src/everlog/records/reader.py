"""A batch to records, for clients, compaction and the tools."""

from typing import NamedTuple

from everlog.model.errors import CorruptDataError
from everlog.records.batch import LOG_APPEND_TIME, BatchView
from everlog.records.builder import Header
from everlog.records.compression import DEFAULT_MAX_BYTES, Codec, decompress
from everlog.records.varint import read_varint, read_varlong

_NO_HEADERS: tuple[Header, ...] = ()
"""Shared by all records without headers: a container per record would wake the garbage collector."""


class Record(NamedTuple):
    """One record as it lies in the log; the timestamp is in milliseconds since 1970, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def read_records(batch: BatchView, max_bytes: int = DEFAULT_MAX_BYTES) -> list[Record]:
    """Return the records of a batch in order of offset, copied out of its buffer.

    Compressed ones may unpack to `max_bytes`. Compaction may have left gaps between offsets, and it may
    have left nothing. CorruptDataError if the bytes are not records, or not as many as the header says;
    the checksum is the caller's to check. A header's name that is not UTF-8 comes with its stray bytes
    as surrogates, so that building it again gives the same bytes.
    """
    if batch.codec == Codec.NONE:
        return records_in(batch, bytes(batch.records))
    return records_in(batch, decompress(batch.codec, batch.records, max_bytes))


def records_in(batch: BatchView, data: bytes) -> list[Record]:
    """As `read_records`, where `data` is the records of the batch after decompression."""
    if not 0 <= batch.count <= len(data):
        raise CorruptDataError(f"a batch of {len(data)} bytes gives its number of records as {batch.count}")
    appended_at = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    records: list[Record] = []
    position = 0
    last_delta = -1
    for index in range(batch.count):
        try:
            record, position = _record_at(data, position, batch, appended_at)
            delta = record.offset - batch.base_offset
            if not last_delta < delta <= batch.last_offset_delta:
                raise CorruptDataError(
                    f"its offset delta is {delta}, expected {last_delta + 1} to {batch.last_offset_delta}"
                )
        except CorruptDataError as error:
            raise CorruptDataError(f"record {index} of {batch.count} is damaged: {error}") from None
        last_delta = delta
        records.append(record)
    if position != len(data):
        raise CorruptDataError(f"{len(data) - position} bytes are left over after {batch.count} records")
    return records


def _record_at(data: bytes, position: int, batch: BatchView, appended_at: int | None) -> tuple[Record, int]:
    """Return the record that begins at `position`, and where it ends.

    The varints that are of one byte in most records are read in place: the calls would cost more than
    all else here. Bytes that end too early show as an IndexError, or in the record's size.
    """
    size, position = read_varint(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise CorruptDataError(f"its size is {size} where {len(data) - position} bytes are left")
    try:
        position += 1  # Over a byte of unused attributes.
        if (byte := data[position]) < 0x80:
            timestamp_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            timestamp_delta, position = read_varlong(data, position)
        if (byte := data[position]) < 0x80:
            offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            offset_delta, position = read_varint(data, position)
        key, position = _nullable_at(data, position, end)
        value, position = _nullable_at(data, position, end)
        headers = _NO_HEADERS
        if data[position] == 0:
            position += 1
        else:
            headers, position = _headers_at(data, position, end)
    except IndexError:
        raise CorruptDataError(f"a varint is cut off at byte {len(data)}") from None
    if position != end:
        raise CorruptDataError(f"its size is {size}, but {size + position - end} bytes make it up")
    timestamp = batch.base_timestamp + timestamp_delta if appended_at is None else appended_at
    return Record(batch.base_offset + offset_delta, timestamp, key, value, headers), end


def _headers_at(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    """Return the headers whose count stands at `position`, and where the last one ends."""
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise CorruptDataError(f"it has {count} headers where {end - position} bytes are left")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _nullable_at(data, position, end)
        if name is None:
            raise CorruptDataError("a header has no name")
        content, position = _nullable_at(data, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    return tuple(headers), position


def _nullable_at(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Return the field whose length stands at `position`, and where it ends."""
    if (byte := data[position]) < 0x80:
        length, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        length, position = read_varint(data, position)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise CorruptDataError(f"the length of a field is {length} where {end - position} bytes are left")
    return data[position : position + length], position + length
