"""confluent-kafka: librdkafka, the C client, with a Python binding that is typed in part only, so `Any`."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from tests.conformance.clients.face import (
    Client,
    ClientError,
    ClusterSeen,
    Node,
    OffsetSpec,
    Operation,
    PartitionSeen,
)
from tests.conformance.clients.reading import ReadBack
from tests.conformance.scenarios import How, Read, Record, Traits

_kafka: Any = import_module("confluent_kafka")
_admin: Any = import_module("confluent_kafka.admin")
_TopicPartition: Any = _kafka.TopicPartition
_TIMEOUT_S = 20.0


class Confluent:
    """The client under test, with one admin handle kept open."""

    name = "confluent-kafka"
    traits = Traits()
    operations: frozenset[Operation] = frozenset(
        (
            "create_topic",
            "delete_topic",
            "describe_topic",
            "add_partitions",
            "alter_config",
            "describe_config",
            "delete_records",
            "list_offset",
            "list_max_timestamp",
            "describe_cluster",
        )
    )

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin: Any = _admin.AdminClient({"bootstrap.servers": bootstrap})

    def produce(self, topic: str, records: Sequence[Record], how: How) -> list[int | None]:
        """Write through one `Producer`."""
        producer: Any = _kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": how.codec,
                "acks": how.acks,
                "enable.idempotence": how.idempotent,
                "message.max.bytes": 1_048_588,
                "linger.ms": 5,
            }
        )
        offsets: list[int | None] = [None] * len(records)
        failures: list[str] = []

        def delivered(index: int, error: Any, message: Any) -> None:
            if error is not None:
                failures.append(f"record {index}: {error}")
            elif how.acks != 0:
                offsets[index] = message.offset()

        for index, record in enumerate(records):
            producer.produce(
                topic,
                partition=record.partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                timestamp=record.timestamp,
                on_delivery=partial(delivered, index),
            )
        left = producer.flush(_TIMEOUT_S)
        assert left == 0, f"{left} records were not delivered"
        assert not failures, failures
        return offsets

    def consume(self, topic: str, ends: Mapping[int, int], isolation: str = "read_committed") -> list[Read]:
        """Read with `assign`; a group id must be given, but nothing is committed."""
        consumer = self._consumer(isolation)
        try:
            consumer.assign(
                [_TopicPartition(topic, partition, _kafka.OFFSET_BEGINNING) for partition in ends]
            )
            back = ReadBack(ends)
            while not back.complete():
                if (got := consumer.poll(0.5)) is None:
                    continue
                if (error := got.error()) is not None:
                    raise ClientError(error.code(), error.str())
                back.add(_read(got))
            return back.records
        finally:
            consumer.close()

    def _consumer(self, isolation: str) -> Any:
        return _kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "conformance",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "auto.offset.reset": "error",
            }
        )

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = _admin.NewTopic(topic, partitions, 1, config=dict(configs))
        _wait(self._admin.create_topics([new]))

    def delete_topic(self, topic: str) -> None:
        _wait(self._admin.delete_topics([topic]))

    def describe_topic(self, topic: str) -> list[PartitionSeen]:
        # All topics are asked for: to ask for one by name would create it.
        seen = self._admin.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        if seen is None:
            raise ClientError(3, f"{topic} is not among the topics")
        return [
            PartitionSeen(number, each.leader, tuple(each.replicas), tuple(each.isrs))
            for number, each in sorted(seen.partitions.items())
        ]

    def describe_topic_partitions(self, topic: str) -> list[PartitionSeen]:
        raise NotImplementedError

    def add_partitions(self, topic: str, total: int) -> None:
        _wait(self._admin.create_partitions([_admin.NewPartitions(topic, total)]))

    def alter_config(self, topic: str, key: str, value: str) -> None:
        entry = _admin.ConfigEntry(key, value, incremental_operation=_admin.AlterConfigOpType.SET)
        resource = _admin.ConfigResource(_admin.ResourceType.TOPIC, topic, incremental_configs=[entry])
        _wait(self._admin.incremental_alter_configs([resource]))

    def describe_config(self, topic: str) -> dict[str, str | None]:
        (entries,) = _wait(
            self._admin.describe_configs([_admin.ConfigResource(_admin.ResourceType.TOPIC, topic)])
        )
        return {key: entry.value for key, entry in entries.items()}

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        (answer,) = _wait(self._admin.delete_records([_TopicPartition(topic, partition, before)]))
        low: int = answer.low_watermark
        return low

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        match spec:
            case "earliest":
                wanted = _admin.OffsetSpec.earliest()
            case "latest":
                wanted = _admin.OffsetSpec.latest()
            case "max_timestamp":
                wanted = _admin.OffsetSpec.max_timestamp()
            case moment:
                wanted = _admin.OffsetSpec.for_timestamp(moment)
        (answer,) = _wait(self._admin.list_offsets({_TopicPartition(topic, partition): wanted}))
        offset: int = answer.offset
        return offset

    def describe_cluster(self) -> ClusterSeen:
        with _translated():
            seen = self._admin.describe_cluster().result(_TIMEOUT_S)
        return ClusterSeen(seen.cluster_id, tuple(Node(node.id, node.host, node.port) for node in seen.nodes))

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the admin handle, with which librdkafka closes its connections."""
        self._admin = None


def _read(got: Any) -> Read:
    _, timestamp = got.timestamp()
    headers = tuple((key, value) for key, value in got.headers() or ())
    return Read(got.partition(), got.offset(), got.key(), got.value(), headers, timestamp)


def _wait(futures: Mapping[Any, Any]) -> list[Any]:
    deadline = time.monotonic() + _TIMEOUT_S
    with _translated():
        return [future.result(deadline - time.monotonic()) for future in futures.values()]


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except _kafka.KafkaException as error:
        raise ClientError(error.args[0].code(), error.args[0].str()) from error


def connect(bootstrap: str) -> Client:
    """A connected confluent-kafka."""
    return Confluent(bootstrap)
