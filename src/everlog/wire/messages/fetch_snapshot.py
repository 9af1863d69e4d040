# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""FetchSnapshotRequest and FetchSnapshotResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Records, Structure


class SnapshotId(Structure):
    __slots__ = ("end_offset", "epoch")

    def __init__(
        self,
        *,
        end_offset: int = 0,
        epoch: int = 0,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class RequestPartitionSnapshot(Structure):
    __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id")

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: SnapshotId = EMPTY,
        position: int = 0,
        replica_directory_id: Uuid = NO_UUID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is EMPTY else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class RequestTopicSnapshot(Structure):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[RequestPartitionSnapshot] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions: list[RequestPartitionSnapshot] = [] if partitions is EMPTY else partitions


class FetchSnapshotRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics")
    FAMILY: ClassVar[str] = "quorum"
    KEY: ClassVar[int | None] = 59

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[RequestTopicSnapshot] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics: list[RequestTopicSnapshot] = [] if topics is EMPTY else topics


class NodeEndpoint(Structure):
    __slots__ = ("node_id", "host", "port")

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class LeaderIdAndEpoch(Structure):
    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ResponsePartitionSnapshot(Structure):
    __slots__ = (
        "index",
        "error_code",
        "snapshot_id",
        "current_leader",
        "size",
        "position",
        "unaligned_records",
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: SnapshotId = EMPTY,
        current_leader: LeaderIdAndEpoch = EMPTY,
        size: int = 0,
        position: int = 0,
        unaligned_records: Records = b"",
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is EMPTY else snapshot_id
        self.current_leader: LeaderIdAndEpoch = (
            LeaderIdAndEpoch() if current_leader is EMPTY else current_leader
        )
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class ResponseTopicSnapshot(Structure):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ResponsePartitionSnapshot] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions: list[ResponsePartitionSnapshot] = [] if partitions is EMPTY else partitions


class FetchSnapshotResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints")
    FAMILY: ClassVar[str] = "quorum"
    KEY: ClassVar[int | None] = 59

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[ResponseTopicSnapshot] = EMPTY,
        node_endpoints: list[NodeEndpoint] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics: list[ResponseTopicSnapshot] = [] if topics is EMPTY else topics
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is EMPTY else node_endpoints
