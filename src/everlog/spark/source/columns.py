"""Batches of the log to Arrow batches in the very layout that Spark expects.

The buffers of keys, values and offsets are those that the compiled kernel filled. Topic and partition are the
same in all rows of a task: they are made once, and each batch has a slice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from everlog.client.core.columns.columns import Unpacked
from everlog.model.errors import ConfigError, EverlogError
from everlog.model.topics import TopicPartition
from everlog.ports.files import Buffer
from everlog.records.column_buffers import Binary, Columns
from everlog.records.columns import decode_columns
from everlog.spark.source.options import SourceOptions, ValueOptions
from everlog.spark.source.record_schema import (
    CORRUPT,
    CORRUPT_REASON,
    CORRUPT_RECORD,
    TYPES,
    record_columns,
)
from everlog.values import BadSetting, Decoded, decoder
from everlog.values.arrow import pa, pc

ArrowBatch = Any
ArrowSchema = Any
Array = Any


class BadValue(EverlogError):
    """A value that cannot be read, where mode=failfast asks to stop at it."""


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """Which columns a read has: all of `schema`, by name; the value's fields by the value format."""

    schema: ArrowSchema
    record: frozenset[str]
    """Those that are the record's own; others are the value's fields, and what is told of bad values."""
    value: ValueOptions | None


def column_options(schema: ArrowSchema, options: SourceOptions) -> ColumnOptions:
    """How the columns of a schema are filled; ConfigError if one is unknown or has another type."""
    record = set(TYPES if options.columns is None else record_columns(options)) & set(schema.names)
    if options.value is not None:
        record.discard("value")
    for name in schema.names:
        if name not in record and options.value is None:
            raise ConfigError(f"schema: unknown column {name!r}; expected some of {', '.join(TYPES)}")
        if name in record and not schema.field(name).type.equals(_kinds()[name]):
            raise ConfigError(
                f"schema: column {name!r} is {schema.field(name).type}, expected {TYPES[name]} "
                "(a field of the value with that name needs valueColumns=struct, or the option columns)"
            )
    made = ColumnOptions(schema, frozenset(record), options.value)
    if options.value is not None:
        value_decoder(options.value, value_schema(made))
    return made


@cache
def _kinds() -> Mapping[str, Any]:
    """Arrow's types of the record's columns."""
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
    }


class RecordColumns:
    """Makes the Arrow batches of one partition."""

    def __init__(self, place: TopicPartition, options: ColumnOptions) -> None:
        self._place = place
        self._schema = options.schema
        self._value = options.value
        self._record = options.record
        self._names: Sequence[str] = options.schema.names
        self._constants: dict[str, Array] = {}
        self._decoder = None
        if options.value is not None:
            self._fields = value_schema(options)
            self._decoder = value_decoder(options.value, self._fields)

    def batch(self, chunks: Sequence[Unpacked]) -> ArrowBatch:
        """The records of chunks of the partition as one Arrow batch."""
        columns = decode_columns([span for chunk in chunks for span in chunk.spans(0)])
        decoded = None
        if self._decoder is not None:
            decoded = self._decoder.decode(_binary(columns.value, columns.rows))
            self._check_mode(columns, decoded)
        made = pa.RecordBatch.from_arrays(
            [self._column(name, columns, decoded) for name in self._names], schema=self._schema
        )
        if decoded is not None and decoded.error_count and self._mode == "dropmalformed":
            return made.filter(pc.is_null(decoded.errors))
        return made

    @property
    def _mode(self) -> str:
        return "" if self._value is None else self._value.mode

    def _check_mode(self, columns: Columns, decoded: Decoded) -> None:
        if decoded.error_count and self._mode == "failfast":
            at = decoded.errors.is_valid().index(True).as_py()
            offset = _numbers(pa.int64(), columns.offset, columns.rows)[at].as_py()
            raise BadValue(
                f"the value of {self._place} at offset {offset} is no {self._value_format}: "
                f"{decoded.errors[at].as_py()} (mode=failfast)"
            )

    @property
    def _value_format(self) -> str:
        return "" if self._value is None else self._value.format

    def _column(self, name: str, columns: Columns, decoded: Decoded | None) -> Array:
        if name in self._record:
            return _COLUMNS[name](self, columns)
        assert decoded is not None
        return self._value_column(name, columns, decoded)

    def _value_column(self, name: str, columns: Columns, decoded: Decoded) -> Array:
        if name == CORRUPT_REASON:
            return decoded.errors
        if name == CORRUPT_RECORD:
            if not decoded.error_count:
                return pa.nulls(columns.rows, pa.binary())
            values = _binary(columns.value, columns.rows)
            return pc.if_else(decoded.errors.is_valid(), values, pa.scalar(None, pa.binary()))
        assert self._value is not None
        if not self._value.as_struct:
            return decoded.columns.field(name)
        # A struct is null for a tombstone and for what cannot be read.
        absent = pc.or_(pc.is_null(_binary(columns.value, columns.rows)), decoded.errors.is_valid())
        parts = [decoded.columns.field(at) for at in range(len(self._fields))]
        return pa.StructArray.from_arrays(parts, fields=list(self._fields), mask=absent)

    def _constant(self, name: str, value: object, kind: Any, rows: int) -> Array:
        held = self._constants.get(name)
        if held is None or len(held) < rows:
            held = self._constants[name] = pa.repeat(pa.scalar(value, kind), rows)
        return held.slice(0, rows)

    # One for each column of a record.

    def topic(self, columns: Columns) -> Array:
        """The topic's name, in each row."""
        return self._constant("topic", self._place.topic, pa.string(), columns.rows)

    def partition(self, columns: Columns) -> Array:
        """The partition, in each row."""
        return self._constant("partition", self._place.partition, pa.int32(), columns.rows)

    def offset(self, columns: Columns) -> Array:
        """Offsets."""
        return _numbers(pa.int64(), columns.offset, columns.rows)

    def timestamp(self, columns: Columns) -> Array:
        """Timestamps in microseconds; null for a record of old times that has none."""
        bitmap = None if columns.timestamp_validity is None else pa.py_buffer(columns.timestamp_validity)
        buffers = [bitmap, pa.py_buffer(columns.timestamp)]
        found = pa.Array.from_buffers(pa.int64(), columns.rows, buffers, columns.timestamp_nulls)
        return pc.multiply(found, 1000).view(pa.timestamp("us", tz="UTC"))

    def timestamp_type(self, columns: Columns) -> Array:
        """0 where the producer made the timestamp, 1 where the broker did."""
        return _numbers(pa.int8(), columns.timestamp_type, columns.rows).cast(pa.int32())

    def key(self, columns: Columns) -> Array:
        """Keys."""
        return _binary(columns.key, columns.rows)

    def value(self, columns: Columns) -> Array:
        """Values as they are."""
        return _binary(columns.value, columns.rows)

    def headers(self, columns: Columns) -> Array:
        """Headers; null for a record without any, as in Spark's own connector."""
        kind = self._schema.field("headers").type
        if not columns.header_count:
            return pa.nulls(columns.rows, kind)
        count = columns.header_count
        names = _binary(columns.header_name, count).cast(pa.string())
        pairs = pa.StructArray.from_arrays(
            [names, _binary(columns.header_value, count)], fields=list(kind.value_type)
        )
        buffers = [None, pa.py_buffer(columns.header_lists)]
        lists = pa.Array.from_buffers(kind, columns.rows, buffers, 0, children=[pairs])
        return pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(None, kind), lists)


_COLUMNS: Mapping[str, Callable[[RecordColumns, Columns], Array]] = {
    "key": RecordColumns.key,
    "value": RecordColumns.value,
    "topic": RecordColumns.topic,
    "partition": RecordColumns.partition,
    "offset": RecordColumns.offset,
    "timestamp": RecordColumns.timestamp,
    "timestampType": RecordColumns.timestamp_type,
    "headers": RecordColumns.headers,
}


def value_schema(columns: ColumnOptions) -> ArrowSchema:
    """The fields of the value within the schema of a read."""
    fields = [field for field in columns.schema if field.name not in columns.record | set(CORRUPT)]
    if columns.value is None or not columns.value.as_struct:
        return pa.schema(fields)
    if [field.name for field in fields] != ["value"] or not pa.types.is_struct(fields[0].type):
        raise ConfigError("valueColumns=struct: expected one column `value` that is a struct")
    kind = fields[0].type
    return pa.schema([kind.field(at) for at in range(kind.num_fields)])


def value_decoder(value: ValueOptions, fields: ArrowSchema) -> Any:
    """The decoder for typed values; ConfigError names what of the options will not do."""
    try:
        return decoder(value.format, fields, value.settings)
    except BadSetting as error:
        raise ConfigError(f"options valueFormat={value.format} and valueSchema: {error}") from None


def _binary(column: Binary, rows: int) -> Array:
    bitmap = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [bitmap, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, column.null_count)


def _numbers(kind: Any, buffer: Buffer, rows: int) -> Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(buffer)], 0)
