"""The declaration of a table: which topic, which format, which columns, and how records become rows."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast, get_args

from everlog.model.topics import topic_name_problem
from everlog.tables.errors import TableMisdeclared

Format = Literal["parquet", "iceberg", "delta"]
Mode = Literal["append", "upsert"]

FORMATS: tuple[str, ...] = get_args(Format)
MODES: tuple[str, ...] = get_args(Mode)


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """A table, as declared. Picklable; TOML or JSON by `dump` and `parse`.

    >>> spec = TableSpec(name="orders", topic="orders", location="lake/orders", schema="id long, item string")
    >>> TableSpec.parse(spec.dump()) == spec
    True
    """

    name: str
    """Letters, digits, `_`, `-` and `.`."""
    topic: str
    location: str
    """Directory of the table, or a URI that Iceberg's or Delta's library knows."""
    format: Format = "parquet"
    mode: Mode = "append"
    value_format: str = "json"
    """How values are read: a format of `everlog.values`."""
    schema: str = ""
    """Columns of the value, such as `id long, name string`; empty: its bytes, in one column `value`."""
    key: tuple[str, ...] = ()
    """Upsert: columns that name a row; empty: the record's key does, as in compaction."""
    debezium: bool = False
    """Values are change events of Debezium: `after` holds the columns, `op` says what happened."""
    partition_by: tuple[str, ...] = ()
    """Columns of type string, integer, boolean or date by whose values files are kept apart."""
    dead_letter_topic: str | None = None
    """Where records that cannot be read go; without one they stop the table."""
    bootstrap: str | None = None
    """Brokers that serve the topic; tools fill it in from their own connection if it is not declared."""
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the format (`iceberg.catalog.uri`, `file.target_bytes`, …) and of the value format (`value.…`)."""

    def __post_init__(self) -> None:
        for name in ("key", "partition_by"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "properties", dict(self.properties))
        self._check()

    def _check(self) -> None:
        if (problem := topic_name_problem(self.name)) is not None:
            raise _wrong("name", self.name, f"a name as topics have: {problem}")
        if (problem := topic_name_problem(self.topic)) is not None:
            raise _wrong("topic", self.topic, f"the name of a topic: {problem}")
        if not self.location:
            raise _wrong("location", self.location, "a directory or a URI")
        if self.format not in FORMATS:
            raise _wrong("format", self.format, f"one of {', '.join(FORMATS)}")
        if self.mode not in MODES:
            raise _wrong("mode", self.mode, f"one of {', '.join(MODES)}")
        if self.debezium and not self.schema:
            raise _wrong("schema", self.schema, "the columns of the source table, as debezium is set")
        if self.key and self.mode != "upsert":
            raise _wrong("key", list(self.key), "none, as the mode is append")
        if self.dead_letter_topic is not None and (problem := topic_name_problem(self.dead_letter_topic)):
            raise _wrong("dead_letter_topic", self.dead_letter_topic, f"the name of a topic: {problem}")
        if self.dead_letter_topic == self.topic:
            raise _wrong("dead_letter_topic", self.dead_letter_topic, "another topic than the table's own")

    @property
    def columns(self) -> Any:
        """The declared columns of the value as a `pyarrow.Schema`, without the `_…` columns."""
        from everlog.tables.schema import declared_columns

        return declared_columns(self)

    @classmethod
    def parse(cls, text: str) -> "TableSpec":
        """Read what `dump` gave, or what a person wrote: TOML, or JSON if it begins with a brace."""
        try:
            given: Any = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
        except ValueError as error:
            raise TableMisdeclared(f"declaration of a table cannot be read: {error}") from error
        return cls.load(given)

    @classmethod
    def load(cls, given: Mapping[str, Any]) -> "TableSpec":
        """From a mapping of names to values; what is unknown or missing is refused by name."""
        known = {each.name: each for each in fields(cls)}
        for name in given:
            if name not in known:
                raise _wrong(name, given[name], f"one of {', '.join(known)}")
        for name in ("name", "topic", "location"):
            if name not in given:
                raise TableMisdeclared(f"declaration of a table: {name} is missing")
        values = {name: value for name, value in given.items() if value is not None}
        for name, value in values.items():
            _check_shape(name, value)
        return cls(**values)

    def dump(self, form: Literal["toml", "json"] = "toml") -> str:
        """As text that `parse` reads; what has its default is left out."""
        values = self.to_dict()
        if form == "json":
            return json.dumps(values, indent=2)
        inner = values.pop("properties", {})
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        if inner:
            lines += ["", "[properties]", *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in inner.items())]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Fields that differ from their defaults, and those that have none, as JSON values."""
        values: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("name", "topic", "location", "format", "mode") or value != each.default:
                if each.name == "properties" and not value:
                    continue
                values[each.name] = (
                    list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
                )
        return values


def _check_shape(name: str, value: Any) -> None:
    if name in ("key", "partition_by"):
        names = cast("list[object]", value) if isinstance(value, list | tuple) else [value, 0]
        if not all(isinstance(each, str) for each in names):
            raise _wrong(name, cast("object", value), "a list of columns")
    elif name == "debezium":
        if not isinstance(value, bool):
            raise _wrong(name, value, "true or false")
    elif name == "properties":
        pairs = cast("Mapping[object, object]", value).items() if isinstance(value, Mapping) else ((0, 0),)
        if not all(isinstance(key, str) and isinstance(text, str) for key, text in pairs):
            raise _wrong(name, cast("object", value), "names and strings")
    elif not isinstance(value, str):
        raise _wrong(name, value, "a string")


def _wrong(name: str, value: object, expected: str) -> TableMisdeclared:
    return TableMisdeclared(f"declaration of a table: {name}={value!r}: expected {expected}")
