"""What the tests of real processes ask of a client, over confluent-kafka."""

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TIMEOUT_S = 20.0


def create_topic(
    bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Make a topic and wait until the broker says that it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, partitions, 1, config=dict(configs or {}))
    # The library's types leave out what the futures hold.
    made = cast("dict[str, Future[None]]", admin.create_topics([topic]))  # pyright: ignore[reportUnknownMemberType]
    made[name].result(TIMEOUT_S)


class OneShot:
    """A producer that sends each record once, and says what became of it."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 0,
                "retries": 0,
                "enable.idempotence": False,
                "message.max.bytes": 4_000_000,
                "log_level": 0,  # Brokers that go away are part of these tests.
                **settings,
            }
        )

    def send(self, topic: str, value: bytes, partition: int = 0) -> KafkaError | None:
        """Send one record and wait; None if it was acknowledged."""
        ended = threading.Event()
        error: list[KafkaError | None] = [None]

        def told(problem: KafkaError | None, message: Message) -> None:
            error[0] = problem
            ended.set()

        self._producer.produce(topic, value, partition=partition, on_delivery=told)
        deadline = time.monotonic() + TIMEOUT_S
        while not ended.is_set():
            self._producer.poll(0.1)
            assert time.monotonic() < deadline, f"no word of a record within {TIMEOUT_S} s"
        return error[0]

    def send_all(self, topic: str, values: Iterable[tuple[int, bytes]]) -> None:
        """Send records to partitions, all at once, and wait until all are acknowledged."""
        problems: list[KafkaError] = []

        def told(problem: KafkaError | None, message: Message) -> None:
            if problem is not None:
                problems.append(problem)

        for partition, value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=told)
        left = self._producer.flush(TIMEOUT_S)
        assert (left, problems[:1]) == (0, [])


def read_all(bootstrap: str, topic: str, partition: int = 0) -> list[bytes]:
    """The values of all records of a partition, from its beginning to where it ends now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(topic, partition, start)])
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            problem = message.error()
            if problem is None:
                values.append(message.value() or b"")
            elif problem.code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise KafkaException(problem)
        raise AssertionError(f"the end of {topic}-{partition} was not reached within {TIMEOUT_S} s")
    finally:
        consumer.close()
