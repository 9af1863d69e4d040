"""UnregisterControllerRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class UnregisterControllerRecord(Message):
    __slots__ = ("controller_id",)
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 29

    def __init__(
        self,
        *,
        controller_id: int = 0,
    ) -> None:
        self.controller_id = controller_id
