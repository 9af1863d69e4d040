"""Members of groups and writers of transactions, over confluent-kafka, for tests of the command line."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from confluent_kafka import Consumer, Message, Producer

from tests.e2e.clients import TIMEOUT_S


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: str, **settings: object) -> Generator[Consumer]:
    """A member that reads from the start, commits nothing by itself, and has been given partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": f"member-{protocol}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


def poll(consumer: Consumer, count: int) -> list[Message]:
    """The next records; fewer than `count` within the time-out are a failure."""
    found: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records within {TIMEOUT_S} s"
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
    return found


@contextmanager
def open_transaction(
    bootstrap: str, transactional_id: str, topic: str, count: int = 3
) -> Generator[Producer]:
    """A producer that has written to partition 0 in a transaction which is still open."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,  # To be fenced is part of these tests.
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, b"in transaction %d" % number, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    yield producer
