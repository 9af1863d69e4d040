# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ShareGroupStatePartitionMetadataKey and ShareGroupStatePartitionMetadataValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class ShareGroupStatePartitionMetadataKey(Message):
    __slots__ = ("group_id",)
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 15

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class TopicInfo(Structure):
    __slots__ = ("topic_id", "topic_name")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        topic_name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name


class TopicPartitionsInfo(Structure):
    __slots__ = ("topic_id", "topic_name", "partitions")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        topic_name: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions: list[int] = [] if partitions is EMPTY else partitions


class ShareGroupStatePartitionMetadataValue(Message):
    __slots__ = ("initializing_topics", "initialized_topics", "deleting_topics")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 15

    def __init__(
        self,
        *,
        initializing_topics: list[TopicPartitionsInfo] = EMPTY,
        initialized_topics: list[TopicPartitionsInfo] = EMPTY,
        deleting_topics: list[TopicInfo] = EMPTY,
    ) -> None:
        self.initializing_topics: list[TopicPartitionsInfo] = (
            [] if initializing_topics is EMPTY else initializing_topics
        )
        self.initialized_topics: list[TopicPartitionsInfo] = (
            [] if initialized_topics is EMPTY else initialized_topics
        )
        self.deleting_topics: list[TopicInfo] = [] if deleting_topics is EMPTY else deleting_topics
