# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""AlterClientQuotasRequest and AlterClientQuotasResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import EMPTY, Message, Structure


class OpData(Structure):
    __slots__ = ("key", "value", "remove")

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class EntityData(Structure):
    __slots__ = ("entity_type", "entity_name")

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class RequestEntryData(Structure):
    __slots__ = ("entity", "ops")

    def __init__(
        self,
        *,
        entity: list[EntityData] = EMPTY,
        ops: list[OpData] = EMPTY,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is EMPTY else entity
        self.ops: list[OpData] = [] if ops is EMPTY else ops


class AlterClientQuotasRequest(Message):
    __slots__ = ("entries", "validate_only")
    FAMILY: ClassVar[str] = "configs"
    KEY: ClassVar[int | None] = 49

    def __init__(
        self,
        *,
        entries: list[RequestEntryData] = EMPTY,
        validate_only: bool = False,
    ) -> None:
        self.entries: list[RequestEntryData] = [] if entries is EMPTY else entries
        self.validate_only = validate_only


class ResponseEntryData(Structure):
    __slots__ = ("error_code", "error_message", "entity")

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[EntityData] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity: list[EntityData] = [] if entity is EMPTY else entity


class AlterClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "entries")
    FAMILY: ClassVar[str] = "configs"
    KEY: ClassVar[int | None] = 49

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[ResponseEntryData] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries: list[ResponseEntryData] = [] if entries is EMPTY else entries
