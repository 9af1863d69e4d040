"""ControlRecordTypeSchema.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class ControlRecordTypeSchema(Message):
    __slots__ = ("type",)
    FAMILY: ClassVar[str] = "coordinator_records"

    def __init__(
        self,
        *,
        type: int = 0,
    ) -> None:
        self.type = type
