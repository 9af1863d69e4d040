"""ClearElrRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class ClearElrRecord(Message):
    __slots__ = ("topic_name",)
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 28

    def __init__(
        self,
        *,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name
