"""Records to rows: values to columns, where each came from beside them, the unreadable kept aside."""

from dataclasses import dataclass
from typing import Any

from everlog.tables.arrow import Array, Batch, Schema, one_array, pa, pc, types
from everlog.tables.debezium import DELETE, Envelope
from everlog.tables.errors import SchemaConflict, TableMisdeclared
from everlog.tables.schema import (
    DELETED,
    KEY,
    META,
    OFFSET,
    OP,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    declared_columns,
)
from everlog.tables.spec import TableSpec
from everlog.tables.upsert import identity
from everlog.values import BadSetting, decoder

RECORD = ("topic", "partition", "offset", "timestamp", "key", "value")
"""Columns that records must have: those of `Consumer.poll_arrow`, and of a source on Spark."""

BAD = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(
            "headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
        ),
        pa.field("error", pa.string()),
    ]
)
"""Records that could not be read, and why."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """Rows for `Table.write_files`, and records for the dead-letter topic. Each record is in one of them; in
    neither if it says nothing to the table, as a tombstone of Debezium in append mode."""

    rows: Batch
    bad: Batch


class Shaper:
    """Makes rows of the records of one table. It keeps nothing between calls."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._columns = declared_columns(spec)
        settings = {
            name.removeprefix("value."): value
            for name, value in spec.properties.items()
            if name.startswith("value.")
        }
        self._envelope: Envelope | None = None
        self._decoder: Any = None
        try:
            if spec.debezium:
                self._envelope = Envelope(spec.value_format, self._columns, settings)
            elif spec.schema or spec.value_format not in ("json", "avro", "protobuf", "bytes"):
                self._decoder = decoder(spec.value_format, self._columns, settings)
            self._keys: Any = None
            if spec.key:
                chosen = [self._columns.field(name) for name in spec.key if name in self._columns.names]
                wrapped = pa.field("payload", pa.struct(chosen))
                self._keys = decoder("json", pa.schema([*chosen, wrapped])) if chosen else None
        except BadSetting as error:
            raise TableMisdeclared(f"table {spec.name}: {error}") from error

    def shape(self, records: Batch) -> Shaped:
        """Make rows of a batch of records."""
        for name in RECORD:
            if name not in records.schema.names:
                raise SchemaConflict(
                    f"records for table {self._spec.name} have no column {name!r}: "
                    f"expected {', '.join(RECORD)}"
                )
        source = {name: one_array(records.column(name)) for name in RECORD}
        values = _binary(source["value"])
        meta = _meta(source)
        columns, op, errors = self._values(values)
        is_null = values.is_null()
        keep = pa.repeat(pa.scalar(True), len(values))
        if self._spec.mode == "upsert":
            deleted = is_null if op is None else pc.or_(is_null, pc.fill_null(pc.equal(op, DELETE), False))
            columns = self._with_keys(columns, meta[KEY], deleted)
            errors = pc.coalesce(errors, self._key_errors({**columns, **meta}))
            columns = {**columns, DELETED: deleted}
        elif op is not None:
            columns = {**columns, OP: op}
            keep = pc.invert(is_null)
        good = pc.and_(errors.is_null(), keep)
        rows = pa.table({**{n: c for n, c in columns.items() if n != DELETED}, **meta, **_last(columns)})
        bad = pa.table(
            [
                *(meta[name] for name in (TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY)),
                values,
                _headers(records),
                errors,
            ],
            schema=BAD,
        )
        return Shaped(_batch(rows.filter(good)), _batch(bad.filter(errors.is_valid())))

    def _values(self, values: Array) -> tuple[dict[str, Array], Array | None, Array]:
        """Columns, operations if they are Debezium's, and errors."""
        if self._envelope is not None:
            events = self._envelope.unwrap(values)
            return events.columns, events.op, events.errors
        if self._decoder is None:
            return {"value": values}, None, pa.nulls(len(values), pa.string())
        decoded = self._decoder.decode(values)
        columns = {each.name: pc.struct_field(decoded.columns, each.name) for each in self._columns}
        return columns, None, decoded.errors

    def _with_keys(self, columns: dict[str, Array], keys: Array, deleted: Array) -> dict[str, Array]:
        """Key columns of deletions that the value does not tell, from the record's key."""
        names = [name for name in self._spec.key if name in self._columns.names]
        if self._keys is None or not pc.any(deleted, min_count=0).as_py():
            return columns
        told = self._keys.decode(keys).columns
        columns = dict(columns)
        for name in names:
            inner = pc.struct_field(pc.struct_field(told, "payload"), name)
            found = pc.coalesce(pc.struct_field(told, name), inner)
            if len(names) == 1:
                found = pc.coalesce(found, _scalars(keys, found.type))
            columns[name] = pc.if_else(deleted, pc.coalesce(columns[name], found), columns[name])
        return columns

    def _key_errors(self, columns: dict[str, Array]) -> Array:
        wanted = self._spec.key or (KEY,)
        missing = identity(pa.table({name: columns[name] for name in wanted}), wanted).is_null()
        said = "no key in the record" if not self._spec.key else f"no value for the key {', '.join(wanted)}"
        return pc.if_else(missing, said, pa.scalar(None, pa.string()))


def _last(columns: dict[str, Array]) -> dict[str, Array]:
    return {DELETED: columns[DELETED]} if DELETED in columns else {}


def _meta(source: dict[str, Array]) -> dict[str, Array]:
    topic = source["topic"]
    if types.is_dictionary(topic.type):
        topic = topic.dictionary_decode()
    arrays = [
        topic,
        source["partition"],
        source["offset"],
        source["timestamp"],
        _binary(source["key"]),
    ]
    return {
        column.name: array if array.type == column.type else array.cast(column.type)
        for column, array in zip(META, arrays, strict=True)
    }


def _headers(records: Batch) -> Array:
    kind = BAD.field("headers").type
    if "headers" not in records.schema.names:
        return pa.nulls(records.num_rows, kind)
    return one_array(records.column("headers")).cast(kind)


def _binary(values: Array) -> Array:
    return values if types.is_binary(values.type) else values.cast(pa.binary())


def _scalars(keys: Array, kind: Any) -> Array:
    """Keys that are no JSON objects but the bare value, such as `42` or `north`; null where that fails."""
    values: list[Any] = []
    for key in keys.to_pylist():
        try:
            text = None if key is None else key.decode()
            scalar = pa.scalar(text, pa.string())
            values.append(None if text is None or text.lstrip()[:1] == "{" else scalar.cast(kind).as_py())
        except (UnicodeDecodeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values.append(None)
    return pa.array(values, kind)


def _batch(table: Any) -> Batch:
    batches = table.combine_chunks().to_batches()
    return (
        batches[0]
        if batches
        else pa.RecordBatch.from_arrays(
            [pa.array([], each.type) for each in table.schema], schema=table.schema
        )
    )


def record_schema() -> Schema:
    """Records as `Shaper.shape` takes them, for whoever builds some."""
    return pa.schema(
        [
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("ms", "UTC")),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
        ]
    )
