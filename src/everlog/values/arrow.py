"""Arrow as this room uses it. pyarrow has no types of its own, so `Any` stops being news here."""

from importlib import import_module
from typing import Any, TypeAlias

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
types: Any = import_module("pyarrow.types")

Array: TypeAlias = Any
"""A `pyarrow.Array`; a chunked one is not meant."""
StructArray: TypeAlias = Any
Schema: TypeAlias = Any
DataType: TypeAlias = Any
Field: TypeAlias = Any


def one_array(values: Any) -> Array:
    """The same values as one array, whatever pieces they come in."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    joined = values.combine_chunks()
    # Older releases hand back pieces still.
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def struct_of(arrays: list[Array], schema: Schema) -> StructArray:
    """Columns side by side, of the types that a schema asks for."""
    return pa.StructArray.from_arrays(arrays, fields=list(schema))


def nulls_of(schema: Schema, count: int) -> StructArray:
    """So many rows that have nothing in them."""
    return struct_of([pa.nulls(count, field.type) for field in schema], schema)
