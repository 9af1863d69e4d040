# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""KRaftVersionRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class KRaftVersionRecord(Message):
    __slots__ = ("version", "kraft_version")
    FAMILY: ClassVar[str] = "quorum"

    def __init__(
        self,
        *,
        version: int = 0,
        kraft_version: int = 0,
    ) -> None:
        self.version = version
        self.kraft_version = kraft_version
