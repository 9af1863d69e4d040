# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""PushTelemetryRequest and PushTelemetryResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import Message


class PushTelemetryRequest(Message):
    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")
    FAMILY: ClassVar[str] = "connections"
    KEY: ClassVar[int | None] = 72

    def __init__(
        self,
        *,
        client_instance_id: Uuid = NO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


class PushTelemetryResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")
    FAMILY: ClassVar[str] = "connections"
    KEY: ClassVar[int | None] = 72

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
