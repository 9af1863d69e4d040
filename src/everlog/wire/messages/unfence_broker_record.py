# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""UnfenceBrokerRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class UnfenceBrokerRecord(Message):
    __slots__ = ("id", "epoch")
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 8

    def __init__(
        self,
        *,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch
