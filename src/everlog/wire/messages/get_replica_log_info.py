# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""GetReplicaLogInfoRequest and GetReplicaLogInfoResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class LogInfoTopic(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is EMPTY else partitions


class GetReplicaLogInfoRequest(Message):
    __slots__ = ("topic_partitions",)
    FAMILY: ClassVar[str] = "partitions"
    KEY: ClassVar[int | None] = 10093

    def __init__(
        self,
        *,
        topic_partitions: list[LogInfoTopic] | None = EMPTY,
    ) -> None:
        self.topic_partitions: list[LogInfoTopic] | None = (
            [] if topic_partitions is EMPTY else topic_partitions
        )


class PartitionLogInfo(Structure):
    __slots__ = (
        "partition",
        "last_written_leader_epoch",
        "current_leader_epoch",
        "log_end_offset",
        "error_code",
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        last_written_leader_epoch: int = 0,
        current_leader_epoch: int = 0,
        log_end_offset: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition = partition
        self.last_written_leader_epoch = last_written_leader_epoch
        self.current_leader_epoch = current_leader_epoch
        self.log_end_offset = log_end_offset
        self.error_code = error_code


class TopicPartitionLogInfo(Structure):
    __slots__ = ("topic_id", "partition_log_info")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partition_log_info: list[PartitionLogInfo] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partition_log_info: list[PartitionLogInfo] = (
            [] if partition_log_info is EMPTY else partition_log_info
        )


class GetReplicaLogInfoResponse(Message):
    __slots__ = ("throttle_time_ms", "broker_epoch", "truncated", "topic_partition_log_info_list")
    FAMILY: ClassVar[str] = "partitions"
    KEY: ClassVar[int | None] = 10093

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        broker_epoch: int = 0,
        truncated: bool = False,
        topic_partition_log_info_list: list[TopicPartitionLogInfo] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.broker_epoch = broker_epoch
        self.truncated = truncated
        self.topic_partition_log_info_list: list[TopicPartitionLogInfo] = (
            [] if topic_partition_log_info_list is EMPTY else topic_partition_log_info_list
        )
