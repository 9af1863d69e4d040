"""ShareGroupMetadataKey and ShareGroupMetadataValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class ShareGroupMetadataKey(Message):
    __slots__ = ("group_id",)
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 11

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 11

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
