"""Rows to topics: which columns are written, and the rows of an Arrow batch parted by topic (D2).

The columns are those of Spark's own connector. Nothing here makes a Python object for a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everlog.client.core.columns.columns import arrow_compute, load_arrow
from everlog.model.errors import ConfigError
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.options import SinkOptions
from everlog.values.decoded import BadSetting
from everlog.values.formats import encoder

ArrowBatch = Any
"""A pyarrow.RecordBatch, which has no types to check against."""

_OTHER_USES = frozenset({"key", "topic", "partition", "headers"})
_BYTES = frozenset({"string", "binary"})
_HEADERS = "array<struct<key:string,value:binary>>"
_PARTITIONS = frozenset({"int", "smallint", "tinyint"})


def columns_to_write(types: Mapping[str, str], options: SinkOptions) -> list[str]:
    """The columns that become records, by Spark's names of their types; ConfigError for what will not do."""
    for name in types:
        if name != name.lower() and name.lower() in ("key", "value", "topic", "partition", "headers"):
            raise ConfigError(f"column {name!r}: expected it to be called {name.lower()!r}")
    wanted = ["value"]
    if options.value_format is not None:
        if not packed_columns(list(types)):
            raise ConfigError(
                f"option valueFormat={options.value_format}: there is no column to make values of"
            )
    elif "value" not in types:
        found = ", ".join(repr(name) for name in types) or "none"
        raise ConfigError(f"the sink needs a column 'value' of type string or binary: found columns {found}")
    else:
        _check(types, "value", _BYTES, "string or binary")
    if "key" in types:
        _check(types, "key", _BYTES, "string or binary")
        wanted.append("key")
    if options.topic is None:
        if "topic" not in types:
            raise ConfigError("no topic to write to: expected the option topic or a column 'topic'")
        _check(types, "topic", frozenset({"string"}), "string")
    if "partition" in types:
        _check(types, "partition", _PARTITIONS, "int")
        wanted.append("partition")
    if options.headers and "headers" in types:
        if types["headers"].replace(" ", "") != _HEADERS:
            raise ConfigError(f"column 'headers' is of type {types['headers']}: expected {_HEADERS}")
        wanted.append("headers")
    if options.timestamp:
        if "timestamp" not in types:
            raise ConfigError("option includeTimestamp=true: there is no column 'timestamp'")
        _check(types, "timestamp", frozenset({"timestamp", "timestamp_ntz", "bigint"}), "timestamp")
        wanted.append("timestamp")
    return wanted


def packed_columns(names: Sequence[str]) -> list[str]:
    """The columns that make up values with a `valueFormat`: `value`, or else all that have no other use."""
    return ["value"] if "value" in names else [name for name in names if name not in _OTHER_USES]


def with_values(batch: ArrowBatch, options: SinkOptions) -> ArrowBatch:
    """The batch with a column `value` as records have it; ConfigError for columns that the format has not."""
    if options.value_format is None:
        return batch
    pa = load_arrow()
    names = packed_columns(batch.schema.names)
    columns = batch.column(batch.schema.get_field_index(names[0]))
    if names != ["value"] or not pa.types.is_struct(columns.type):
        fields = [batch.schema.field(name) for name in names]
        columns = pa.StructArray.from_arrays([batch.column(name) for name in names], fields=fields)
    try:
        chosen = encoder(options.value_format, pa.schema(list(columns.type)), dict(options.value_settings))
    except BadSetting as error:
        raise ConfigError(f"option valueFormat={options.value_format}: {error}") from None
    kept = [name for name in batch.schema.names if name not in names]
    arrays = [*(batch.column(name) for name in kept), chosen.encode(columns)]
    return pa.RecordBatch.from_arrays(arrays, names=[*kept, "value"])


def _check(types: Mapping[str, str], name: str, allowed: frozenset[str], expected: str) -> None:
    # Spark has `string collate X` too, which is a string all the same.
    if types[name].partition(" ")[0] not in allowed:
        raise ConfigError(f"column {name!r} is of type {types[name]}: expected {expected}")


def parted_by_topic(
    batch: ArrowBatch, topic: str | None, wanted: Sequence[str]
) -> Iterator[tuple[str, ArrowBatch]]:
    """The rows of a batch for each topic, in their order, with the columns that become records."""
    records = batch.select(list(wanted))
    if topic is not None:
        yield topic, records
        return
    topics = batch.column(batch.schema.get_field_index("topic"))
    if topics.null_count:
        row = arrow_compute().index(topics.is_null(), value=True).as_py()
        raise SinkFailed(
            f"{topics.null_count} of {len(topics)} rows have no topic, the first of them is number {row}: "
            "expected one in the column 'topic', or the option topic"
        )
    coded = topics if load_arrow().types.is_dictionary(topics.type) else topics.dictionary_encode()
    names: list[str] = coded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], records
        return
    compute = arrow_compute()
    # A stable sort: rows of one topic stay in their order.
    order = compute.sort_indices(coded.indices)
    ordered = records.take(order)
    counts = compute.value_counts(coded.indices.take(order))
    start = 0
    for pair in counts:
        count = pair["counts"].as_py()
        yield names[pair["values"].as_py()], ordered.slice(start, count)
        start += count
