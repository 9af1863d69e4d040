"""Records to a batch, for clients and for what the broker itself writes down."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from everlog.records.batch import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
)
from everlog.records.compression import Codec, compress
from everlog.records.crc import crc32c
from everlog.records.varint import LARGEST_INT64, SMALLEST_INT64, append_varint, varint_bytes

Header = tuple[str, bytes | None]

NO_TIMESTAMP = -1
_CRC_AT = 17
_EMPTY_RECORD_BYTES = 1 + 1
"""The attributes, and a header count below 64."""


class NewRecord(NamedTuple):
    """One record on its way into a batch; the timestamp is in milliseconds since 1970."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp: int = NO_TIMESTAMP


def build_batch(
    records: Iterable[NewRecord],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
) -> bytearray:
    """Return one batch of at least one record, with offsets in a row from `base_offset`, checksum made.

    `log_append_time` makes the broker's clock the one that counts: it is every record's timestamp then.
    """
    section = bytearray()
    base_timestamp = max_timestamp = NO_TIMESTAMP
    count = 0
    for record in records:
        if count == 0:
            base_timestamp = max_timestamp = record.timestamp
        elif record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
        append_record(section, record, count, record.timestamp - base_timestamp)
        count += 1
    if not count:
        raise ValueError("a batch has at least one record")
    attributes = codec | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    packed = section if codec == Codec.NONE else compress(codec, section, level)
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        HEADER_BYTES - LENGTH_OVERHEAD + len(packed),
        leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    batch += packed
    batch[_CRC_AT:CRC_START] = crc32c(memoryview(batch)[CRC_START:]).to_bytes(4, "big")
    return batch


def append_record(section: bytearray, record: NewRecord, offset_delta: int, timestamp_delta: int) -> None:
    """Append one record as a records section holds it, before compression."""
    if not SMALLEST_INT64 <= timestamp_delta <= LARGEST_INT64:
        raise ValueError(
            f"a record is {timestamp_delta} ms from the first of its batch: 64 bits do not hold it"
        )
    key, value, headers, _ = record
    body = bytearray(1)  # attributes, unused
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_nullable(body, key)
    _append_nullable(body, value)
    append_varint(body, len(headers))
    for name, content in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        append_varint(body, len(encoded))
        body += encoded
        _append_nullable(body, content)
    append_varint(section, len(body))
    section += body


def _append_nullable(body: bytearray, field: bytes | None) -> None:
    if field is None:
        body.append(1)  # the varint of -1
    else:
        append_varint(body, len(field))
        body += field


def record_bytes_at_most(record: NewRecord) -> int:
    """Return a bound on the bytes that a record takes before compression, without building it.

    It is never less, and never more than 20 bytes above, what the record takes in any batch.
    """
    key, value, headers, _ = record
    size = _EMPTY_RECORD_BYTES + 10 + 5 + 5
    for field in (key, value):
        size += 1 if field is None else varint_bytes(len(field)) + len(field)
    if headers:
        size += varint_bytes(len(headers)) - 1
        for name, content in headers:
            encoded_bytes = len(name.encode("utf-8", "surrogateescape"))
            size += varint_bytes(encoded_bytes) + encoded_bytes
            size += 1 if content is None else varint_bytes(len(content)) + len(content)
    return size
