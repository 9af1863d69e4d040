"""EndTxnMarker.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch",)
    FAMILY: ClassVar[str] = "coordinator_records"

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch
