"""RemoveAccessControlEntryRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import Message


class RemoveAccessControlEntryRecord(Message):
    __slots__ = ("id",)
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 19

    def __init__(
        self,
        *,
        id: Uuid = NO_UUID,
    ) -> None:
        self.id = id
