# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""LegacyOffsetCommitKey and LegacyOffsetCommitValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class LegacyOffsetCommitKey(Message):
    __slots__ = ("group", "topic", "partition")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class LegacyOffsetCommitValue(Message):
    __slots__ = ("offset", "metadata", "commit_timestamp")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        offset: int = 0,
        metadata: str = "",
        commit_timestamp: int = 0,
    ) -> None:
        self.offset = offset
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
