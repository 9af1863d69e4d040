"""RemoveDelegationTokenRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class RemoveDelegationTokenRecord(Message):
    __slots__ = ("token_id",)
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 26

    def __init__(
        self,
        *,
        token_id: str = "",
    ) -> None:
        self.token_id = token_id
