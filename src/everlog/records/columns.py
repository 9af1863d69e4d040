"""Batches to columns and columns to batches, without an object for each record (C1, P1).

Compiled where a compiler was at hand at installation, and plain Python otherwise; this module picks
which, and EVERLOG_PURE_PYTHON=1 in the environment keeps the compiled ones from loading. Both give the same
answers; what is wrong with a batch is always put into words by `reader`.
"""

from collections.abc import Sequence
from struct import pack
from typing import TYPE_CHECKING, cast

from everlog.ports.files import Buffer
from everlog.records import columns_plain
from everlog.records.column_buffers import (
    Binary,
    BinarySource,
    Columns,
    EncodedRows,
    Keyless,
    NumberSource,
    Routed,
    RowSource,
    Span,
    Views,
)

if TYPE_CHECKING:
    from everlog.records._columns import Found as _Found

try:
    from everlog.records import _columns as _kernel
except ImportError:
    _kernel = None  # type: ignore[assignment]  # the twins serve


def columns_are_compiled() -> bool:
    """Whether the compiled twins serve in this process."""
    return _kernel is not None


def decode_columns(spans: Sequence[Span]) -> Columns:
    """Return the records of batches as columns, in the order given.

    CorruptDataError as `reader.read_records`, also for an offset or timestamp that has no 64 bits.
    OverflowError if a column would take 2 GiB. The checksums are the caller's to check.
    """
    if _kernel is None:
        return columns_plain.decode_columns(spans)
    return _columns_of(spans, _kernel.decode_columns(list(spans)))


def decode_with_views(spans: Sequence[Span]) -> tuple[Columns, Views]:
    """As `decode_columns`, with values as views of what the spans lie in, which may not change from then on.

    Go by the views: the column `value` is not one. OverflowError for a value that lies behind 2 GiB.
    """
    if _kernel is None:
        return columns_plain.decode_with_views(spans)
    numbers: dict[int, int] = {}
    buffers: list[Buffer] = []
    owners: list[tuple[Buffer, int]] = []
    for span in spans:
        lies_in = span.raw if span.section is None else span.section
        # One for all batches of an answer: whoever works on the column goes by the buffer.
        owner = cast(Buffer, lies_in.obj) if isinstance(lies_in, memoryview) else lies_in
        number = numbers.setdefault(id(owner), len(buffers))
        if number == len(buffers):
            buffers.append(owner)
        owners.append((owner, number))
    columns = _columns_of(spans, _kernel.decode_columns(list(spans), owners))
    views, _, validity, null_count = columns.value
    return columns, Views(views, tuple(buffers), validity, null_count)


def _columns_of(spans: Sequence[Span], found: "_Found | int") -> Columns:
    """What the kernel returned, as columns; what it refused is refused in words."""
    if isinstance(found, int):
        columns_plain.decode_columns([spans[found]])
        raise AssertionError(f"the kernel refused span {found} and the reference did not")
    key, value, lists, count, names, contents, names_are_text = found[9:]
    text = Binary(*names) if names_are_text else columns_plain.as_text(Binary(*names), count)
    return Columns(*found[:9], Binary(*key), Binary(*value), lists, count, text, Binary(*contents))


def encode_rows(
    source: RowSource, order: Buffer | None, first: int, stop: int, max_bytes: int, room: int = 0
) -> EncodedRows:
    """Encode rows from `first` up to `stop` of the order, or as they come, while they fit in `max_bytes`.

    There is at least one row, which is taken even if it alone is larger. `room` bytes of zero are left in
    front of the records. ValueError names a row that no record can hold.
    """
    if _kernel is None:
        return columns_plain.encode_rows(source, order, first, stop, max_bytes, room)
    return EncodedRows(*_kernel.encode_rows(*source, order, first, stop, max_bytes, room))


def join_checksums(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC-32C of two pieces, one behind the other, of their own and the second one's length."""
    if _kernel is None:
        return columns_plain.join_checksums(first, second, second_bytes)
    return _kernel.join_checksums(first, second, second_bytes)


def route_rows(
    rows: int,
    key: BinarySource | None,
    given: NumberSource | None,
    partition_count: int,
    keyless: Keyless,
) -> Routed:
    """Find the partition of each row: as given, else by its key as Kafka's clients do it, else in turn.

    ValueError names a row whose partition does not exist.
    """
    if _kernel is None:
        return columns_plain.route_rows(rows, key, given, partition_count, keyless)
    partitions, run_rows, run_at = keyless
    turns = pack(f"={len(partitions)}i", *partitions)
    return Routed(*_kernel.route_rows(rows, key, given, partition_count, turns, run_rows, run_at))
