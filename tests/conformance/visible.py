"""What a partition shows to readers of either isolation level, up to where the broker says that it ends."""

import time
from importlib import import_module
from typing import Any, Literal

Isolation = Literal["read_committed", "read_uncommitted"]

_kafka: Any = import_module("confluent_kafka")


def values_of(bootstrap: str, topic: str, partitions: int, isolation: Isolation) -> list[str]:
    """The values of all records that can be seen now, sorted; for the committed, those below any open one."""
    consumer: Any = _kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "visible",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        }
    )
    found: list[str] = []
    waiting = set(range(partitions))
    deadline = time.monotonic() + 60.0
    try:
        consumer.assign([_kafka.TopicPartition(topic, each, _kafka.OFFSET_BEGINNING) for each in waiting])
        while waiting:
            assert time.monotonic() < deadline, f"{topic}: no end of {sorted(waiting)}"
            got: Any = consumer.poll(0.5)
            if got is None:
                continue
            error: Any = got.error()
            if error is None:
                found.append(got.value().decode())
            elif error.code() == _kafka.KafkaError._PARTITION_EOF:
                waiting.discard(got.partition())
            else:
                raise _kafka.KafkaException(error)
    finally:
        consumer.close()
    return sorted(found)
