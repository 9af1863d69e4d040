"""Avro schemas: read from JSON, and the Arrow schema that each one means."""

import json
from typing import Any

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType

from everlog.values.arrow import DataType, Schema, pa
from everlog.values.decoded import BadSetting

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


def avro_schema(text: str | None) -> Any:
    """What fastavro reads and writes by, from a schema in JSON; BadSetting if it is none."""
    if text is None:
        raise BadSetting(
            "setting avroSchema is missing: expected the schema that values are written with, in JSON"
        )
    try:
        return parse_schema(json.loads(text))
    except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError) as error:
        raise BadSetting(f"avroSchema is {text[:80]!r}: expected an Avro schema in JSON ({error})") from None


def avro_columns(text: str) -> Schema:
    """The columns of values of an Avro schema in JSON: a record's fields, or one column called `value`.

    Moments are in microseconds, as Spark has them; a union with null is what it is without.
    """
    parsed = avro_schema(text)
    kind = _arrow_type(parsed, {}, "value")
    return pa.schema(list(kind)) if pa.types.is_struct(kind) else pa.schema({"value": kind})


def _arrow_type(schema: Any, named: dict[str, Any], path: str) -> DataType:
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if named.get(schema) is None:
            raise BadSetting(
                f"avroSchema has {schema!r} within itself at {path!r}: no columns can be made of that"
            )
        return named[schema]
    if isinstance(schema, list):
        branches: list[Any] = schema  # pyright: ignore[reportUnknownVariableType] -- JSON
        return _union_type([branch for branch in branches if branch != "null"], named, path)
    kind = schema["type"]
    if logical := _logical_type(schema, kind):
        return logical
    match kind:
        case "record" | "error":
            named[schema["name"]] = None
            fields = [
                pa.field(f["name"], _arrow_type(f["type"], named, f"{path}.{f['name']}"))
                for f in schema["fields"]
            ]
            found = pa.struct(fields)
        case "array":
            return pa.list_(_arrow_type(schema["items"], named, path))
        case "map":
            return pa.map_(pa.string(), _arrow_type(schema["values"], named, path))
        case "enum":
            found = pa.string()
        case "fixed":
            found = pa.binary()
        case _:
            return _arrow_type(kind, named, path)
    named[schema["name"]] = found
    return found


def _logical_type(schema: Any, kind: Any) -> DataType | None:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    return _LOGICAL.get((kind, logical)) if isinstance(kind, str) else None


def _union_type(branches: list[Any], named: dict[str, Any], path: str) -> DataType:
    if not branches:
        return pa.null()
    if len(branches) == 1:
        return _arrow_type(branches[0], named, path)
    if all(isinstance(branch, str) for branch in branches) and frozenset(branches) in _WIDER:
        return _PLAIN[_WIDER[frozenset(branches)]]
    raise BadSetting(
        f"avroSchema has a union of {len(branches)} types at {path!r}: no one column can hold them"
    )
