"""Reads of the Spark source without Spark: the same plans and the same tasks, in this process."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import everlog
from everlog.model.topics import TopicPartition
from everlog.spark.source.batch_reader import plan_batch
from everlog.spark.source.cluster import connected
from everlog.spark.source.columns import column_options
from everlog.spark.source.options import SourceOptions, read_options
from everlog.spark.source.plan import ReadRange
from everlog.spark.source.pushdown import Bounds
from everlog.spark.source.reading import read_range
from everlog.values.arrow import pa

RECORD: Any = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)


def options(bootstrap: str, topic: str, **more: str) -> SourceOptions:
    """Options of a batch read of one topic."""
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}
    return read_options(given, streaming=False)


def send(bootstrap: str, topic: str, values: Iterable[bytes], *, partition: int = 0, **settings: Any) -> None:
    """Write values to one partition, in order."""
    with everlog.Producer(bootstrap, **settings) as producer:
        for value in values:
            producer.send(topic, value, key=value, partition=partition)
        producer.flush(timeout=60)


def delete(bootstrap: str, topic: str) -> None:
    """Delete a topic, and wait until brokers tell that it is gone."""
    with everlog.Admin(bootstrap) as admin:
        admin.delete_topics([topic])
        deadline = time.monotonic() + 60
        while topic in admin.list_topics():
            assert time.monotonic() < deadline, f"{topic} is still there"
            time.sleep(0.02)


def plan(given: SourceOptions) -> list[ReadRange]:
    """The ranges of a batch read."""
    with connected(given.client) as cluster:
        return plan_batch(cluster, given, Bounds())


def rows(given: SourceOptions, ranges: Sequence[ReadRange], schema: Any = RECORD) -> list[dict[str, Any]]:
    """What tasks read of ranges."""
    columns = column_options(schema, given)
    return [row for each in ranges for batch in read_range(given, each, columns) for row in batch.to_pylist()]


def values(given: SourceOptions, ranges: Sequence[ReadRange] | None = None) -> list[bytes]:
    """The values of a batch read, or of ranges."""
    return [row["value"] for row in rows(given, plan(given) if ranges is None else ranges)]


def at(topic: str, partition: int = 0) -> TopicPartition:
    """One partition."""
    return TopicPartition(topic, partition)
