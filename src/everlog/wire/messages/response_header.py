"""ResponseHeader.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class ResponseHeader(Message):
    __slots__ = ("correlation_id",)
    FAMILY: ClassVar[str] = "connections"

    def __init__(
        self,
        *,
        correlation_id: int = 0,
    ) -> None:
        self.correlation_id = correlation_id
