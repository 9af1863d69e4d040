"""Columns of a table: those of the value, those that say where a row came from, and how they may grow."""

from collections.abc import Sequence
from typing import Any

from everlog.tables.arrow import DataType, Rows, Schema, pa, types
from everlog.tables.ddl import parse_ddl
from everlog.tables.errors import SchemaConflict, TableMisdeclared
from everlog.tables.spec import TableSpec

TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY = "_topic", "_partition", "_offset", "_timestamp", "_key"
OP = "_op"
"""Append of Debezium's events: what happened: c, u, d or r."""
DELETED = "_deleted"
"""In staged changes only: whether the row is to go."""

META = pa.schema(
    [
        pa.field(TOPIC, pa.string()),
        pa.field(PARTITION, pa.int32()),
        pa.field(OFFSET, pa.int64()),
        pa.field(TIMESTAMP, pa.timestamp("us", "UTC")),
        pa.field(KEY, pa.binary()),
    ]
)

_BARE = {
    "string": pa.string(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
"""What the one column is of when a format has no columns of its own; bytes for the others."""

_PARTITION_KINDS = (types.is_string, types.is_integer, types.is_boolean, types.is_date32)


def declared_columns(spec: TableSpec) -> Schema:
    """The columns of the value."""
    if not spec.schema:
        return pa.schema([pa.field("value", _BARE.get(spec.value_format, pa.binary()))])
    return parse_ddl(spec.schema)


def table_schema(spec: TableSpec) -> Schema:
    """All columns of the declared table; all may be null, as any column may be missing in a record."""
    columns = [pa.field(column.name, _lake_type(column.type)) for column in declared_columns(spec)]
    for column in columns:
        if column.name in {*META.names, OP, DELETED}:
            raise TableMisdeclared(
                f"schema of table {spec.name}: column {column.name!r} is one of everlog's own"
            )
    if spec.debezium and spec.mode == "append":
        columns.append(pa.field(OP, pa.string()))
    schema = pa.schema([*columns, *META])
    for name in spec.key:
        if name not in schema.names:
            raise TableMisdeclared(
                f"table {spec.name}: key column {name!r} is not in the schema {schema.names}"
            )
    for name in spec.partition_by:
        if name not in schema.names:
            raise TableMisdeclared(
                f"table {spec.name}: partition column {name!r} is not in the schema {schema.names}"
            )
        kind = schema.field(name).type
        if not any(fits(kind) for fits in _PARTITION_KINDS):
            raise TableMisdeclared(
                f"table {spec.name}: partition column {name!r} is of type {kind}: "
                "expected string, integer, boolean or date"
            )
    return schema


def _lake_type(kind: DataType) -> DataType:
    # No lake format but Parquet has integers below 32 bits.
    return pa.int32() if types.is_int16(kind) or types.is_int8(kind) else kind


def key_columns(spec: TableSpec) -> tuple[str, ...]:
    """The columns that name a row of an upsert table."""
    return spec.key or (KEY,)


def grown(table: str, found: Schema, declared: Schema) -> Schema | None:
    """The schema of a table with the columns that its declaration has gained; None if it has none.

    Columns that the declaration lost stay, and are null from then on.
    """
    new: list[Any] = []
    for column in declared:
        if column.name not in found.names:
            new.append(column)
        elif not same_type(found.field(column.name).type, column.type):
            raise SchemaConflict(
                f"column {column.name!r} of table {table} is of type {found.field(column.name).type}, "
                f"declared as {column.type}: a column keeps its type; declare another column or table"
            )
    return pa.schema([*found, *new]) if new else None


def same_type(one: DataType, other: DataType) -> bool:
    """Whether both are one type to a lake format: large or not, and how list items are named, is one."""
    return bool(plain_type(one).equals(plain_type(other)))


def plain_type(kind: DataType) -> DataType:
    """A type without what lake formats do not keep apart: views, large offsets, nullability within."""
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz is not None else None)
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain_type(each.type)) for each in kind])
    return kind


def plain_schema(schema: Schema) -> Schema:
    """A schema as this room speaks of it, whatever the format made of it."""
    return pa.schema([pa.field(column.name, plain_type(column.type)) for column in schema])


def conformed(table: str, rows: Rows, schema: Schema, extra: Sequence[str] = ()) -> Rows:
    """Rows with exactly the columns of a schema, in its order and types, then those of `extra` they have."""
    for name in rows.column_names:
        if name not in schema.names and name not in extra:
            raise SchemaConflict(
                f"column {name!r} is not in table {table}: expected {', '.join(schema.names)}"
            )
    arrays: list[Any] = []
    for column in schema:
        if column.name not in rows.column_names:
            arrays.append(pa.chunked_array([pa.nulls(rows.num_rows, column.type)]))
            continue
        array = rows.column(column.name)
        if array.type != column.type:
            try:
                array = array.cast(column.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaConflict(
                    f"column {column.name!r} of table {table}: {array.type} does not become {column.type}: "
                    f"{error}"
                ) from error
        arrays.append(array)
    names = list(schema.names)
    for name in extra:
        if name in rows.column_names:
            names.append(name)
            arrays.append(rows.column(name))
    return pa.table(dict(zip(names, arrays, strict=True)))
