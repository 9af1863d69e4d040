# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ConsumerGroupCurrentMemberAssignmentKey and ConsumerGroupCurrentMemberAssignmentValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    __slots__ = ("group_id", "member_id")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 8

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class TopicPartitions(Structure):
    __slots__ = ("topic_id", "partitions", "assignment_epochs")

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
        partitions: list[int] = EMPTY,
        assignment_epochs: list[int] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is EMPTY else partitions
        self.assignment_epochs = assignment_epochs


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    __slots__ = (
        "member_epoch",
        "previous_member_epoch",
        "state",
        "assigned_partitions",
        "partitions_pending_revocation",
    )
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 8

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[TopicPartitions] = EMPTY,
        partitions_pending_revocation: list[TopicPartitions] = EMPTY,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions: list[TopicPartitions] = (
            [] if assigned_partitions is EMPTY else assigned_partitions
        )
        self.partitions_pending_revocation: list[TopicPartitions] = (
            [] if partitions_pending_revocation is EMPTY else partitions_pending_revocation
        )
