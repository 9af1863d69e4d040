"""Records, specs and rows for tests of tables."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from everlog import Consumer, TopicPartition
from everlog.tables.arrow import Batch, pa
from everlog.tables.rows import record_schema
from everlog.tables.spec import TableSpec
from everlog.tables.table import Table

Record = tuple[int, bytes | None, bytes | None]
"""Offset, key, value."""


def a_spec(directory: Path, **given: Any) -> TableSpec:
    """A table of orders; what is given replaces the rest."""
    values: dict[str, Any] = {
        "name": "orders",
        "topic": "orders",
        "location": str(directory / "orders"),
        "schema": "id long, item string",
    }
    return TableSpec(**(values | given))


def records(
    rows: Iterable[Record],
    *,
    topic: str = "orders",
    partition: int = 0,
    timestamps: Sequence[int] | None = None,
) -> Batch:
    """A batch as a consumer polls it; timestamps grow with the offsets unless they are given."""
    listed = list(rows)
    return pa.RecordBatch.from_pylist(
        [
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": 1_000_000 + offset if timestamps is None else timestamps[at],
                "key": key,
                "value": value,
            }
            for at, (offset, key, value) in enumerate(listed)
        ],
        schema=record_schema(),
    )


def order(number: int, item: str = "pizza") -> bytes:
    """The value of an order."""
    return json.dumps({"id": number, "item": item}).encode()


def orders(numbers: Iterable[int], *, partition: int = 0) -> Batch:
    """Orders whose ids are their offsets."""
    return records([(n, f"k{n}".encode(), order(n)) for n in numbers], partition=partition)


def ids(table: Table) -> list[int]:
    """The ids in a table, in order, as often as they are there."""
    return sorted(table.read(["id"])["id"].to_pylist())


def state(table: Table) -> dict[bytes, int]:
    """Key to id; a key that is there twice fails."""
    rows = table.read(["_key", "id"]).to_pylist()
    found = {row["_key"]: row["id"] for row in rows}
    assert len(found) == len(rows), rows
    return found


def read_all(bootstrap: str, topic: str) -> list[Any]:
    """All committed records of a topic."""
    found: list[Any] = []
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, each.index) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(*places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += consumer.poll(1.0)
    return found
