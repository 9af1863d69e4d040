"""EndTransactionRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class EndTransactionRecord(Message):
    __slots__ = ()
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 24
