"""RenewDelegationTokenRequest and RenewDelegationTokenResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class RenewDelegationTokenRequest(Message):
    __slots__ = ("hmac", "renew_period_ms")
    FAMILY: ClassVar[str] = "security"
    KEY: ClassVar[int | None] = 39

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        renew_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms


class RenewDelegationTokenResponse(Message):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")
    FAMILY: ClassVar[str] = "security"
    KEY: ClassVar[int | None] = 39

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
