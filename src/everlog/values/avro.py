"""Avro values, with or without the prefix that schema registries have them written with.

The prefix of Confluent's serializers is a zero byte and the number of the schema in four bytes. It is found
by trying: a value that begins with a zero byte and is whole without its first five has it.
"""

import struct
from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any, cast
from uuid import UUID

from everlog.values.arrow import Array, DataType, Schema, StructArray, one_array, pa, struct_of, types
from everlog.values.avro_schemas import avro_schema
from everlog.values.decoded import BadSetting, Decoded, Rows, binary_values, spread

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

Convert = Callable[[Any], Any]


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
        self._converts = [(field.name, field.type, _converter(field.type)) for field in schema]

    def decode(self, values: Array) -> Decoded:
        """Read a column of Avro; see `Decoded`."""
        values = binary_values(values)
        rows: list[dict[str, Any]] = []
        errors: list[str | None] = []
        for value in values.drop_null().to_pylist():
            try:
                rows.append(self._read(value))
                errors.append(None)
            except ValueError as error:
                rows.append({})
                errors.append(str(error))
        columns = [self._column(name, kind, convert, rows, errors) for name, kind, convert in self._converts]
        found = struct_of(columns, self._schema)
        if any(errors):
            found = self._without_bad(found, errors)
        return spread([Rows(found, errors)], values, self._schema)

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

    def _column(
        self,
        name: str,
        kind: DataType,
        convert: Convert | None,
        rows: list[dict[str, Any]],
        errors: list[str | None],
    ) -> Array:
        """One field of all rows. A datum that is not of the column's type is an error of its row."""
        data = [row.get(name) for row in rows]
        try:
            if convert is not None:
                data = [None if datum is None else convert(datum) for datum in data]
            return pa.array(data, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        column: list[Any] = []
        for at, row in enumerate(rows):
            datum = row.get(name)
            try:
                column.append(pa.scalar(datum if datum is None or convert is None else convert(datum), kind))
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                column.append(pa.scalar(None, kind))
                errors[at] = errors[at] or f"field {name!r}: found {str(datum)[:60]!r}, expected {kind}"
        return pa.array(column, kind)

    def _without_bad(self, found: StructArray, errors: list[str | None]) -> StructArray:
        """Nothing of a row that has an error."""
        places = pa.array([None if error else at for at, error in enumerate(errors)], pa.int64())
        return struct_of([found.field(i).take(places) for i in range(len(self._schema))], self._schema)


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
        fields = [_plain_list(column) for column in columns.flatten()]
        names = self._schema.names
        values: list[bytes | None] = []
        for at, row in enumerate(zip(*fields, strict=True)):
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


def _plain_list(column: Array) -> list[Any]:
    """Rows as fastavro takes them: maps are dicts."""
    return cast("list[Any]", column.to_pylist(maps_as_pydicts="strict"))
