"""RemoveTopicRecord.

Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited.
"""

from __future__ import annotations

from typing import ClassVar

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.message import Message


class RemoveTopicRecord(Message):
    __slots__ = ("topic_id",)
    FAMILY: ClassVar[str] = "metadata_records"
    KEY: ClassVar[int | None] = 9

    def __init__(
        self,
        *,
        topic_id: Uuid = NO_UUID,
    ) -> None:
        self.topic_id = topic_id
