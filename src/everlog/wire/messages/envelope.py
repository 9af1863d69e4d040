# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""EnvelopeRequest and EnvelopeResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class EnvelopeRequest(Message):
    __slots__ = ("request_data", "request_principal", "client_host_address")
    FAMILY: ClassVar[str] = "connections"
    KEY: ClassVar[int | None] = 58

    def __init__(
        self,
        *,
        request_data: bytes = b"",
        request_principal: bytes | None = b"",
        client_host_address: bytes = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address


class EnvelopeResponse(Message):
    __slots__ = ("response_data", "error_code")
    FAMILY: ClassVar[str] = "connections"
    KEY: ClassVar[int | None] = 58

    def __init__(
        self,
        *,
        response_data: bytes | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code
