"""Targets of the records: batches as they come, and the records of each codec behind a good header."""

from collections.abc import Callable

from everlog.log.settings import LogSettings
from everlog.log.validate import validated
from everlog.model.errors import CorruptDataError, Refused
from everlog.model.ids import Timestamp
from everlog.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, BatchView, batch_at, whole_batches
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec, compress, decompress
from everlog.records.control import (
    ControlType,
    Producer,
    build_marker,
    control_type,
    marker_coordinator_epoch,
)
from everlog.records.crc import crc32c
from everlog.records.reader import Record, read_records
from everlog.records.skim import Skim, kernel_is_loaded, skim_compiled, skim_plainly
from tests.fuzz.target import Target, found

NOON = 1_700_000_000_000
MAX_BYTES = 1 << 18
_CRC_AT, _CRC_FROM = 17, 21

_RECORDS = [
    NewRecord(b"key", b"value", [("trace", b"\x00\x01"), ("none", None)], NOON),
    NewRecord(None, b"abcabcabcabcabcabc", (), NOON + 3),
    NewRecord(b"", None, (), NOON - 4),
]


def _batch(data: bytes) -> None:
    """Any bytes where batches are expected, as in a fetch answer; the checksum is mended to get past it."""
    try:
        batches = list(whole_batches(data))
    except CorruptDataError:
        batches = []
    for batch in batches:
        batch.checksum_holds()
        _read(batch)
    if len(data) >= HEADER_BYTES:
        _validate(bytearray(data))


def _validate(raw: bytearray) -> None:
    """What a client sends goes through the check before the log, and what passes can be read by all."""
    try:
        batch = batch_at(raw)
    except CorruptDataError:
        return
    raw[_CRC_AT:_CRC_FROM] = crc32c(memoryview(raw)[_CRC_FROM : batch.size]).to_bytes(4, "big")
    settings = LogSettings(max_decompressed_bytes=MAX_BYTES)
    try:
        kept = validated(batch_at(raw), settings, Timestamp(NOON))
    except Refused:
        return
    found(kept.checksum_holds(), "a batch was kept whose checksum does not hold")
    records = read_records(kept, MAX_BYTES)
    found(len(records) == kept.count, "a batch was kept that has other records than it says")
    times = [record.timestamp for record in records]
    found(max(times) == kept.max_timestamp, "a batch was kept whose largest timestamp is another")


def _read(batch: BatchView) -> list[Record] | None:
    try:
        records = read_records(batch, MAX_BYTES)
    except CorruptDataError:
        return None
    for record in records if batch.is_control else ():
        try:
            control_type(record.key)
            marker_coordinator_epoch(record.value)
        except CorruptDataError:
            pass
    return records


def _records_of(codec: Codec) -> Callable[[bytes], None]:
    """The first byte is the number of records, the rest their bytes as the codec packs them."""

    def run(data: bytes) -> None:
        if not data:
            return
        count, packed = data[0], data[1:]
        length = HEADER_BYTES - LENGTH_OVERHEAD + len(packed)
        header = HEADER.pack(0, length, 0, 2, 0, codec, count - 1, NOON, NOON, -1, -1, -1, count)
        batch = batch_at(bytearray(header + packed))
        records = _read(batch)
        try:
            section = decompress(codec, packed, MAX_BYTES)
        except CorruptDataError:
            found(records is None, "records were read out of what does not unpack")
            return
        found(len(section) <= MAX_BYTES, "more came out than was allowed")
        found(decompress(codec, compress(codec, section), MAX_BYTES) == section, "packed and unpacked differ")
        _check_skim(section, count, records)

    return run


def _check_skim(section: bytes, count: int, records: list[Record] | None) -> None:
    """Both skims say the same, in the same words; what they pass can be read, and built again."""
    plain = _skimmed(skim_plainly, section, count)
    if kernel_is_loaded():
        found(plain == _skimmed(skim_compiled, section, count), "the two skims differ")
    if isinstance(plain, str):
        return
    assert records is not None, "a section was skimmed that cannot be read"
    if count:
        times = [record.timestamp for record in records]
        summary = Skim(max(times), times.index(max(times)), any(record.key is None for record in records))
        found(plain == summary, "a skim differs from what was read")
        rebuilt = build_batch([NewRecord(r.key, r.value, r.headers, r.timestamp) for r in records])
        found(read_records(batch_at(rebuilt)) == records, "records change when built again")


def _skimmed(skim: Callable[[bytes, int, int], Skim], section: bytes, count: int) -> Skim | str:
    try:
        return skim(section, count, NOON)
    except CorruptDataError as error:
        return str(error)


def _batch_seeds() -> list[bytes]:
    seeds = [bytes(build_batch(_RECORDS, codec=codec)) for codec in Codec]
    seeds.append(
        bytes(build_batch(_RECORDS, producer_id=5, producer_epoch=0, base_sequence=9, transactional=True))
    )
    seeds.append(bytes(build_batch(_RECORDS, log_append_time=NOON + 9)))
    seeds.append(bytes(build_marker(ControlType.ABORT, Producer(5, 0), coordinator_epoch=3, timestamp=NOON)))
    return [*seeds, seeds[0] + seeds[1] + seeds[2][:70]]


def _seeds_of(codec: Codec) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        section = bytes(build_batch(_RECORDS)[HEADER_BYTES:])
        many = bytes(build_batch([NewRecord(b"k", b"v" * i, (), NOON) for i in range(9)])[HEADER_BYTES:])
        packed = [
            b"\x03" + compress(codec, section),
            b"\x09" + compress(codec, many),
            b"\x00" + compress(codec, b""),
        ]
        return packed + _DIALECTS[codec](section)

    return seeds


def _snappy_dialects(section: bytes) -> list[bytes]:
    import cramjam

    return [b"\x03" + bytes(cramjam.snappy.compress_raw(section)), b"\x00" + compress(Codec.SNAPPY, b"")]


def _lz4_dialects(section: bytes) -> list[bytes]:
    from importlib import import_module
    from typing import Any

    frame: Any = import_module("lz4.frame")  # It has no types.
    flags: list[dict[str, bool]] = [
        {"store_size": True},
        {"store_size": False, "block_checksum": True},
        {"store_size": False, "content_checksum": True},
        {"store_size": True, "block_linked": True},
    ]
    return [b"\x03" + frame.compress(section, **{"block_linked": False, **chosen}) for chosen in flags]


def _zstd_dialects(section: bytes) -> list[bytes]:
    from zstandard import ZstdCompressor

    plain = ZstdCompressor(write_content_size=False).compress(section)
    summed = ZstdCompressor(write_checksum=True).compress(section)
    skippable = b"\x50\x2a\x4d\x18\x02\x00\x00\x00ab"
    return [b"\x03" + plain, b"\x03" + summed, b"\x03" + skippable + plain]


def _gzip_dialects(section: bytes) -> list[bytes]:
    import gzip

    return [b"\x03" + gzip.compress(section[:9]) + gzip.compress(section[9:])]


_DIALECTS: dict[Codec, Callable[[bytes], list[bytes]]] = {
    Codec.NONE: lambda section: [],
    Codec.GZIP: _gzip_dialects,
    Codec.SNAPPY: _snappy_dialects,
    Codec.LZ4: _lz4_dialects,
    Codec.ZSTD: _zstd_dialects,
}

RECORD_TARGETS = (
    Target("batch", _batch, _batch_seeds, weight=3),
    *(
        Target(f"records_{codec.name.lower()}", _records_of(codec), _seeds_of(codec), weight=2)
        for codec in Codec
    ),
)
