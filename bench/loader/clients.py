"""A real client for comparison with the raw loaders: confluent-kafka with its default settings."""

import random
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.loader.batches import VALUE_BYTES
from bench.loader.jobs import ClientConsumeJob, ClientProduceJob, Outcome

_LIMIT_S = 120.0


class ClientProduceLoad:
    """A producer that is connected and has sent one record."""

    def __init__(self, job: ClientProduceJob) -> None:
        self._job = job
        self._producer = Producer({"bootstrap.servers": f"127.0.0.1:{job.port}"})
        self._value = random.Random(1).randbytes(VALUE_BYTES)
        self._producer.produce(job.topic, self._value)
        self._flush()

    def run(self) -> Outcome:
        """Return `records`, `bytes` (of values) and `seconds`, all acknowledged."""
        producer, value, topic = self._producer, self._value, self._job.topic
        failed: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        started = time.perf_counter()
        for _ in range(self._job.records):
            while True:
                try:
                    producer.produce(topic, value, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.01)
        self._flush()
        seconds = time.perf_counter() - started
        if failed:
            raise RuntimeError(f"{len(failed)} records were not delivered, the first for {failed[0]}")
        return {
            "records": self._job.records,
            "bytes": float(self._job.records * VALUE_BYTES),
            "seconds": seconds,
        }

    def _flush(self) -> None:
        if left := self._producer.flush(_LIMIT_S):
            raise RuntimeError(f"{left} records were not acknowledged within {_LIMIT_S} s")


class ClientConsumeLoad:
    """A consumer that has partition 0 assigned from its start."""

    def __init__(self, job: ClientConsumeJob) -> None:
        self._job = job
        self._consumer = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{job.port}",
                "group.id": "bench",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )

    def run(self) -> Outcome:
        """Return `records`, `bytes` (of values) and `seconds`, the connection included."""
        started = time.perf_counter()
        self._consumer.assign([TopicPartition(self._job.topic, 0, 0)])
        count = size = 0
        while count < self._job.records:
            if time.perf_counter() - started > _LIMIT_S:
                raise RuntimeError(f"{count} of {self._job.records} records in {_LIMIT_S} s")
            for message in self._consumer.consume(500, 1.0):
                if error := message.error():
                    raise KafkaException(error)
                value = message.value()
                size += len(value) if value is not None else 0
                count += 1
        seconds = time.perf_counter() - started
        self._consumer.close()
        return {"records": count, "bytes": float(size), "seconds": seconds}
