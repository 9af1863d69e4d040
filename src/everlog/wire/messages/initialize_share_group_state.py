# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""InitializeShareGroupStateRequest and InitializeShareGroupStateResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class PartitionData(Structure):
    __slots__ = ("partition", "state_epoch", "start_offset")

    def __init__(
        self,
        *,
        partition: int = 0,
        state_epoch: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.start_offset = start_offset


class InitializeStateData(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[PartitionData] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is EMPTY else partitions


class InitializeShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")
    FAMILY: ClassVar[str] = "shares"
    KEY: ClassVar[int | None] = 83

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[InitializeStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics: list[InitializeStateData] = [] if topics is EMPTY else topics


class PartitionResult(Structure):
    __slots__ = ("partition", "error_code", "error_message")

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class InitializeStateResult(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[PartitionResult] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is EMPTY else partitions


class InitializeShareGroupStateResponse(Message):
    __slots__ = ("results",)
    FAMILY: ClassVar[str] = "shares"
    KEY: ClassVar[int | None] = 83

    def __init__(
        self,
        *,
        results: list[InitializeStateResult] = EMPTY,
    ) -> None:
        self.results: list[InitializeStateResult] = [] if results is EMPTY else results
