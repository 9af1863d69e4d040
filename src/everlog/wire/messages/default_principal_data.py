# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""DefaultPrincipalData.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import Message


class DefaultPrincipalData(Message):
    __slots__ = ("type", "name", "token_authenticated")
    FAMILY: ClassVar[str] = "connections"

    def __init__(
        self,
        *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
