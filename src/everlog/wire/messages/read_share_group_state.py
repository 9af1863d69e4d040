# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ReadShareGroupStateRequest and ReadShareGroupStateResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class PartitionData(Structure):
    __slots__ = ("partition", "leader_epoch")

    def __init__(
        self,
        *,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateData(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[PartitionData] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is EMPTY else partitions


class ReadShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")
    FAMILY: ClassVar[str] = "shares"
    KEY: ClassVar[int | None] = 84

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[ReadStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics: list[ReadStateData] = [] if topics is EMPTY else topics


class StateBatch(Structure):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class PartitionResult(Structure):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches")

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[StateBatch] = EMPTY,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches: list[StateBatch] = [] if state_batches is EMPTY else state_batches


class ReadStateResult(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[PartitionResult] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is EMPTY else partitions


class ReadShareGroupStateResponse(Message):
    __slots__ = ("results",)
    FAMILY: ClassVar[str] = "shares"
    KEY: ClassVar[int | None] = 84

    def __init__(
        self,
        *,
        results: list[ReadStateResult] = EMPTY,
    ) -> None:
        self.results: list[ReadStateResult] = [] if results is EMPTY else results
