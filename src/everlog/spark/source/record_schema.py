"""The columns of a read, as Spark is told of them: those of Spark's Kafka connector, and the value's own.

Spark parses DDL in Java, and the processes in which it asks for a schema have no Java at hand. So a schema is
put together as text here; only the names of its columns are looked at.
"""

import difflib
import json
import re
from collections.abc import Sequence

from everlog.model.errors import ConfigError
from everlog.spark.source.options import SourceOptions, ValueOptions
from everlog.spark.source.spark_types import ddl_of, ddl_of_fields
from everlog.values import BadSetting
from everlog.values.formats import avro_columns, protobuf_columns

TYPES = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
"""The columns of a record, in their order."""

NEVER_NULL = frozenset({"topic", "partition", "offset", "timestampType"})
"""Those that every record has. Spark is told so, and leaves out what looks at each row for it: a quarter of
Java's work where rows are ready made."""

ONE_COLUMN = {
    "string": "STRING",
    "bytes": "BINARY",
    "short": "SMALLINT",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
}
"""Value formats whose values are one thing: they need no schema, the column is `value`."""

_FIELD = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<plain>[^\s:`]+))\s*:?\s*(?P<kind>\w*)")
_TYPES = frozenset((
    "boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float",
    "real", "double", "decimal", "dec", "numeric", "string", "char", "character", "varchar", "binary",
    "date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval", "void", "variant",
    "geometry", "geography", "array", "map", "struct",
))  # fmt: skip

CORRUPT_RECORD = "_corrupt_record"
CORRUPT_REASON = "_corrupt_reason"
CORRUPT = {CORRUPT_RECORD: "BINARY", CORRUPT_REASON: "STRING"}
"""Beside typed values: the bytes of a value that could not be read, and why; null where it could."""


def read_schema(options: SourceOptions) -> str:
    """The schema of a read as DDL; ConfigError if columns are unknown or clash."""
    chosen = record_columns(options)
    if options.value is None:
        return ", ".join(_column_ddl(name) for name in chosen)
    fields = _value_ddl(options.value)
    names = ddl_names(fields)
    if options.value.as_struct:
        struct = f"STRUCT<{fields}>"
        columns = [f"`value` {struct}" if name == "value" else _column_ddl(name) for name in chosen]
    else:
        taken = {name.lower() for name in (*chosen, *CORRUPT)} - {"value"}
        clash = next((name for name in names if name.lower() in taken), None)
        if clash is not None:
            raise ConfigError(
                f"option valueSchema has a field {clash!r}, and so has the record: leave the record's out "
                "by the option columns, or set valueColumns=struct to have the fields in a column `value`"
            )
        columns = [_column_ddl(name) for name in chosen if name != "value"]
        columns.append(fields)
    columns += [f"`{name}` {kind}" for name, kind in CORRUPT.items()]
    return ", ".join(columns)


def _column_ddl(name: str) -> str:
    return f"`{name}` {TYPES[name]}" + (" NOT NULL" if name in NEVER_NULL else "")


def ddl_names(ddl: str) -> list[str]:
    """The names of the columns that DDL declares; ConfigError names one whose type is none of Spark's.

    What lies within brackets is left to Spark, whose parser would tell of a wrong type at some other place.
    """
    names: list[str] = []
    for part in _split(ddl):
        found = _FIELD.match(part)
        if found is None:
            raise ConfigError(f"option valueSchema={ddl!r}: expected DDL such as 'id BIGINT, name STRING'")
        name, kind = found["quoted"] or found["plain"], found["kind"]
        if kind.lower() not in _TYPES:
            near = difflib.get_close_matches(kind.lower(), sorted(_TYPES), n=1)
            meant = f"did you mean {near[0].upper()}?" if near else "expected one such as BIGINT or STRING"
            said = f"is of type {kind!r}, which Spark has not" if kind else "has no type"
            raise ConfigError(f"option valueSchema: field {name!r} {said}: {meant}")
        names.append(name)
    return names


def _split(ddl: str) -> list[str]:
    parts, depth, quote, start = list[str](), 0, "", 0
    for at, letter in enumerate(ddl):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "`'\"":
            quote = letter
        elif letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(ddl[start:at])
            start = at + 1
    return [*parts, ddl[start:]]


def record_columns(options: SourceOptions) -> Sequence[str]:
    """The columns of the record that a read has, in order."""
    known = {name.lower(): name for name in TYPES}
    if options.columns is None:
        return [name for name in TYPES if name != "headers" or options.include_headers]
    chosen: list[str] = []
    for name in options.columns:
        if name.lower() not in known:
            raise ConfigError(f"option columns: unknown column {name!r}; expected some of {', '.join(TYPES)}")
        chosen.append(known[name.lower()])
    if len(set(chosen)) < len(chosen):
        raise ConfigError(f"option columns={','.join(options.columns)!r} names a column twice")
    return chosen


def _value_ddl(value: ValueOptions) -> str:
    if value.schema is not None:
        return _json_ddl(value.schema) if value.schema.startswith("{") else value.schema
    if value.format in ONE_COLUMN and not value.as_struct:
        return f"`value` {ONE_COLUMN[value.format]}"
    written = value.settings.get("avroschema")
    try:
        if value.format == "avro" and written is not None:
            return ddl_of(avro_columns(written))
        if value.format == "protobuf":
            return ddl_of(protobuf_columns(value.settings))
    except BadSetting as error:
        raise ConfigError(f"option valueFormat={value.format}: {error}") from None
    raise ConfigError(
        f"valueFormat={value.format} needs the option valueSchema, such as 'id BIGINT, name STRING'"
    )


def _json_ddl(text: str) -> str:
    """The DDL of a schema in Spark's JSON, as `df.schema.json()` writes it."""
    from pyspark.sql.types import StructType

    try:
        fields = StructType.fromJson(json.loads(text)).fields
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"option valueSchema is not a schema in Spark's JSON: {error!r}") from None
    return ddl_of_fields(fields)
