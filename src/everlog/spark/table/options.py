"""The options of the format `everlog_table`: which table, and what the rows are that go into it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from everlog.client.core.settings import ConnectionSettings
from everlog.model.errors import ConfigError
from everlog.model.topics import topic_name_problem
from everlog.spark.option_names import refuse_misspelled
from everlog.spark.source.client_settings import client_options
from everlog.tables.rows import RECORD as NEEDED
from everlog.tables.spec import FORMATS, MODES, TableSpec

BOOTSTRAP = "kafka.bootstrap.servers"
VALUE_PREFIX = "value."
PROPERTY_PREFIX = "table."

RECORD = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of the format `everlog`."""
WHENCE = {
    "topic": "_topic",
    "partition": "_partition",
    "offset": "_offset",
    "timestamp": "_timestamp",
    "key": "_key",
}
"""Columns of the format `everlog` that say where a row came from, and what they are called in a table."""

NAMES = (
    "table", "path", "location", "name", "topic", "tableFormat", "mode", "keys", "schema", "valueSchema",
    "valueFormat", "partitionBy", "debezium", "deadLetterTopic", "writer", "batchId", "checkpointLocation",
    BOOTSTRAP,
)  # fmt: skip
"""All options but `table.…`, `value.…` and `kafka.…`."""

_DECLARED = ("path", "location", "name", "topic", "tableFormat", "mode", "keys", "schema", "valueSchema",
             "valueFormat", "partitionBy", "debezium", "deadLetterTopic")  # fmt: skip
"""Options that a declaration answers already."""


class Column(Protocol):
    """A field of a schema of Spark's."""

    name: str

    @property
    def dataType(self) -> Any:
        """Its type, which has a simpleString."""
        ...


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a read or write of a table was asked for."""

    declared: str | None
    """The name of a declared table; None if it is described by the options."""
    bootstrap: str | None
    client: Mapping[str, Any]
    """Settings of clients beside the bootstrap servers, such as those of security."""
    described: Mapping[str, Any]
    """The fields of a TableSpec that the options give; the schema may be missing, and come from the rows."""
    writer: str | None
    batch_id: int | None
    checkpoint: str | None


def read_options(given: Mapping[str, str]) -> TableOptions:
    """Read the options of a query; ConfigError names what is wrong."""
    options = {name.lower(): value.strip() for name, value in given.items()}
    refuse_misspelled(given, NAMES, ("kafka.", VALUE_PREFIX, PROPERTY_PREFIX), likeness=0.8)
    declared = options.get("table")
    if declared is not None:
        if not options.get(BOOTSTRAP):
            raise ConfigError(f"option table={declared!r} needs {BOOTSTRAP}: declarations are on the cluster")
        for name in _DECLARED:
            if name.lower() in options:
                raise ConfigError(
                    f"options table={declared!r} and {name}: expected one of them, as table is declared"
                )
    elif "path" not in options and "location" not in options:
        raise ConfigError("which table? Expected the option table, the name of a declared one, or path")
    elif "path" in options and "location" in options:
        raise ConfigError("options path and location: expected one of them")
    batch = options.get("batchid")
    if batch is not None and (not batch.isdecimal() or "writer" not in options):
        raise ConfigError(f"option batchId={batch!r}: expected a whole number, together with writer")
    return TableOptions(
        declared=declared,
        bootstrap=options.get(BOOTSTRAP) or None,
        client=_client(options),
        described={} if declared is not None else _described(options),
        writer=options.get("writer") or None,
        batch_id=None if batch is None else int(batch),
        checkpoint=options.get("checkpointlocation") or None,
    )


def _client(options: Mapping[str, str]) -> dict[str, Any]:
    if not options.get(BOOTSTRAP):
        return {}
    settings = client_options(options, ConnectionSettings, {})
    return {name: value for name, value in settings.items() if name != "bootstrap_servers"}


def _described(options: Mapping[str, str]) -> dict[str, Any]:
    location = options.get("path") or options.get("location") or ""
    name = options.get("name") or location.rstrip("/").rpartition("/")[2]
    if topic_name_problem(name) is not None:
        raise ConfigError(
            f"path {location!r}: its last part is no name for a table; expected the option name"
        )
    properties = {
        key.removeprefix(PROPERTY_PREFIX): value
        for key, value in options.items()
        if key.startswith(PROPERTY_PREFIX)
    }
    properties |= {key: value for key, value in options.items() if key.startswith(VALUE_PREFIX)}
    described: dict[str, Any] = {
        "name": name,
        # Rows of several topics, or of none, may go into one table: the name stands for them.
        "topic": options.get("topic") or name,
        "location": location,
        "format": _one_of(options, "tableFormat", FORMATS),
        "mode": _one_of(options, "mode", MODES),
        "value_format": options.get("valueformat"),
        "schema": options.get("schema") or options.get("valueschema"),
        "key": _listed(options.get("keys", "")),
        "partition_by": _listed(options.get("partitionby", "")),
        "debezium": _flag(options, "debezium"),
        "dead_letter_topic": options.get("deadlettertopic") or None,
        "bootstrap": options.get(BOOTSTRAP) or None,
        "properties": properties,
    }
    return {key: value for key, value in described.items() if value is not None}


def spec_for_rows(options: TableOptions, columns: Sequence[Column]) -> TableSpec:
    """The declaration of the table that these columns go into, if the options do not name a declared one."""
    assert options.declared is None, options.declared
    described = dict(options.described)
    if "value_format" not in described and not described.get("schema"):
        own = [column for column in columns if column.name not in WHENCE.values()]
        if not {column.name for column in own} <= set(RECORD):
            described["schema"] = columns_ddl(own)
    return TableSpec.load(described)


def spec_for_reading(options: TableOptions) -> TableSpec:
    """The declaration of a table that is there already, whose columns it knows itself."""
    assert options.declared is None, options.declared
    return TableSpec.load(options.described)


def columns_ddl(columns: Sequence[Column]) -> str:
    """Columns of Spark's as the declaration of a table writes them."""
    return ", ".join(f"`{column.name}` {column.dataType.simpleString()}" for column in columns)


def are_records(spec: TableSpec, columns: Sequence[Column]) -> bool:
    """Whether rows are records as the format `everlog` gives them, whose values are still to be read.

    Rows that lack some column of a record, or have columns of the table's own, are taken as they are.
    """
    names = {column.name for column in columns}
    # A table may well have a column `key` or `timestamp` of its own, which is not that of the record.
    own = {name for name in spec.columns.names if name not in RECORD}
    return set(NEEDED) <= names and not own & names


def _one_of(options: Mapping[str, str], name: str, words: Sequence[str]) -> str:
    word = options.get(name.lower(), words[0]).lower()
    if word not in words:
        raise ConfigError(f"option {name}={options[name.lower()]!r}: expected one of {', '.join(words)}")
    return word


def _flag(options: Mapping[str, str], name: str) -> bool:
    word = options.get(name.lower(), "false").lower()
    if word not in ("true", "false"):
        raise ConfigError(f"option {name}={options[name.lower()]!r}: expected true or false")
    return word == "true"


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
