# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""RemoveUserScramCredentialRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class RemoveUserScramCredentialRecord(Message):
    __slots__ = ("name", "mechanism")
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 22

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
