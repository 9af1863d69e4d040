# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""DeleteGroupsRequest and DeleteGroupsResponse.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import EMPTY, Message, Structure


class DeleteGroupsRequest(Message):
    __slots__ = ("groups_names",)
    FAMILY: ClassVar[str] = "groups"
    KEY: ClassVar[int | None] = 42

    def __init__(
        self,
        *,
        groups_names: list[str] = EMPTY,
    ) -> None:
        self.groups_names: list[str] = [] if groups_names is EMPTY else groups_names


class DeletableGroupResult(Structure):
    __slots__ = ("group_id", "error_code", "error_message")

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    FAMILY: ClassVar[str] = "groups"
    KEY: ClassVar[int | None] = 42

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DeletableGroupResult] = [] if results is EMPTY else results
