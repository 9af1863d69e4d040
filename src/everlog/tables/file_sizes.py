"""How rows are cut into files."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from everlog.tables.arrow import Rows, pa, pc
from everlog.tables.errors import TableMisdeclared

TARGET_BYTES = 128 << 20
"""Rows of about so many bytes in memory make a file; on disk it is smaller."""


def target_bytes(properties: Mapping[str, str]) -> int:
    """The size at which files are cut: property `file.target_bytes`."""
    given = properties.get("file.target_bytes")
    if given is None:
        return TARGET_BYTES
    if not given.isdigit() or int(given) < 1:
        raise TableMisdeclared(f"property file.target_bytes={given!r}: expected a number of bytes")
    return int(given)


def cut(rows: Iterable[Rows], size_bytes: int) -> Iterator[Rows]:
    """The same rows in pieces of about that size; no piece is empty."""
    waiting: list[Rows] = []
    held = 0
    for table in rows:
        step = max(1, table.num_rows * size_bytes // max(table.nbytes, 1))
        for start in range(0, table.num_rows, step):
            piece = table.slice(start, step)
            waiting.append(piece)
            held += piece.nbytes
            if held >= size_bytes:
                yield pa.concat_tables(waiting)
                waiting, held = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def by_partition(rows: Rows, columns: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], Rows]]:
    """Rows apart by the values of columns, each part with those values."""
    if not columns:
        yield {}, rows
        return
    for values in rows.select(list(columns)).group_by(list(columns)).aggregate([]).to_pylist():
        mask: Any = None
        for name, value in values.items():
            column = rows.column(name)
            hit = column.is_null() if value is None else pc.fill_null(pc.equal(column, value), False)
            mask = hit if mask is None else pc.and_(mask, hit)
        yield values, rows.filter(mask)


def partition_text(value: Any) -> str | None:
    """The value of a partition column as text, as Delta's and Hive's directories have it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
