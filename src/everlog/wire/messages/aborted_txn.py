# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""AbortedTxn.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class AbortedTxn(Message):
    __slots__ = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    FAMILY: ClassVar[str] = "coordinator_records"

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
        last_offset: int = 0,
        last_stable_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.last_stable_offset = last_stable_offset
