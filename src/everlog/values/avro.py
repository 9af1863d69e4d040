"""Avro values, with or without the prefix that schema registries have them written with.

The prefix of Confluent's serializers is a zero byte and the number of the schema in four bytes. It is found
by trying: a value that begins with a zero byte and is whole without its first five has it.
"""

import struct
from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from typing import Any, cast
from uuid import UUID

from everlog.values.arrow import Array, DataType, Schema, StructArray, one_array, pa, types
from everlog.values.avro_schemas import avro_schema
from everlog.values.decoded import BadSetting, Decoded
from everlog.values.row_columns import Convert, decode_rows, python_rows

_PREFIX_BYTES = 5
_PREFIXES = ("auto", "confluent", "none")

# Typed in part only.
_fastavro: Any = import_module("fastavro")
_NOT_AVRO = (
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    struct.error,
)
"""fastavro has no exception of its own for what does not fit a schema."""


class AvroDecoder:
    """One datum a value, written with the schema of the setting `avroSchema`."""

    def __init__(self, schema: Schema, settings: Mapping[str, str]) -> None:
        self._written: Any = avro_schema(settings.get("avroSchema"))
        self._is_record = _is_record(self._written)
        self._prefix = settings.get("avroPrefix", "auto")
        if self._prefix not in _PREFIXES:
            raise BadSetting(f"avroPrefix is {self._prefix!r}: expected one of {', '.join(_PREFIXES)}")
        _check_columns(schema, self._written)
        self._schema = schema
        made = {field.name: _converter(field.type) for field in schema}
        self._converts = {name: convert for name, convert in made.items() if convert is not None}

    def decode(self, values: Array) -> Decoded:
        """Read a column of Avro; see `Decoded`."""
        return decode_rows(values, self._read, self._schema, self._converts)

    def _read(self, value: bytes) -> dict[str, Any]:
        """The fields of one value, with and without a prefix if need be; ValueError if neither is Avro."""
        has_zero = len(value) >= _PREFIX_BYTES and value[0] == 0
        schema_id = int.from_bytes(value[1:_PREFIX_BYTES]) if has_zero else None
        if self._prefix == "none" or (schema_id is None and self._prefix == "auto"):
            return self._read_datum(value, 0)
        if schema_id is None:
            raise ValueError(
                f"no prefix with the number of a schema: it begins with 0x{value[:_PREFIX_BYTES].hex()}"
            )
        try:
            return self._read_datum(value, _PREFIX_BYTES)
        except ValueError as error:
            reason = f"schema id {schema_id} of its prefix: the value does not fit avroSchema: {error}"
        if self._prefix == "auto":
            try:
                return self._read_datum(value, 0)
            except ValueError as error:
                reason = f"{reason}; and without a prefix: {error}"
        raise ValueError(reason)

    def _read_datum(self, value: bytes, start: int) -> dict[str, Any]:
        stream = BytesIO(value)
        stream.seek(start)
        try:
            datum: Any = _fastavro.schemaless_reader(stream, self._written, None)
        except _NOT_AVRO as error:
            raise ValueError(f"not Avro: {type(error).__name__}: {error}") from None
        left = len(value) - stream.tell()
        if left:
            raise ValueError(f"not Avro of this schema: {left} bytes are left at its end")
        return cast("dict[str, Any]", datum) if self._is_record else {self._schema.field(0).name: datum}


class AvroEncoder:
    """One datum a row, after the prefix of Confluent's serializers if `schemaId` is a number."""

    def __init__(self, schema: Schema, settings: Mapping[str, str]) -> None:
        self._written: Any = avro_schema(settings.get("avroSchema"))
        self._is_record = _is_record(self._written)
        _check_columns(schema, self._written)
        number = settings.get("schemaId")
        if number is not None and not (number.isdigit() and int(number) < 1 << 31):
            raise BadSetting(f"schemaId is {number!r}: expected the number of a schema")
        self._prefix = b"" if number is None else b"\0" + int(number).to_bytes(4)
        self._schema = schema

    def encode(self, columns: StructArray) -> Array:
        """Make a column of Avro; ValueError names the first row that the Avro schema has no room for."""
        columns = one_array(columns)
        valid = columns.is_valid().to_pylist()
        names = self._schema.names
        values: list[bytes | None] = []
        for at, row in enumerate(python_rows(columns)):
            datum = dict(zip(names, row, strict=True)) if self._is_record else row[0]
            values.append(self._write(at, datum) if valid[at] else None)
        return pa.array(values, pa.binary())

    def _write(self, at: int, datum: Any) -> bytes:
        stream = BytesIO()
        stream.write(self._prefix)
        try:
            _fastavro.schemaless_writer(stream, self._written, datum)
        except _NOT_AVRO as error:
            raise ValueError(
                f"record {at} does not fit avroSchema: {type(error).__name__}: {error}"
            ) from None
        return stream.getvalue()


def _is_record(written: Any) -> bool:
    return isinstance(written, dict) and cast("dict[str, Any]", written)["type"] in ("record", "error")


def _check_columns(schema: Schema, written: Any) -> None:
    if not _is_record(written):
        if len(schema) != 1:
            raise BadSetting(
                f"avroSchema is no record, so it has one column: found {', '.join(schema.names)}"
            )
        return
    known = [field["name"] for field in written["fields"]]
    for name in schema.names:
        if name not in known:
            raise BadSetting(f"column {name!r} is not in avroSchema, which has {', '.join(known)}")


def _converter(kind: DataType) -> Convert | None:
    """From what fastavro gives to what `pa.array` takes; None where that is the same."""
    if types.is_string(kind):
        return lambda datum: str(datum) if isinstance(datum, UUID) else datum
    if types.is_map(kind):
        inner = _converter(kind.item_type)
        return lambda datum: [(k, v if v is None or inner is None else inner(v)) for k, v in datum.items()]
    if types.is_list(kind):
        inner = _converter(kind.value_type)
        return None if inner is None else lambda datum: [None if v is None else inner(v) for v in datum]
    if types.is_struct(kind):
        members = [(field.name, _converter(field.type)) for field in kind]
        if all(convert is None for _, convert in members):
            return None

        def convert_struct(datum: Any) -> dict[str, Any]:
            found = {name: datum.get(name) for name, _ in members}
            for name, convert in members:
                if convert is not None and found[name] is not None:
                    found[name] = convert(found[name])
            return found

        return convert_struct
    return None
