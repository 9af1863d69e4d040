# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""UnregisterBrokerRequest and UnregisterBrokerResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class UnregisterBrokerRequest(Message):
    __slots__ = ("broker_id",)
    FAMILY: ClassVar[str] = "cluster"
    KEY: ClassVar[int | None] = 64

    def __init__(
        self,
        *,
        broker_id: int = 0,
    ) -> None:
        self.broker_id = broker_id


class UnregisterBrokerResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    FAMILY: ClassVar[str] = "cluster"
    KEY: ClassVar[int | None] = 64

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
