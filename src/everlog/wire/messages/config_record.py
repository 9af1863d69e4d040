# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ConfigRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class ConfigRecord(Message):
    __slots__ = ("resource_type", "resource_name", "name", "value")
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 4

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value
