# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""SaslAuthenticateRequest and SaslAuthenticateResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class SaslAuthenticateRequest(Message):
    __slots__ = ("auth_bytes",)
    FAMILY: ClassVar[str] = "connections"
    KEY: ClassVar[int | None] = 36

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(Message):
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")
    FAMILY: ClassVar[str] = "connections"
    KEY: ClassVar[int | None] = 36

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
