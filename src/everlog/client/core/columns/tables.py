"""Tables that a user hands to `send_arrow`: which column is what, and the rows in pieces (P1)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from everlog.client.core.columns import types as column_types
from everlog.client.core.columns.columns import ArrowBatch, load_arrow
from everlog.client.core.errors import Unsendable, UnsendableType
from everlog.model.errors import ErrorCode
from everlog.records.column_buffers import NumberSource, RowSource

ROLES = ("value", "key", "headers", "timestamp", "partition")
_LEFT_OUT = frozenset({"topic", "offset", "timestamp_type", "leader_epoch"})
"""Columns of `poll_arrow` that say where a record lay; a table that was read can be sent as it is."""
_INDEX = "__index_level_"
"""How pandas names an index that has no name."""
_MAX_ROWS = 1 << 22
_RECORD_OVERHEAD = 12
"""About what a record takes beside its key, value and headers."""


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Rows of a table as records are made of them. Their buffers live as long as this does."""

    source: RowSource
    partition: NumberSource | None
    size_bytes: int
    """About what the records take."""


def record_batches(table: Any) -> tuple[Any, Iterator[ArrowBatch]]:
    """Return the schema of what a user calls a table, and its rows in batches.

    That is a Table, a RecordBatch or a RecordBatchReader of pyarrow, or anything that speaks Arrow's
    PyCapsule interface: frames of pandas and Polars, relations of DuckDB. UnsendableType for anything else.
    """
    pa = load_arrow()
    if isinstance(table, pa.Table):
        return table.schema, iter(table.to_batches())
    if isinstance(table, pa.RecordBatch):
        return table.schema, iter([table])
    if hasattr(table, "__arrow_c_stream__"):
        reader = table if isinstance(table, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(table)
        return reader.schema, iter(reader)
    if hasattr(table, "__arrow_c_array__"):
        batch = pa.record_batch(table)
        return batch.schema, iter([batch])
    raise UnsendableType(
        ErrorCode.INVALID_RECORD,
        f"a table is expected, such as a pyarrow.Table or anything with __arrow_c_stream__ (pandas, Polars, "
        f"DuckDB): found {type(table).__name__}",
    )


def pieces(batches: Iterator[ArrowBatch], piece_bytes: int) -> Iterator[ArrowBatch]:
    """Yield the same rows in batches of about `piece_bytes`: small ones are joined, large ones are cut."""
    pa = load_arrow()
    small: list[ArrowBatch] = []
    small_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        small.append(batch)
        small_bytes += batch.nbytes
        if small_bytes < piece_bytes:
            continue
        yield from _cut(_joined(pa, small), piece_bytes)
        small, small_bytes = [], 0
    if small:
        yield from _cut(_joined(pa, small), piece_bytes)


def _joined(pa: Any, batches: list[ArrowBatch]) -> list[ArrowBatch]:
    if len(batches) == 1:
        return batches
    joined: list[ArrowBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _cut(batches: list[ArrowBatch], piece_bytes: int) -> Iterator[ArrowBatch]:
    for batch in batches:
        count = max(-(-batch.nbytes // (2 * piece_bytes)), -(-batch.num_rows // _MAX_ROWS))
        rows = -(-batch.num_rows // count)
        for start in range(0, batch.num_rows, rows):
            yield batch if rows == batch.num_rows else batch.slice(start, rows)


class TableReader:
    """Finds the columns of a schema, and makes row sources of its batches.

    `columns` says which column is the key, the value and so on; those it does not name are not sent. Without
    it columns go by their own names, and one that would be lost is Unsendable.
    """

    def __init__(self, schema: Any, columns: Mapping[str, str] | None = None) -> None:
        names = list(schema.names)
        chosen = {role: role for role in ROLES if role in names} if columns is None else dict(columns)
        for role, name in chosen.items():
            _check_choice(role, name, names)
        if "value" not in chosen:
            raise _will_not_do(
                f"column 'value' is missing: the table has {_quoted(names)}; name another with "
                "columns={'value': …}"
            )
        if columns is None:
            _refuse_lost(schema)
        self._places = {role: (names.index(name), name) for role, name in chosen.items()}
        # Before the first row is sent: a table with a wrong column is refused as a whole.
        for role, (place, name) in self._places.items():
            _converted(role, name, load_arrow().nulls(0, schema.field(place).type))

    @property
    def has_partitions(self) -> bool:
        """Whether there is a column of partitions."""
        return "partition" in self._places

    def read(self, batch: ArrowBatch, now: int) -> RowColumns:
        """Return the rows of a batch. Their buffers are the batch's own wherever the types allow it."""
        arrays: dict[str, Any] = {}
        for role, (place, name) in self._places.items():
            array = _converted(role, name, batch.column(place))
            if array is not None:
                arrays[role] = array
        rows = batch.num_rows
        source = RowSource(
            rows,
            column_types.binary_source(arrays.get("key")),
            column_types.binary_source(arrays.get("value")),
            column_types.header_source(arrays.get("headers"), "headers"),
            column_types.number_source(arrays.get("timestamp")),
            now,
        )
        size = sum(array.nbytes for role, array in arrays.items() if role in ("key", "value", "headers"))
        partition = column_types.number_source(arrays.get("partition"))
        return RowColumns(source, partition, size + _RECORD_OVERHEAD * rows)


def _converted(role: str, name: str, array: Any) -> Any:
    """The column in a type that the kernels read; None if all of it is null."""
    if load_arrow().types.is_null(array.type):
        return None
    match role:
        case "timestamp":
            return column_types.as_times(array, name)
        case "partition":
            return column_types.as_partitions(array, name)
        case "headers":
            return column_types.as_headers(array, name)
        case _:
            return column_types.as_bytes(array, name)


def _check_choice(role: str, name: str, names: list[str]) -> None:
    if role not in ROLES:
        raise _will_not_do(f"columns has {role!r}: expected some of {', '.join(ROLES)}")
    if names.count(name) != 1:
        found = "none" if name not in names else "several"
        raise _will_not_do(f"column {name!r} for {role}: found {found}, the table has {_quoted(names)}")


def _refuse_lost(schema: Any) -> None:
    for field in schema:
        name = field.name
        if name not in ROLES and name not in _LEFT_OUT and not name.startswith(_INDEX):
            raise _will_not_do(
                f"column {name!r} of type {field.type} would be lost: expected {', '.join(ROLES)}; leave "
                "it out, or say which columns to send with columns={'value': …}"
            )


def _will_not_do(message: str) -> Unsendable:
    return Unsendable(ErrorCode.INVALID_RECORD, message)


def _quoted(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) or "no columns"
