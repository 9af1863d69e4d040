"""SaslHandshakeRequest and SaslHandshakeResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import EMPTY, Message


class SaslHandshakeRequest(Message):
    __slots__ = ("mechanism",)
    FAMILY: ClassVar[str] = "connections"
    KEY: ClassVar[int | None] = 17

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Message):
    __slots__ = ("error_code", "mechanisms")
    FAMILY: ClassVar[str] = "connections"
    KEY: ClassVar[int | None] = 17

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.mechanisms: list[str] = [] if mechanisms is EMPTY else mechanisms
