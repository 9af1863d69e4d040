"""BeginTransactionRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class BeginTransactionRecord(Message):
    __slots__ = ("name",)
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 23

    def __init__(
        self,
        *,
        name: str | None = None,
    ) -> None:
        self.name = name
