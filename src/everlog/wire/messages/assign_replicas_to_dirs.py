# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""AssignReplicasToDirsRequest and AssignReplicasToDirsResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class RequestPartitionData(Structure):
    __slots__ = ("partition_index",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class RequestTopicData(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[RequestPartitionData] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[RequestPartitionData] = [] if partitions is EMPTY else partitions


class RequestDirectoryData(Structure):
    __slots__ = ("id", "topics")

    def __init__(
        self,
        *,
        id: Uuid = NO_UUID,
        topics: list[RequestTopicData] = EMPTY,
    ) -> None:
        self.id = id
        self.topics: list[RequestTopicData] = [] if topics is EMPTY else topics


class AssignReplicasToDirsRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "directories")
    FAMILY: ClassVar[str] = "cluster"
    KEY: ClassVar[int | None] = 73

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[RequestDirectoryData] = EMPTY,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories: list[RequestDirectoryData] = [] if directories is EMPTY else directories


class ResponsePartitionData(Structure):
    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class ResponseTopicData(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[ResponsePartitionData] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[ResponsePartitionData] = [] if partitions is EMPTY else partitions


class ResponseDirectoryData(Structure):
    __slots__ = ("id", "topics")

    def __init__(
        self,
        *,
        id: Uuid = NO_UUID,
        topics: list[ResponseTopicData] = EMPTY,
    ) -> None:
        self.id = id
        self.topics: list[ResponseTopicData] = [] if topics is EMPTY else topics


class AssignReplicasToDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "directories")
    FAMILY: ClassVar[str] = "cluster"
    KEY: ClassVar[int | None] = 73

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[ResponseDirectoryData] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories: list[ResponseDirectoryData] = [] if directories is EMPTY else directories
