# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""DeleteShareGroupStateRequest and DeleteShareGroupStateResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class PartitionData(Structure):
    __slots__ = ("partition",)

    def __init__(
        self,
        *,
        partition: int = 0,
    ) -> None:
        self.partition = partition


class DeleteStateData(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[PartitionData] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is EMPTY else partitions


class DeleteShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")
    FAMILY: ClassVar[str] = "shares"
    KEY: ClassVar[int | None] = 86

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DeleteStateData] = [] if topics is EMPTY else topics


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


class DeleteStateResult(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[PartitionResult] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is EMPTY else partitions


class DeleteShareGroupStateResponse(Message):
    __slots__ = ("results",)
    FAMILY: ClassVar[str] = "shares"
    KEY: ClassVar[int | None] = 86

    def __init__(
        self,
        *,
        results: list[DeleteStateResult] = EMPTY,
    ) -> None:
        self.results: list[DeleteStateResult] = [] if results is EMPTY else results
