"""Declarations of tables, kept where every tool finds them: in a compacted topic of the cluster.

`__everlog_tables` has a record for each table: its name is the key, its declaration as JSON the value, and
the last one counts.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from everlog.client import Admin, Consumer, Producer, TopicPartition
from everlog.tables.errors import NoSuchTable, TableMisdeclared
from everlog.tables.letters import ensure_topic
from everlog.tables.schema import table_schema
from everlog.tables.spec import TableSpec

TOPIC = "__everlog_tables"
_PLACE = TopicPartition(TOPIC, 0)
_DELIVERY_S = 60.0

Client = Mapping[str, Any]
"""Settings of the clients beside their bootstrap servers, such as those of security."""


def declare(
    bootstrap: str, spec: TableSpec, *, overwrite: bool = False, client: Client | None = None
) -> None:
    """Declare a table. With `overwrite` a declaration of that name is replaced; else that is refused.

    The columns are checked here; whether the table can be made is found out by who opens it.
    """
    table_schema(spec)
    settings = dict(client or {})
    with Admin(bootstrap, **settings) as admin:
        ensure_topic(admin, TOPIC, {"cleanup.policy": "compact"})
    if not overwrite and spec.name in _read(bootstrap, settings):
        raise TableMisdeclared(f"table {spec.name} is declared already; say overwrite to replace it")
    _write(bootstrap, settings, spec.name, json.dumps(spec.to_dict()).encode())


def declared_tables(bootstrap: str, *, client: Client | None = None) -> list[TableSpec]:
    """All declared tables, by name; their bootstrap is filled in if they declare none."""
    found = _read(bootstrap, dict(client or {}))
    return [_with_bootstrap(found[name], bootstrap) for name in sorted(found)]


def declared_table(bootstrap: str, name: str, *, client: Client | None = None) -> TableSpec:
    """One declared table; NoSuchTable names those that there are."""
    found = _read(bootstrap, dict(client or {}))
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise NoSuchTable(f"table {name} is not declared on {bootstrap}: declared are {known}")
    return _with_bootstrap(found[name], bootstrap)


def withdraw(bootstrap: str, name: str, *, client: Client | None = None) -> TableSpec:
    """Take a declaration back and return it. The table itself stays: `drop_table` removes it."""
    spec = declared_table(bootstrap, name, client=client)
    _write(bootstrap, dict(client or {}), name, None)
    return spec


def _with_bootstrap(spec: TableSpec, bootstrap: str) -> TableSpec:
    return spec if spec.bootstrap is not None else replace(spec, bootstrap=bootstrap)


def _write(bootstrap: str, settings: dict[str, Any], name: str, value: bytes | None) -> None:
    with Producer(bootstrap, **settings) as producer:
        producer.send(TOPIC, value, key=name.encode(), partition=0).result(_DELIVERY_S)


def _read(bootstrap: str, settings: dict[str, Any]) -> dict[str, TableSpec]:
    with Admin(bootstrap, **settings) as admin:
        if TOPIC not in admin.list_topics(internal=True):
            return {}
    found: dict[str, TableSpec] = {}
    with Consumer(bootstrap, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([_PLACE])
        end = consumer.end_offsets(_PLACE)[_PLACE]
        while consumer.position(_PLACE) < end:
            for record in consumer.poll(1.0):
                name = bytes(record.key or b"").decode()
                if record.value is None:
                    found.pop(name, None)
                else:
                    found[name] = TableSpec.load(json.loads(record.value))
    return found
