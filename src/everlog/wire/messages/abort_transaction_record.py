"""AbortTransactionRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class AbortTransactionRecord(Message):
    __slots__ = ("reason",)
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 25

    def __init__(
        self,
        *,
        reason: str | None = None,
    ) -> None:
        self.reason = reason
