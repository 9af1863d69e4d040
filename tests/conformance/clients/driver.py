"""Clients of other languages: a small driver program each, which takes and answers jobs as JSON lines.

The drivers only call their library; whatever is checked is checked in Python, once for all.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.clients.face import ClusterSeen, Node, OffsetSpec, Operation, PartitionSeen
from tests.conformance.clients.process import DriverProcess
from tests.conformance.scenarios import How, Read, Record, Traits

ALL_OPERATIONS: frozenset[Operation] = frozenset(
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


class DrivenClient:
    """A client behind a driver process, which lives until closed."""

    def __init__(
        self, name: str, command: Sequence[str], traits: Traits, operations: frozenset[Operation], log: Path
    ) -> None:
        self.name = name
        self.traits = traits
        self.operations = operations
        self._driver = DriverProcess(name, command, log)

    def _call(self, op: str, **job: Any) -> Any:
        return self._driver.call(op, **job)

    def connect(self, bootstrap: str) -> None:
        """Name the cluster that all later jobs go to."""
        self._call("connect", bootstrap=bootstrap)

    def produce(self, topic: str, records: Sequence[Record], how: How) -> list[int | None]:
        job = [
            {
                "partition": record.partition,
                "key": _coded(record.key),
                "value": _coded(record.value),
                "headers": [[name, _coded(value)] for name, value in record.headers],
                "timestamp": record.timestamp,
            }
            for record in records
        ]
        offsets: list[int | None] = self._call(
            "produce", topic=topic, records=job, codec=how.codec, acks=how.acks, idempotent=how.idempotent
        )
        return [None if how.acks == 0 else offset for offset in offsets]

    def consume(self, topic: str, ends: Mapping[int, int], isolation: str = "read_committed") -> list[Read]:
        job = {str(partition): end for partition, end in ends.items()}
        return [
            Read(
                each["partition"],
                each["offset"],
                _decoded(each["key"]),
                _decoded(each["value"]),
                tuple((name, _decoded(value)) for name, value in each["headers"]),
                each["timestamp"],
            )
            for each in self._call("consume", topic=topic, ends=job, isolation=isolation)
        ]

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._call("create_topic", topic=topic, partitions=partitions, configs=dict(configs))

    def delete_topic(self, topic: str) -> None:
        self._call("delete_topic", topic=topic)

    def describe_topic(self, topic: str) -> list[PartitionSeen]:
        return self._partitions("describe_topic", topic)

    def describe_topic_partitions(self, topic: str) -> list[PartitionSeen]:
        return self._partitions("describe_topic_partitions", topic)

    def _partitions(self, op: str, topic: str) -> list[PartitionSeen]:
        return sorted(
            (
                PartitionSeen(each["partition"], each["leader"], tuple(each["replicas"]), tuple(each["isr"]))
                for each in self._call(op, topic=topic)
            ),
            key=lambda partition: partition.partition,
        )

    def add_partitions(self, topic: str, total: int) -> None:
        self._call("add_partitions", topic=topic, total=total)

    def alter_config(self, topic: str, key: str, value: str) -> None:
        self._call("alter_config", topic=topic, key=key, value=value)

    def describe_config(self, topic: str) -> dict[str, str | None]:
        found: dict[str, str | None] = self._call("describe_config", topic=topic)
        return found

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        low: int = self._call("delete_records", topic=topic, partition=partition, before=before)
        return low

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        offset: int = self._call("list_offset", topic=topic, partition=partition, spec=spec)
        return offset

    def describe_cluster(self) -> ClusterSeen:
        seen = self._call("describe_cluster")
        return ClusterSeen(seen["cluster_id"], tuple(Node(**node) for node in seen["nodes"]))

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        found: dict[str, int] = self._call("describe_log_dirs", topic=topic)
        return {int(partition): size for partition, size in found.items()}

    def close(self) -> None:
        """Let the driver end at the end of its input."""
        self._driver.close()


def _coded(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _decoded(value: str | None) -> bytes | None:
    return None if value is None else b64decode(value)
