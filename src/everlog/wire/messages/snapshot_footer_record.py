"""SnapshotFooterRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class SnapshotFooterRecord(Message):
    __slots__ = ("version",)
    FAMILY: ClassVar[str] = "quorum"

    def __init__(
        self,
        *,
        version: int = 0,
    ) -> None:
        self.version = version
