"""Records as lines: how `produce` reads them, and how `consume` and `log dump` write them as JSON."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from everlog.cli.shapes import bytes_from_shape, bytes_shape
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.records.builder import Header
from everlog.records.reader import Record
from everlog.records.rows import ConsumerRecord


class LineRecord(NamedTuple):
    """A record read from a line; None of partition and timestamp leaves them to the writer."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


LineReader = Callable[[bytes, int], LineRecord]
"""Takes a line and its number, which errors name."""


def text_reader(key_separator: bytes | None, *, empty_is_null: bool) -> LineReader:
    """Lines of text: the value, or key and value around the first separator."""

    def value_of(text: bytes) -> bytes | None:
        return None if empty_is_null and not text else text

    def read(line: bytes, number: int) -> LineRecord:
        if key_separator is None:
            return LineRecord(None, value_of(line))
        key, separator, value = line.partition(key_separator)
        if not separator:
            shown = key_separator.decode(errors="replace")
            raise ConfigError(f"line {number} has no key: expected {shown!r} between key and value")
        return LineRecord(key, value_of(value))

    return read


def read_json_record(line: bytes, number: int) -> LineRecord:
    """A line of JSON as `consume --json` writes it; fields that a record does not have are passed over."""
    try:
        fields: object = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("expected an object with key, value, headers, partition and timestamp")
        return _record_of(cast(dict[str, Any], fields))
    except ValueError as error:
        raise ConfigError(f"line {number} is not a record: {error}") from None


def _record_of(fields: dict[str, Any]) -> LineRecord:
    return LineRecord(
        _bytes(fields, "key"),
        _bytes(fields, "value"),
        _headers(fields.get("headers")),
        _number(fields, "partition"),
        _number(fields, "timestamp"),
    )


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    try:
        return bytes_from_shape(fields.get(name))
    except ValueError as error:
        raise ValueError(f"{name} is {fields.get(name)!r}: {error}") from None


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} is {value!r}: expected a number")


def _headers(shape: object) -> tuple[Header, ...]:
    if shape is None:
        return ()
    if isinstance(shape, dict):
        named = cast(dict[str, object], shape)
        return tuple((name, bytes_from_shape(value)) for name, value in named.items())
    if isinstance(shape, list):
        return tuple(_header(entry) for entry in cast(list[object], shape))
    raise ValueError(f"headers are {shape!r}: expected a list of {{key, value}}, or an object")


def _header(entry: object) -> Header:
    if isinstance(entry, dict):
        fields = cast(dict[str, object], entry)
        name = fields.get("key")
        if isinstance(name, str) and "value" in fields:
            return name, bytes_from_shape(fields["value"])
    raise ValueError(f"header {entry!r}: expected an object with key and value")


def record_shape(place: TopicPartition, record: Record) -> dict[str, object]:
    """A record as JSON shows it; `produce --json` reads it back."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_shape(record.key),
        "value": bytes_shape(record.value),
        "headers": [{"key": name, "value": bytes_shape(value)} for name, value in record.headers],
    }


def plain_record(record: ConsumerRecord) -> Record:
    """A record as formats take it, without the partition that it came from."""
    return Record(record.offset, record.timestamp, record.key, record.value, record.headers)
