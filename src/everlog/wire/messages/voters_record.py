# ruff: noqa: RUF023  (slots stand in the order of the wire)
"""VotersRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import EMPTY, Message, Structure


class KRaftVersionFeature(Structure):
    __slots__ = ("min_supported_version", "max_supported_version")

    def __init__(
        self,
        *,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class Endpoint(Structure):
    __slots__ = ("name", "host", "port")

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class Voter(Structure):
    __slots__ = ("voter_id", "voter_directory_id", "endpoints", "kraft_version_feature")

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: Uuid = NO_UUID,
        endpoints: list[Endpoint] = EMPTY,
        kraft_version_feature: KRaftVersionFeature = EMPTY,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints: list[Endpoint] = [] if endpoints is EMPTY else endpoints
        self.kraft_version_feature: KRaftVersionFeature = (
            KRaftVersionFeature() if kraft_version_feature is EMPTY else kraft_version_feature
        )


class VotersRecord(Message):
    __slots__ = ("version", "voters")
    FAMILY: ClassVar[str] = "quorum"

    def __init__(
        self,
        *,
        version: int = 0,
        voters: list[Voter] = EMPTY,
    ) -> None:
        self.version = version
        self.voters: list[Voter] = [] if voters is EMPTY else voters
