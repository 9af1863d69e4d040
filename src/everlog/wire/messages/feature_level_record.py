# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""FeatureLevelRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class FeatureLevelRecord(Message):
    __slots__ = ("name", "feature_level")
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 12

    def __init__(
        self,
        *,
        name: str = "",
        feature_level: int = 0,
    ) -> None:
        self.name = name
        self.feature_level = feature_level
