# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ConsumerGroupRegularExpressionKey and ConsumerGroupRegularExpressionValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import EMPTY, Message


class ConsumerGroupRegularExpressionKey(Message):
    __slots__ = ("group_id", "regular_expression")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 16

    def __init__(
        self,
        *,
        group_id: str = "",
        regular_expression: str = "",
    ) -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression


class ConsumerGroupRegularExpressionValue(Message):
    __slots__ = ("topics", "version", "timestamp")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 16

    def __init__(
        self,
        *,
        topics: list[str] = EMPTY,
        version: int = 0,
        timestamp: int = 0,
    ) -> None:
        self.topics: list[str] = [] if topics is EMPTY else topics
        self.version = version
        self.timestamp = timestamp
