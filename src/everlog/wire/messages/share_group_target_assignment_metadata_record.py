"""ShareGroupTargetAssignmentMetadataKey and ShareGroupTargetAssignmentMetadataValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class ShareGroupTargetAssignmentMetadataKey(Message):
    __slots__ = ("group_id",)
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 12

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 12

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp
