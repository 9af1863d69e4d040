"""A member of a group as a process of its own, which can be killed: `python -m tests.e2e.group_member`.

It prints a line for each assignment (`has 0 1`) and for each value that it reads (`read <value>`), and ends,
leaving the group, on SIGTERM.
"""

import signal
import sys
from importlib import import_module
from typing import Any

HEARTBEAT_MS = 500

_stop = False


def _on_signal(_number: int, _frame: object) -> None:
    global _stop
    _stop = True


def _say(*words: object) -> None:
    print(*words, flush=True)


def _has(partitions: Any) -> None:
    _say("has", *sorted(one.partition for one in partitions))


def consume_with_confluent(bootstrap: str, topic: str, session_ms: int) -> None:
    """Read with librdkafka until told to stop."""
    kafka: Any = import_module("confluent_kafka")
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "group",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.commit.interval.ms": 200,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )

    def on_assign(_consumer: Any, partitions: Any) -> None:
        _has(partitions)

    def on_revoke(_consumer: Any, _partitions: Any) -> None:
        _say("gives up")

    consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke)
    while not _stop:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            _say("read", message.value().decode())
    consumer.close()


def consume_with_kafka_python(bootstrap: str, topic: str, session_ms: int) -> None:
    """Read with kafka-python until told to stop."""
    kafka: Any = import_module("kafka")

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
        def on_partitions_assigned(self, assigned: Any) -> None:
            _has(assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            _say("gives up")

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id="group",
        auto_offset_reset="earliest",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_commit_interval_ms=200,
        partition_assignment_strategy=[
            import_module("kafka.coordinator.assignors.range").RangePartitionAssignor
        ],
    )
    consumer.subscribe([topic], listener=Listener())
    while not _stop:
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                _say("read", record.value.decode())
    consumer.close()


CLIENTS = {"confluent-kafka": consume_with_confluent, "kafka-python": consume_with_kafka_python}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _on_signal)
    CLIENTS[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
