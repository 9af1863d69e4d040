"""The broker's log as another client sees it: confluent-kafka's binding is typed in part only, so `Any`."""

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

_kafka: Any = import_module("confluent_kafka")
_admin: Any = import_module("confluent_kafka.admin")
PATIENCE_S = 60.0


class Stored(NamedTuple):
    """One record as it lies in a partition."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    timestamp_type: int


def create_topic(bootstrap: str, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Create a topic and return once every partition of it has a leader."""
    admin: Any = _admin.AdminClient({"bootstrap.servers": bootstrap})
    topic = _admin.NewTopic(name, partitions, 1, config=dict(config))
    admin.create_topics([topic])[name].result(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        described = admin.list_topics(name, timeout=PATIENCE_S).topics[name]
        found = described.partitions.values()
        if described.error is None and len(found) == partitions and all(each.leader >= 0 for each in found):
            return
        assert time.monotonic() < deadline, f"topic {name} has no leaders after {PATIENCE_S} s"
        time.sleep(0.02)


def read_log(bootstrap: str, topic: str, *, committed: bool = True) -> list[Stored]:
    """All records of a topic now, by partition and offset; with aborted ones if not `committed`."""
    consumer: Any = _kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    try:
        count = len(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
        consumer.assign([_kafka.TopicPartition(topic, index, 0) for index in range(count)])
        stored: list[Stored] = []
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < count:
            assert time.monotonic() < deadline, f"{topic}: the end was not reached after {PATIENCE_S} s"
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    stored.append(_stored(message))
                elif message.error().code() == _kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        return sorted(stored)
    finally:
        consumer.close()


def _stored(message: Any) -> Stored:
    kind, timestamp = message.timestamp()
    headers = tuple((name, content) for name, content in message.headers() or ())
    return Stored(
        message.partition(), message.offset(), message.key(), message.value(), headers, timestamp, kind - 1
    )


def values(bootstrap: str, topic: str, *, committed: bool = True) -> list[bytes]:
    """The values of all records of a topic now, sorted."""
    return sorted(record.value or b"" for record in read_log(bootstrap, topic, committed=committed))


def committed_offset(bootstrap: str, group: str, topic: str, partition: int) -> int | None:
    """The offset that a group has committed for a partition; None if it has none."""
    consumer: Any = _kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        [found] = consumer.committed([_kafka.TopicPartition(topic, partition)], timeout=PATIENCE_S)
        return found.offset if found.offset >= 0 else None
    finally:
        consumer.close()
