"""Values that are read one by one into rows of Python, as Avro and Protobuf are, put together as columns."""

from collections.abc import Callable, Mapping
from typing import Any

from everlog.values.arrow import Array, DataType, Schema, StructArray, pa, struct_of
from everlog.values.decoded import Decoded, Rows, binary_values, spread

Convert = Callable[[Any], Any]
Row = Mapping[str, Any]

_NO_FIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


def decode_rows(
    values: Array, read: Callable[[bytes], Row], schema: Schema, converts: Mapping[str, Convert]
) -> Decoded:
    """Read each value by `read`, whose ValueError is the error of that value's row.

    `converts` has what makes of a column's data what pyarrow takes for it, where that is not the same.
    """
    values = binary_values(values)
    rows: list[Row] = []
    errors: list[str | None] = []
    for value in values.drop_null().to_pylist():
        try:
            rows.append(read(value))
            errors.append(None)
        except ValueError as error:
            rows.append({})
            errors.append(str(error))
    columns = [_column(field.name, field.type, converts.get(field.name), rows, errors) for field in schema]
    found = struct_of(columns, schema)
    if any(errors):
        found = _without_bad(found, errors, schema)
    return spread([Rows(found, errors)], values, schema)


def _column(
    name: str, kind: DataType, convert: Convert | None, rows: list[Row], errors: list[str | None]
) -> Array:
    """One field of all rows. A datum that is not of the column's type is an error of its row."""
    data = [row.get(name) for row in rows]
    try:
        if convert is not None:
            data = [None if datum is None else convert(datum) for datum in data]
        return pa.array(data, kind)
    except _NO_FIT:
        pass
    column: list[Any] = []
    for at, row in enumerate(rows):
        datum = row.get(name)
        try:
            column.append(pa.scalar(datum if datum is None or convert is None else convert(datum), kind))
        except _NO_FIT:
            column.append(pa.scalar(None, kind))
            errors[at] = errors[at] or f"field {name!r}: found {str(datum)[:60]!r}, expected {kind}"
    return pa.array(column, kind)


def _without_bad(found: StructArray, errors: list[str | None], schema: Schema) -> StructArray:
    """Nothing of a row that has an error."""
    places = pa.array([None if error else at for at, error in enumerate(errors)], pa.int64())
    return struct_of([found.field(i).take(places) for i in range(len(schema))], schema)


def python_rows(columns: StructArray) -> list[tuple[Any, ...]]:
    """The way back: the fields of each row as Python has them; maps are dicts."""
    return list(
        zip(*(column.to_pylist(maps_as_pydicts="strict") for column in columns.flatten()), strict=True)
    )
