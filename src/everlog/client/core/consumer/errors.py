"""What a consumer tells its application, besides what goes wrong with the cluster.

EverlogError
├── Woken                `wakeup` was called: poll gave up waiting
├── OffsetsNeeded        it is not known where to read on in some partitions; `seek` decides
│   ├── NoOffset             nothing is committed, and auto_offset_reset is none
│   ├── OffsetOutOfRange     the log does not hold the offset, and auto_offset_reset is none
│   └── LogTruncated         the log lost records that were read, and auto_offset_reset is none (KIP-320)
├── DeserializationError a key or a value cannot be read; `seek` behind it to go on without it
└── CorruptDataError     bytes are not what was written (model.errors)
    └── DamagedBatch         so it is with a batch of a partition; `seek` behind it to go on without it
"""

from collections.abc import Mapping, Sequence

from everlog.model.errors import CorruptDataError, EverlogError
from everlog.model.topics import TopicPartition


class Woken(EverlogError):
    """`wakeup` was called while a poll waited, or before it."""

    retriable = True


class OffsetsNeeded(EverlogError):
    """Some partitions cannot be read before `seek` says where."""

    def __init__(self, message: str, places: Sequence[TopicPartition]) -> None:
        super().__init__(message)
        self.places = tuple(places)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.places)


class NoOffset(OffsetsNeeded):
    """No offset is committed for some partitions, and there is no rule for where to begin."""


class OffsetOutOfRange(OffsetsNeeded):
    """The log does not hold the offset to read next, and there is no rule for where to go on."""

    def __init__(self, message: str, offsets: Mapping[TopicPartition, int]) -> None:
        super().__init__(message, tuple(offsets))
        self.offsets = dict(offsets)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.offsets)


class LogTruncated(OffsetsNeeded):
    """Records that were read are not in the log any more, and there is no rule for where to go on.

    `diverged` has the first offset from which on the log is another, where the leader could tell.
    """

    def __init__(self, message: str, diverged: Mapping[TopicPartition, int | None]) -> None:
        super().__init__(message, tuple(diverged))
        self.diverged = dict(diverged)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.diverged)


class DeserializationError(EverlogError):
    """A deserializer failed with one record; its own error is the cause.

    Every poll says so again until `seek(error.place, error.offset + 1)` leaves the record out.
    """

    def __init__(self, message: str, place: TopicPartition, offset: int) -> None:
        super().__init__(message)
        self.place = place
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.place, self.offset)


class DamagedBatch(CorruptDataError):
    """A batch of a partition is not what was written, from `offset` on; every record before it was returned.

    The next poll fetches it again, so a retry may help; not so where its checksum holds or was not looked at,
    and its records cannot be read. `seek(error.place, error.offset + 1)` goes on behind the offset; how far
    the batch reaches is as much in doubt as all of it, so the same may be said of the offset that follows.
    """

    def __init__(self, why: object, place: TopicPartition, offset: int, *, retriable: bool = True) -> None:
        super().__init__(f"the batch of {place} at offset {offset} is damaged: {why}")
        self.place = place
        self.offset = offset
        self.retriable = retriable
