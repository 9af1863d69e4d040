"""Batches that a consumer reads record by record: the compiled reader says what the plain one says."""

from typing import Any

from everlog.model.errors import CorruptDataError
from everlog.records import rows, rows_plain
from everlog.records.batch import CODEC_MASK, HEADER_BYTES, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.reader import read_records
from tests.fuzz.target import Target, found

_NOON = 1_700_000_000_000
_ATTRIBUTES_AT = 22


def _rows(data: bytes) -> None:
    """Two bytes say which offsets are asked for, the rest is a batch without a codec."""
    if len(data) < 2 + HEADER_BYTES:
        return
    raw = bytearray(data[2:])
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    # What unpacks is read by the same code, and the codecs have targets of their own.
    raw[_ATTRIBUTES_AT] &= ~CODEC_MASK & 0xFF
    base = batch_at(raw).base_offset
    start, end = base + data[0] - 128, None if data[1] == 255 else base + data[1] - 128
    plain = _read(rows_plain, raw, start, end)
    found(plain == _read(rows, raw, start, end), "the two readers differ")
    if isinstance(plain, str):
        return
    wanted = [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for record in read_records(batch_at(raw))
        if record.offset >= start and (end is None or record.offset < end)
    ]
    found([(r[2], r[3], r[5], r[6], r[7]) for r in plain] == wanted, "rows differ from records")
    _build_again(plain)


def _read(twin: Any, raw: bytearray, start: int, end: int | None) -> list[tuple[Any, ...]] | str:
    into: list[Any] = []
    try:
        twin.read_rows(batch_at(raw), "orders", 3, start, end, into)
    except CorruptDataError as error:
        found(not into, "rows were kept of a batch that is damaged")
        return str(error)
    return [tuple(getattr(row, name) for name in row.__match_args__) for row in into]


def _build_again(read: list[tuple[Any, ...]]) -> None:
    """What was read can be sent on, by either twin, with the same bytes."""
    buffers: list[Any] = [rows.BatchBuffer(), rows_plain.BatchBuffer()]
    for row in read:
        for buffer in buffers:
            buffer.append(row[5], row[6], row[7], max(row[3], 0))
    if read:
        found(buffers[0].seal() == buffers[1].seal(), "the two encode in different ways")


def _seeds() -> list[bytes]:
    records = [
        NewRecord(b"key", b"value", [("trace", b"\x00\x01"), ("none", None)], _NOON),
        NewRecord(None, b"abcabcabc", (), _NOON + 3),
        NewRecord(b"", None, (), _NOON - 4),
        NewRecord(b"k" * 70, b"v" * 200, [("h", b"")], _NOON + (1 << 40)),
    ]
    batches = [build_batch(records[:count], base_offset=40, leader_epoch=2) for count in (1, 2, 4)]
    batches.append(build_batch(records, log_append_time=_NOON + 9))
    return [bytes([start, end]) + batch for batch in batches for start, end in ((0, 255), (129, 130))]


ROW_TARGETS = (Target("rows", _rows, _seeds, weight=2),)
