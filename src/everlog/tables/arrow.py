"""Arrow as this room uses it. pyarrow has no types of its own, so `Any` stops being news here."""

from importlib import import_module
from typing import Any, TypeAlias

from everlog.tables.errors import extra_missing

try:
    pa: Any = import_module("pyarrow")
    pc: Any = import_module("pyarrow.compute")
    pq: Any = import_module("pyarrow.parquet")
    fs: Any = import_module("pyarrow.fs")
    types: Any = import_module("pyarrow.types")
except ImportError as error:
    raise extra_missing("pyarrow", "a table") from error

Array: TypeAlias = Any
Rows: TypeAlias = Any
"""A `pyarrow.Table`."""
Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
Schema: TypeAlias = Any
DataType: TypeAlias = Any
Field: TypeAlias = Any


def one_array(column: Any) -> Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    joined = column.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined
