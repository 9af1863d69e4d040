# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ListConfigResourcesRequest and ListConfigResourcesResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import EMPTY, Message, Structure


class ListConfigResourcesRequest(Message):
    __slots__ = ("resource_types",)
    FAMILY: ClassVar[str] = "configs"
    KEY: ClassVar[int | None] = 74

    def __init__(
        self,
        *,
        resource_types: list[int] = EMPTY,
    ) -> None:
        self.resource_types: list[int] = [] if resource_types is EMPTY else resource_types


class ConfigResource(Structure):
    __slots__ = ("resource_name", "resource_type")

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "config_resources")
    FAMILY: ClassVar[str] = "configs"
    KEY: ClassVar[int | None] = 74

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources: list[ConfigResource] = [] if config_resources is EMPTY else config_resources
