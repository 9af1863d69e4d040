"""What the tests ask of a client. An operation that the client's own API lacks is not in its `operations`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tests.conformance.scenarios import How, Read, Record, Traits

Operation = Literal[
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
]
OffsetSpec = Literal["earliest", "latest", "max_timestamp"] | int
"""Which offset to look up; an int is a timestamp in milliseconds."""


class ClientError(Exception):
    """The client reported this protocol error code for the operation."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as a client sees it."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """The answer to "what is this cluster"; the id is None where the client does not tell it."""

    cluster_id: str | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """A partition as a client sees it; offsets and topics are checked elsewhere."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Client(Protocol):
    """One client library, connected to one cluster until closed."""

    name: str
    traits: Traits
    operations: frozenset[Operation]

    def produce(self, topic: str, records: Sequence[Record], how: How) -> list[int | None]:
        """Write the records in order and wait for them; return the offsets that the client tells."""
        ...

    def consume(self, topic: str, ends: Mapping[int, int], isolation: str = "read_committed") -> list[Read]:
        """Read partitions by `assign`, from the start up to the end offsets given, in the order they came."""
        ...

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic with one replica, or raise `ClientError`."""
        ...

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, or raise `ClientError`."""
        ...

    def describe_topic(self, topic: str) -> list[PartitionSeen]:
        """Describe the partitions, in order, or raise `ClientError`."""
        ...

    def describe_topic_partitions(self, topic: str) -> list[PartitionSeen]:
        """The same by the paging API (key 75)."""
        ...

    def add_partitions(self, topic: str, total: int) -> None:
        """Grow the topic to `total` partitions, or raise `ClientError`."""
        ...

    def alter_config(self, topic: str, key: str, value: str) -> None:
        """Set one config of the topic, or raise `ClientError`."""
        ...

    def describe_config(self, topic: str) -> dict[str, str | None]:
        """All configs of the topic with their values."""
        ...

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records before an offset and return the new log start offset, or raise `ClientError`."""
        ...

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        """Look an offset up; -1 where the broker has none for that time."""
        ...

    def describe_cluster(self) -> ClusterSeen:
        """The cluster's id and its brokers."""
        ...

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        """The bytes on disk of each partition of the topic."""
        ...

    def close(self) -> None:
        """Let go of connections and processes."""
        ...
