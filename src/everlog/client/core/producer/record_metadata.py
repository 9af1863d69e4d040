"""Where a record lies, and telling those who asked to hear of it."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.short_way import tell_delivered

UNKNOWN_OFFSET = -1

_make: Any = vars(tuple)["__new__"]
"""Makes a named tuple in half the time that its own way takes."""

_log = logging.getLogger("everlog.producer")


class RecordMetadata(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int
    """-1 where the broker did not say: with acks=0, or for a duplicate that it had long ago."""
    timestamp: int
    """Milliseconds since 1970: the record's own, or the broker's if the topic has LogAppendTime."""


OnDelivery = Callable[[RecordMetadata | None, EverlogError | None], object]
"""Called with where a record lies, or with why it is not delivered; on the network thread."""


class Settled(Protocol):
    """A batch that is done."""

    @property
    def place(self) -> TopicPartition:
        """Its partition."""
        ...

    @property
    def error(self) -> EverlogError | None:
        """Why it is not delivered."""
        ...

    @property
    def base_offset(self) -> int:
        """Where it lies."""
        ...

    @property
    def append_time(self) -> int:
        """When the broker took it in, where that counts; else -1."""
        ...


def tell_all(batch: Settled, notices: list[Any]) -> None:
    """Tell of all records of one batch that was not split. One that fails is logged, and the next is told.

    `notices` are deliveries and who wants to hear of each, in turn. There may be thousands, so this does what
    `Delivery.tell` does without looking up anything twice, and compiled where that can be.
    """
    error, base, append_time = batch.error, batch.base_offset, batch.append_time
    topic, partition = batch.place
    if tell_delivered is not None and error is None:
        tell_delivered(notices, RecordMetadata, topic, partition, base, append_time, _failed)
        return
    for delivery, on_delivery in zip(notices[::2], notices[1::2], strict=True):
        try:
            if error is not None:
                on_delivery(None, error)
                continue
            offset = base if base == UNKNOWN_OFFSET else base + delivery._index
            timestamp = delivery._timestamp if append_time < 0 else append_time
            on_delivery(_make(RecordMetadata, (topic, partition, offset, timestamp)), None)
        except Exception as failure:  # noqa: BLE001 - a user's function: it is logged, and ends nothing else
            _failed(failure)


def _failed(failure: Exception) -> None:
    _log.error("a delivery callback failed", exc_info=failure)
