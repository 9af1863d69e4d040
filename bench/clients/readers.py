"""Programs that read: all partitions from the beginning, without a group, each client with its defaults.

Each looks at every record's value and returns how many records it has seen and the bytes of their values.
The clock runs from the first record on: how long a client takes to find its partitions is another question.
"""

import asyncio
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.clients.bare import bare_fetch
from bench.clients.jobs import Job
from bench.clients.watch import Stopwatch

_LIMIT_S = 120.0
Seen = tuple[int, int]


def everlog_iterate(job: Job, watch: Stopwatch) -> Seen:
    """for record in consumer."""
    with _everlog_consumer(job) as consumer:
        first = next(consumer)
        watch.start()
        count, size = 1, len(first.value)
        for record in consumer:
            count += 1
            size += len(record.value)
            if count == job.count:
                break
        watch.stop()
    return count, size


def everlog_poll(job: Job, watch: Stopwatch) -> Seen:
    """for record in consumer.poll()."""
    with _everlog_consumer(job) as consumer:
        count = size = 0
        records = consumer.poll(_LIMIT_S)
        watch.start()
        while records:
            for record in records:
                size += len(record.value)
            count += len(records)
            if count >= job.count:
                break
            records = consumer.poll(_LIMIT_S)
        watch.stop()
    return count, size


def everlog_poll_arrow(job: Job, watch: Stopwatch) -> Seen:
    """Columns; the lengths of the values are summed up by pyarrow."""
    compute: Any = import_module("pyarrow.compute")  # It has no types.
    return _poll_columns(job, watch, lambda column: compute.sum(compute.binary_length(column)).as_py())


def everlog_poll_views(job: Job, watch: Stopwatch) -> Seen:
    """Columns with values as views; numpy sums up the lengths, which are every fourth number of the views."""
    numpy: Any = import_module("numpy")
    return _poll_columns(
        job,
        watch,
        lambda column: int(numpy.frombuffer(column.buffers()[1], numpy.int32)[::4].sum(dtype=numpy.int64)),
        views=True,
    )


def _poll_columns(job: Job, watch: Stopwatch, length: Callable[[Any], int], **options: bool) -> Seen:
    with _everlog_consumer(job) as consumer:
        count = size = 0
        batch = consumer.poll_arrow(_LIMIT_S, **options)
        watch.start()
        while batch.num_rows:
            size += length(batch.column("value"))
            count += batch.num_rows
            if count >= job.count:
                break
            batch = consumer.poll_arrow(_LIMIT_S, **options)
        watch.stop()
    return count, size


def _everlog_consumer(job: Job) -> Any:
    from everlog.client.sync.consumer import Consumer

    consumer = Consumer(job.bootstrap, auto_offset_reset="earliest")
    consumer.assign([(job.topic, partition) for partition in range(job.partitions)])
    return consumer


def confluent_poll(job: Job, watch: Stopwatch) -> Seen:
    """message = consumer.poll()."""
    consumer = _confluent_consumer(job)
    deadline = time.monotonic() + _LIMIT_S
    while (message := consumer.poll(1.0)) is None or message.error() is not None:
        _check(deadline)
    watch.start()
    count, size = 1, len(message.value() or b"")
    while count < job.count:
        message = consumer.poll(1.0)
        if message is None or message.error() is not None:
            _check(deadline)
            continue
        count += 1
        size += len(message.value() or b"")
    watch.stop()
    consumer.close()
    return count, size


def confluent_consume(job: Job, watch: Stopwatch) -> Seen:
    """messages = consumer.consume(500)."""
    consumer = _confluent_consumer(job)
    deadline = time.monotonic() + _LIMIT_S
    messages = consumer.consume(500, 1.0)
    while not messages:
        _check(deadline)
        messages = consumer.consume(500, 1.0)
    watch.start()
    count = size = 0
    while True:
        for message in messages:
            if message.error() is None:
                count += 1
                size += len(message.value() or b"")
        if count >= job.count:
            break
        messages = consumer.consume(min(500, job.count - count), 1.0)
        _check(deadline)
    watch.stop()
    consumer.close()
    return count, size


def _confluent_consumer(job: Job) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": job.bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign(
        [TopicPartition(job.topic, partition, OFFSET_BEGINNING) for partition in range(job.partitions)]
    )
    return consumer


def kafka_python_iterate(job: Job, watch: Stopwatch) -> Seen:
    """for record in consumer."""
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition

    consumer: Any = KafkaConsumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(job.topic, partition) for partition in range(job.partitions)])
    first = next(consumer)
    watch.start()
    count, size = 1, len(first.value)
    for record in consumer:
        count += 1
        size += len(record.value)
        if count == job.count:
            break
    watch.stop()
    consumer.close()
    return count, size


def aiokafka_iterate(job: Job, watch: Stopwatch) -> Seen:
    """async for record in consumer."""
    return asyncio.run(_aiokafka_iterate(job, watch))


async def _aiokafka_iterate(job: Job, watch: Stopwatch) -> Seen:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer: Any = AIOKafkaConsumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(job.topic, partition) for partition in range(job.partitions)])
    first = await consumer.getone()
    watch.start()
    count, size = 1, len(first.value)
    async for record in consumer:
        count += 1
        size += len(record.value)
        if count == job.count:
            break
    watch.stop()
    await consumer.stop()
    return count, size


def _check(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"no more records came within {_LIMIT_S:.0f} s")


READERS: dict[str, Callable[[Job, Stopwatch], Seen]] = {
    "everlog iterate": everlog_iterate,
    "everlog poll": everlog_poll,
    "everlog poll_arrow": everlog_poll_arrow,
    "everlog poll_arrow, views": everlog_poll_views,
    "confluent poll": confluent_poll,
    "confluent consume(500)": confluent_consume,
    "kafka-python iterate": kafka_python_iterate,
    "aiokafka iterate": aiokafka_iterate,
    "bare socket, fetch": bare_fetch,
}
