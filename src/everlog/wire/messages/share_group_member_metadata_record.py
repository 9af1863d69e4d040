# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""ShareGroupMemberMetadataKey and ShareGroupMemberMetadataValue.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.wire.message import EMPTY, Message


class ShareGroupMemberMetadataKey(Message):
    __slots__ = ("group_id", "member_id")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 10

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupMemberMetadataValue(Message):
    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names")
    FAMILY: ClassVar[str] = "coordinator_records"
    KEY: ClassVar[int | None] = 10

    def __init__(
        self,
        *,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = (
            [] if subscribed_topic_names is EMPTY else subscribed_topic_names
        )
