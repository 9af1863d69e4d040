# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ConsumerGroupPartitionMetadataKey and ConsumerGroupPartitionMetadataValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class ConsumerGroupPartitionMetadataKey(Message):
    __slots__ = ("group_id",)
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 4

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class PartitionMetadata(Structure):
    __slots__ = ("partition", "racks")

    def __init__(
        self,
        *,
        partition: int = 0,
        racks: list[str] = EMPTY,
    ) -> None:
        self.partition = partition
        self.racks: list[str] = [] if racks is EMPTY else racks


class TopicMetadata(Structure):
    __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: list[PartitionMetadata] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata: list[PartitionMetadata] = (
            [] if partition_metadata is EMPTY else partition_metadata
        )


class ConsumerGroupPartitionMetadataValue(Message):
    __slots__ = ("topics",)
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 4

    def __init__(
        self,
        *,
        topics: list[TopicMetadata] = EMPTY,
    ) -> None:
        self.topics: list[TopicMetadata] = [] if topics is EMPTY else topics
