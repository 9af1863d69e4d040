"""kafka-python, the pure Python client. It ships no types, so its modules come in as `Any`."""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
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
from tests.conformance.scenarios import CODECS, How, Read, Record, Traits

_kafka: Any = import_module("kafka")
_admin: Any = import_module("kafka.admin")
_codec: Any = import_module("kafka.codec")
_errors: Any = import_module("kafka.errors")
_TopicPartition: Any = _kafka.TopicPartition

_SPECS = {"earliest": -2, "latest": -1, "max_timestamp": -3}


def _codecs() -> tuple[str, ...]:
    return tuple(codec for codec in CODECS if codec == "none" or getattr(_codec, f"has_{codec}")())


class KafkaPython:
    """The client under test, with one admin connection kept open."""

    name = "kafka-python"
    traits = Traits(codecs=_codecs(), null_headers=False)
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
            "describe_log_dirs",
            "describe_topic_partitions",
        )
    )

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin: Any = _admin.KafkaAdminClient(bootstrap_servers=bootstrap)

    def produce(self, topic: str, records: Sequence[Record], how: How) -> list[int | None]:
        """Write through one `KafkaProducer`, closed at the end."""
        producer: Any = _kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if how.codec == "none" else how.codec,
            acks="all" if how.acks == -1 else how.acks,
            enable_idempotence=how.idempotent,
            linger_ms=5,
            max_request_size=1_048_588,
        )
        try:
            futures: list[Any] = [
                producer.send(
                    topic,
                    partition=record.partition,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            producer.flush(timeout=30)
            offsets: list[int] = [future.get(timeout=30).offset for future in futures]
        finally:
            producer.close(timeout=10)
        return [None if how.acks == 0 else offset for offset in offsets]

    def consume(self, topic: str, ends: Mapping[int, int], isolation: str = "read_committed") -> list[Read]:
        """Read with `assign` and `poll`."""
        consumer: Any = _kafka.KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            enable_auto_commit=False,
            isolation_level=isolation,
            auto_offset_reset="earliest",
        )
        try:
            consumer.assign([_TopicPartition(topic, partition) for partition in ends])
            consumer.seek_to_beginning()
            back = ReadBack(ends)
            while not back.complete():
                for page in consumer.poll(timeout_ms=500).values():
                    for got in page:
                        headers = tuple((key, value) for key, value in got.headers)
                        back.add(Read(got.partition, got.offset, got.key, got.value, headers, got.timestamp))
            return back.records
        finally:
            consumer.close(autocommit=False)

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        with _translated():
            self._admin.create_topics(
                {topic: {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}}
            )

    def delete_topic(self, topic: str) -> None:
        with _translated():
            self._admin.delete_topics([topic])

    def describe_topic(self, topic: str) -> list[PartitionSeen]:
        (seen,) = self._admin.describe_topics([topic])
        return _partitions(seen)

    def describe_topic_partitions(self, topic: str) -> list[PartitionSeen]:
        (seen,) = self._admin.describe_topic_partitions([topic])["topics"]
        return _partitions(seen)

    def add_partitions(self, topic: str, total: int) -> None:
        with _translated():
            self._admin.create_partitions({topic: total})

    def alter_config(self, topic: str, key: str, value: str) -> None:
        resource = _admin.ConfigResource(_admin.ConfigResourceType.TOPIC, topic, configs={key: value})
        with _translated():
            answer: Any = self._admin.alter_configs([resource], raise_on_unknown=False)
        # It reports the outcome as text: "OK", or an error with its number.
        outcome = str(answer["topic"][topic])
        if outcome != "OK":
            number = re.search(r"Error (\d+)", outcome)
            raise ClientError(int(number[1]) if number else -1, outcome)

    def describe_config(self, topic: str) -> dict[str, str | None]:
        resource = _admin.ConfigResource(_admin.ConfigResourceType.TOPIC, topic)
        with _translated():
            found: Any = self._admin.describe_configs([resource], config_filter="all")
        return {key: entry["value"] for key, entry in found["topic"][topic].items()}

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        where = _TopicPartition(topic, partition)
        with _translated():
            answer: Any = self._admin.delete_records({where: before})
        low: int = answer[where]["low_watermark"]
        return low

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        where = _TopicPartition(topic, partition)
        with _translated():
            answer: Any = self._admin.list_partition_offsets(
                {where: spec if isinstance(spec, int) else _SPECS[spec]}
            )
        offset: int = answer[where].offset
        return offset

    def describe_cluster(self) -> ClusterSeen:
        seen: Any = self._admin.describe_cluster()
        nodes = tuple(Node(node["broker_id"], node["host"], node["port"]) for node in seen["brokers"])
        return ClusterSeen(seen["cluster_id"], nodes)

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        sizes: dict[int, int] = {}
        for broker in self._admin.describe_log_dirs([topic]):
            for directory in broker["log_dirs"]:
                for found in directory["topics"]:
                    for partition in found["partitions"]:
                        sizes[partition["partition_index"]] = partition["partition_size"]
        return sizes

    def close(self) -> None:
        """Close the admin connection."""
        self._admin.close()


def _partitions(topic: Any) -> list[PartitionSeen]:
    if topic["error_code"]:
        raise ClientError(topic["error_code"], "describe")
    return sorted(
        (
            PartitionSeen(
                partition["partition_index"],
                partition["leader_id"],
                tuple(partition["replica_nodes"]),
                tuple(partition["isr_nodes"]),
            )
            for partition in topic["partitions"]
        ),
        key=lambda partition: partition.partition,
    )


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except _errors.BrokerResponseError as error:
        raise ClientError(getattr(error, "errno", -1), str(error)) from error


def connect(bootstrap: str) -> Client:
    """A connected kafka-python."""
    return KafkaPython(bootstrap)
