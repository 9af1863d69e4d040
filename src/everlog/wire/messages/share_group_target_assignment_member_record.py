# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ShareGroupTargetAssignmentMemberKey and ShareGroupTargetAssignmentMemberValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class ShareGroupTargetAssignmentMemberKey(Message):
    __slots__ = ("group_id", "member_id")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 13

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class TopicPartition(Structure):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is EMPTY else partitions


class ShareGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("topic_partitions",)
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 13

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartition] = EMPTY,
    ) -> None:
        self.topic_partitions: list[TopicPartition] = [] if topic_partitions is EMPTY else topic_partitions
