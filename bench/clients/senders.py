"""Programs that send: `count` values without a key, with acks=all and linger.ms=5, else with defaults.

Ours has idempotence on by default, as Kafka's Java client has; the others do not. Each returns how many
records it was told are delivered.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.clients.bare import bare_send
from bench.clients.jobs import Job
from bench.clients.watch import Stopwatch

WARM_UP = 1000
"""Records before the clock runs: connections are made, the topic is known."""


def everlog_send(job: Job, watch: Stopwatch) -> int:
    """Each record has a future."""
    from everlog.client.sync.producer import Producer

    value = bytes(job.size)
    with Producer(job.bootstrap) as producer:
        _each(WARM_UP, lambda: producer.send(job.topic, value))
        producer.flush()
        watch.start()
        send, topic = producer.send, job.topic
        delivery = send(topic, value)
        for _ in range(job.count - 1):
            delivery = send(topic, value)
        producer.flush()
        watch.stop()
        assert delivery.result(0).offset >= 0
        return producer.metrics()["records_delivered"] - WARM_UP


def everlog_send_callback(job: Job, watch: Stopwatch) -> int:
    """Each record has a callback, which counts."""
    from everlog.client.sync.producer import Producer

    value = bytes(job.size)
    delivered = 0

    def on_delivery(_metadata: object, error: Exception | None) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1

    with Producer(job.bootstrap) as producer:
        _each(WARM_UP, lambda: producer.send(job.topic, value))
        producer.flush()
        watch.start()
        send, topic = producer.send, job.topic
        for _ in range(job.count):
            send(topic, value, on_delivery=on_delivery)
        producer.flush()
        watch.stop()
    return delivered


def everlog_send_arrow(job: Job, watch: Stopwatch) -> int:
    """Tables of 100,000 rows."""
    from everlog.client.sync.producer import Producer

    rows = min(100_000, job.count)
    pa: Any = import_module("pyarrow")  # It has no types.
    table = pa.table({"value": pa.array([bytes(job.size)] * rows, pa.binary())})
    with Producer(job.bootstrap) as producer:
        producer.send_arrow(job.topic, table.slice(0, WARM_UP)).result()
        watch.start()
        left, deliveries = job.count, list[Any]()
        while left:
            part = table.slice(0, min(rows, left))
            deliveries.append(producer.send_arrow(job.topic, part))
            left -= part.num_rows
        producer.flush()
        watch.stop()
        return sum(int(batch.record_count) for delivery in deliveries for batch in delivery.result(0))


def confluent_produce(job: Job, watch: Stopwatch) -> int:
    """Each record has a callback; poll(0) after each one serves them, as its documentation has it."""
    from confluent_kafka import Producer

    value = bytes(job.size)
    delivered = 0

    def on_delivery(error: object, _message: object) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1

    conf: dict[str, Any] = {"bootstrap.servers": job.bootstrap, "acks": "all", "linger.ms": 5}
    producer = Producer(conf)
    _each(WARM_UP, lambda: producer.produce(job.topic, value))
    producer.flush()
    watch.start()
    produce, poll, topic = producer.produce, producer.poll, job.topic
    for _ in range(job.count):
        try:
            produce(topic, value, on_delivery=on_delivery)
        except BufferError:
            while True:
                poll(0.001)
                try:
                    produce(topic, value, on_delivery=on_delivery)
                    break
                except BufferError:
                    continue
        poll(0)
    producer.flush()
    watch.stop()
    return delivered


def kafka_python_send(job: Job, watch: Stopwatch) -> int:
    """Each record has a future."""
    from kafka import KafkaProducer

    value = bytes(job.size)
    producer: Any = KafkaProducer(bootstrap_servers=job.bootstrap, acks="all", linger_ms=5)
    _each(WARM_UP, lambda: producer.send(job.topic, value))
    producer.flush()
    watch.start()
    futures = [producer.send(job.topic, value) for _ in range(job.count)]
    producer.flush()
    watch.stop()
    delivered = sum(1 for future in futures if future.succeeded())
    producer.close()
    return delivered


def aiokafka_send(job: Job, watch: Stopwatch) -> int:
    """Each record has a future."""
    return asyncio.run(_aiokafka_send(job, watch))


async def _aiokafka_send(job: Job, watch: Stopwatch) -> int:
    from aiokafka import AIOKafkaProducer

    value = bytes(job.size)
    producer: Any = AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks="all", linger_ms=5)
    await producer.start()
    await asyncio.gather(*[await producer.send(job.topic, value) for _ in range(WARM_UP)])
    watch.start()
    futures = [await producer.send(job.topic, value) for _ in range(job.count)]
    await producer.flush()
    watch.stop()
    delivered = sum(1 for future in futures if future.done() and future.exception() is None)
    await producer.stop()
    return delivered


def _each(count: int, call: Callable[[], object]) -> None:
    for _ in range(count):
        call()


SENDERS: dict[str, Callable[[Job, Stopwatch], int]] = {
    "everlog send": everlog_send,
    "everlog send, callback": everlog_send_callback,
    "everlog send_arrow": everlog_send_arrow,
    "confluent produce, callback": confluent_produce,
    "kafka-python send": kafka_python_send,
    "aiokafka send": aiokafka_send,
    "bare socket, send": bare_send,
}
