"""ZkMigrationStateRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class ZkMigrationStateRecord(Message):
    __slots__ = ("zk_migration_state",)
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 21

    def __init__(
        self,
        *,
        zk_migration_state: int = 0,
    ) -> None:
        self.zk_migration_state = zk_migration_state
