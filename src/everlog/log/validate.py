"""What a client's batch must satisfy before it gets an offset.

The rules are Kafka's for batches of format 2, and two of our own: attribute bits that no client has a use
for are refused, and so is a batch that would unpack to more than the limit. A batch that passes is changed
in place where the topic asks for it: timestamps by the broker's clock, a largest timestamp that was wrong,
another codec.
"""

from typing import NamedTuple

from everlog.log.settings import FOREVER, LogSettings
from everlog.model.errors import CorruptDataError, ErrorCode, Refused
from everlog.model.ids import Timestamp
from everlog.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchView,
)
from everlog.records.compression import Codec, compress, decompress
from everlog.records.crc import crc32c
from everlog.records.reader import read_records
from everlog.records.skim import skim

_CLIENT_BITS = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL
_LARGEST_CODEC = max(Codec)
_NO_TIMESTAMP = -1
_PLENTY_UNPACKED = 16 << 20
_MOST_TIMES_UNPACKED = 32
_CRC_AT = 17


class RecordError(NamedTuple):
    """One record that is the reason why its batch was refused."""

    batch_index: int
    message: str


class RecordsRefused(Refused):
    """A client's batch cannot be appended; `record_errors` names the records at fault, if it is for some."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def validated(batch: BatchView, settings: LogSettings, wall: Timestamp) -> BatchView:
    """Return the batch as it is to be kept: the same one, or another if the codec must differ.

    RecordsRefused says what is wrong. The batch's bytes must be writable.
    """
    raw = batch.raw
    attributes = batch.attributes
    count = batch.count
    if (
        batch.magic != MAGIC
        or batch.base_offset != 0
        or count <= 0
        or batch.last_offset_delta != count - 1
        or attributes & ~_CLIENT_BITS
        or attributes & CODEC_MASK > _LARGEST_CODEC
        or len(raw) > settings.max_message_bytes
        or batch.length + LENGTH_OVERHEAD != len(raw)
        or (
            batch.base_sequence < 0 or batch.producer_epoch < 0
            if batch.producer_id >= 0
            else attributes & TRANSACTIONAL
        )
    ):
        raise _header_refused(batch, settings)
    if crc32c(raw[CRC_START:]) != batch.crc:
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, "the checksum of the record batch does not hold")
    codec = attributes & CODEC_MASK
    records: memoryview | bytes = raw[HEADER_BYTES:]
    try:
        if codec:
            records = decompress(codec, records, _most_unpacked(len(records), settings))
        found = skim(records, count, batch.base_timestamp)
    except CorruptDataError as error:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, str(error)) from error
    if found.null_keys and settings.cleanup_compact:
        raise _null_keys_refused(batch, settings)
    if settings.log_append_time:
        batch.set_max_timestamp(wall, log_append_time=True)
    else:
        newest = found.max_timestamp
        if newest != batch.max_timestamp or attributes & LOG_APPEND_TIME:
            batch.set_max_timestamp(newest, log_append_time=False)
        if newest > wall + settings.timestamp_after_max_ms or settings.timestamp_before_max_ms != FOREVER:
            _check_timestamps(batch, settings, wall)
    if settings.compression_type != "producer":
        return _recompressed(batch, records, settings)
    return batch


def check_structure(batch: BatchView) -> None:
    """Refuse a batch of our own, or of another replica, that is not whole."""
    if batch.magic != MAGIC or batch.size != len(batch.raw) or not batch.checksum_holds():
        raise Refused(ErrorCode.CORRUPT_MESSAGE, f"{batch} is damaged")
    if batch.last_offset_delta < 0 or not 0 <= batch.count <= batch.last_offset_delta + 1:
        raise Refused(ErrorCode.INVALID_RECORD, f"{batch} has {batch.count} records")


def _most_unpacked(packed_bytes: int, settings: LogSettings) -> int:
    """How much a batch may unpack to. What unpacks to many times its size and to a lot is a bomb.

    The time of the loop is all connections' time, so a few bytes must not buy much of it.
    """
    return min(settings.max_decompressed_bytes, max(_PLENTY_UNPACKED, _MOST_TIMES_UNPACKED * packed_bytes))


def _header_refused(batch: BatchView, settings: LogSettings) -> RecordsRefused:
    """Say what is wrong with a header that was found wanting."""
    size = len(batch.raw)
    if size > settings.max_message_bytes:
        return RecordsRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch has {size} bytes, the topic takes up to {settings.max_message_bytes}",
        )
    if batch.attributes & CODEC_MASK > _LARGEST_CODEC:
        return RecordsRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression codec {batch.codec} does not exist, expected 0 to {_LARGEST_CODEC}",
        )
    return RecordsRefused(ErrorCode.INVALID_RECORD, _header_problem(batch))


def _header_problem(batch: BatchView) -> str:
    if batch.magic != MAGIC:
        return f"the record batch has format {batch.magic}, expected {MAGIC}"
    if batch.base_offset != 0:
        return f"the record batch has base offset {batch.base_offset}, expected 0 from a client"
    if batch.count <= 0 or batch.last_offset_delta != batch.count - 1:
        return f"the record batch has {batch.count} records in {batch.last_offset_delta + 1} offsets"
    if batch.attributes & CONTROL:
        return "the record batch is a control batch, which clients may not write"
    if batch.attributes & ~_CLIENT_BITS:
        return f"the record batch has attributes {batch.attributes & 0xFFFF:#x}, of which not all are known"
    if batch.length + LENGTH_OVERHEAD != len(batch.raw):
        return f"the record batch gives its size as {batch.size}, found {len(batch.raw)} bytes"
    if batch.producer_id < 0:
        return "the record batch is transactional and has no producer id"
    return (
        f"the record batch has producer id {batch.producer_id} with epoch {batch.producer_epoch} "
        f"and sequence {batch.base_sequence}"
    )


def _null_keys_refused(batch: BatchView, settings: LogSettings) -> RecordsRefused:
    records = read_records(batch, settings.max_decompressed_bytes)
    message = "a compacted topic takes no record without a key"
    errors = tuple(RecordError(index, message) for index, record in enumerate(records) if record.key is None)
    return RecordsRefused(ErrorCode.INVALID_RECORD, message, errors)


def _check_timestamps(batch: BatchView, settings: LogSettings, wall: int) -> None:
    """Refuse records too far from the broker's clock; those without a timestamp pass."""
    newest = wall + settings.timestamp_after_max_ms
    oldest = wall - settings.timestamp_before_max_ms
    errors: list[RecordError] = []
    for index, record in enumerate(read_records(batch, settings.max_decompressed_bytes)):
        timestamp = record.timestamp
        if timestamp != _NO_TIMESTAMP and not oldest <= timestamp <= newest:
            errors.append(RecordError(index, f"timestamp {timestamp} is not between {oldest} and {newest}"))
    if errors:
        raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, errors[0].message, tuple(errors))


def _recompressed(batch: BatchView, records: memoryview | bytes, settings: LogSettings) -> BatchView:
    """Return the batch with its records in the topic's own codec."""
    codec = settings.target_codec
    if codec is None or codec == batch.codec:
        return batch
    packed = compress(codec, records, settings.compression_level)
    raw = bytearray(HEADER_BYTES)
    raw[:] = batch.raw[:HEADER_BYTES]
    raw += packed
    HEADER.pack_into(
        raw,
        0,
        batch.base_offset,
        len(raw) - LENGTH_OVERHEAD,
        batch.leader_epoch,
        batch.magic,
        0,
        batch.attributes & ~CODEC_MASK | codec,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )
    raw[_CRC_AT:CRC_START] = crc32c(memoryview(raw)[CRC_START:]).to_bytes(4, "big")
    if len(raw) > settings.max_message_bytes:
        raise RecordsRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch has {len(raw)} bytes as {settings.compression_type}, "
            f"the topic takes up to {settings.max_message_bytes}",
        )
    return BatchView(memoryview(raw))
