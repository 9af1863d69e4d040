"""Targets of the columns: batches to buffers, and buffers whose offsets may point anywhere to batches."""

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Protocol, TypeVar

from everlog.model.errors import CorruptDataError
from everlog.records import columns, columns_plain, rows_plain
from everlog.records import rows as rows_compiled
from everlog.records.batch import HEADER_BYTES, BatchView
from everlog.records.builder import NewRecord, build_batch
from everlog.records.column_buffers import (
    LARGEST_INT64,
    BinarySource,
    Columns,
    EncodedRows,
    HeaderSource,
    Keyless,
    NumberSource,
    Routed,
    RowSource,
    Span,
)
from everlog.records.reader import read_records
from everlog.records.runs import plain_run
from tests.fuzz.target import Target, found

_NOON = 1_700_000_000_000
_RECORDS = [
    NewRecord(b"key", b"value", [("trace", b"\x00\x01"), ("none", None)], _NOON),
    NewRecord(None, b"abcabcabcabcabcabc", (), _NOON + 3),
    NewRecord(b"", None, (), _NOON - 4),
]
Answer = TypeVar("Answer")


class _Twin(Protocol):
    """What both versions offer."""

    def decode_columns(self, spans: Sequence[Span]) -> Columns: ...

    def encode_rows(
        self, source: RowSource, order: bytes | None, first: int, stop: int, max_bytes: int
    ) -> EncodedRows: ...

    def route_rows(
        self,
        rows: int,
        key: BinarySource | None,
        given: NumberSource | None,
        partition_count: int,
        keyless: Keyless,
    ) -> Routed: ...


_TWINS: tuple[_Twin, ...] = (columns_plain, columns)


def _decode(data: bytes) -> None:
    """Two bounds on offsets, then a batch whose length nobody looks at."""
    if len(data) < HEADER_BYTES + 2:
        return
    raw = data[2:]
    batch = BatchView(memoryview(raw))
    start = batch.base_offset + data[0] if data[0] else -LARGEST_INT64
    stop = batch.base_offset + data[0] + data[1] if data[1] else LARGEST_INT64
    if not -LARGEST_INT64 <= start <= stop <= LARGEST_INT64:
        return
    span = Span(raw, raw[HEADER_BYTES:], start, stop, 0, 0)
    answers = [_refusal(CorruptDataError, partial(twin.decode_columns, [span])) for twin in _TWINS]
    found(answers[0] == answers[1], "the two decoders differ")
    if isinstance(answers[0], Columns) and not batch.codec:
        wanted = [record for record in read_records(batch) if start <= record.offset < stop]
        found(answers[0].rows == len(wanted), "columns have other rows than the reader reads")


def _run(data: bytes) -> None:
    """The offset to begin at, then what an answer brings of a partition."""
    run = plain_run(data[1:], data[0]) if data else None
    if run is None:
        return
    found(len(run) == len(run.views), "a run counts other batches than are in it")
    plain = all(not batch.codec and not batch.is_control and not batch.is_transactional for batch in run)
    found(plain, "a batch of a run is not plain")
    found(run[-1].next_offset == run.next_offset, "a run ends elsewhere")
    found(run[0].next_offset > data[0], "a run begins before its start")
    found(run.checksums_hold() == all(batch.checksum_holds() for batch in run), "the checksums differ")
    span = Span(run.raw, None, data[0], LARGEST_INT64, 0, 0)
    answers = [_refusal(CorruptDataError, partial(twin.decode_columns, [span])) for twin in _TWINS]
    found(answers[0] == answers[1], "the two decoders of runs differ")
    rows = [_rows_of(twin, run.raw, data[0]) for twin in (rows_plain, rows_compiled)]
    found(rows[0] == rows[1], "the two readers of runs differ")


def _rows_of(twin: ModuleType, raw: memoryview, start: int) -> tuple[list[Any], Any]:
    into: list[Any] = []
    read_to = twin.read_run(raw, 0, "topic", 0, start, None, into, 1000)
    return [tuple(getattr(row, name) for name in row.__match_args__) for row in into], read_to


def _encode(data: bytes) -> None:
    """Some numbers, then buffers of columns cut out of the rest."""
    if len(data) < 12:
        return
    rows, start, wide, cut, first, limit = data[:6]
    body = data[6:]
    rows, at = rows % 9, cut % (len(body) + 1)
    fields = BinarySource(body[:at], body[at:], body[:2] if wide & 2 else None, start % 5, bool(wide & 1))
    lists = HeaderSource(body[at:], None, start % 3, bool(wide & 4), limit % 7, fields, fields)
    numbers = NumberSource(body, body[:1] if wide & 8 else None, start % 4)
    source = RowSource(
        rows,
        fields if wide & 16 else None,
        fields,
        lists if wide & 32 else None,
        numbers if wide & 64 else None,
        _NOON,
    )
    order = bytes(b"".join(byte.to_bytes(4, "little") for byte in body[:rows])) if wide & 128 else None
    answers = [
        _refusal(ValueError, partial(twin.encode_rows, source, order, first % 4, rows, limit * 4))
        for twin in _TWINS
    ]
    _compare(answers, "the two encoders differ")
    given, keyless = numbers if wide & 64 else None, Keyless((0,), 1 + first, cut)
    routed = [
        _refusal(ValueError, partial(twin.route_rows, rows, fields, given, 1 + limit % 5, keyless))
        for twin in _TWINS
    ]
    _compare(routed, "the two routers differ")


def _refusal(kind: type[Exception], call: Callable[[], Answer]) -> Answer | str:
    try:
        return call()
    except kind as error:
        return str(error)


def _compare(answers: Sequence[object], what: str) -> None:
    """Both give the same, or the compiled one refuses sooner: it looks at the ends of columns first."""
    refused = [isinstance(answer, str) for answer in answers]
    found(refused[0] <= refused[1], f"{what}: the compiled one is too lenient")
    if not refused[1]:
        found(answers[0] == answers[1], what)


def _decode_seeds() -> list[bytes]:
    batch = bytes(build_batch(_RECORDS))
    many = bytes(build_batch([NewRecord(b"k", b"v" * i, (), _NOON) for i in range(9)], base_offset=7))
    return [
        b"\x00\x00" + batch,
        b"\x01\x02" + many,
        b"\x00\x00" + bytes(build_batch(_RECORDS, log_append_time=5)),
    ]


def _run_seeds() -> list[bytes]:
    batches = [
        bytes(build_batch(_RECORDS[:count], base_offset=base)) for base, count in ((0, 2), (2, 1), (3, 3))
    ]
    return [b"\x00" + b"".join(batches), b"\x02" + b"".join(batches)[:-3]]


def _encode_seeds() -> list[bytes]:
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 1, 3, 3, 6))
    return [
        bytes([4, 0, flags, len(offsets), 0, 30]) + offsets + b"abcdefgh" * 4 for flags in (0, 16, 48, 210)
    ]


COLUMN_TARGETS = (
    Target("columns_decode", _decode, _decode_seeds, weight=2),
    Target("columns_run", _run, _run_seeds, weight=2),
    Target("columns_encode", _encode, _encode_seeds, largest_input=256),
)
