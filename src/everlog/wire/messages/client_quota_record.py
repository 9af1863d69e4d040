# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ClientQuotaRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import EMPTY, Message, Structure


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


class ClientQuotaRecord(Message):
    __slots__ = ("entity", "key", "value", "remove")
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 14

    def __init__(
        self,
        *,
        entity: list[EntityData] = EMPTY,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is EMPTY else entity
        self.key = key
        self.value = value
        self.remove = remove
