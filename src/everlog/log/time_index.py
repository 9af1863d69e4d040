"""Timestamp to offset, sparsely (L7).

An entry is twelve bytes: the largest timestamp so far, and the last offset, less the segment's base
offset, of the batch that brought it. Timestamps strictly rise, so all records before an entry's batch
are older than it, and a search walks the log from there. Growing and sealed as the offset index is.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from struct import Struct
from typing import Protocol

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer

SUFFIX = ".timeindex"
ENTRY_BYTES = 12
_ENTRY = Struct(">qI")
_TIMESTAMP = Struct(">q")


class TimeIndex(Protocol):
    """What a segment asks of its time index, growing or sealed."""

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """The (timestamp, last offset) of the last entry whose timestamp is at most `timestamp`."""
        ...

    def last(self) -> tuple[int, int] | None:
        """The newest entry: the largest timestamp and the last offset of the batch that has it."""
        ...

    def __len__(self) -> int:
        """How many entries there are."""
        ...


class GrowingTimeIndex:
    """The index of the active segment, in memory; `unsaved` gives what its file lacks."""

    __slots__ = ("_base_offset", "_offsets", "_timestamps", "saved")

    def __init__(self, base_offset: int, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("I")
        self.saved = 0
        """How many entries are in the file."""
        for timestamp, last_offset in entries:
            self.append(timestamp, last_offset)

    @classmethod
    def load(cls, base_offset: int, raw: Buffer) -> "GrowingTimeIndex":
        """Read the file's entries back; CorruptDataError if timestamps or offsets do not rise."""
        SealedTimeIndex(base_offset, memoryview(raw))
        index = cls(base_offset)
        last = (-1, -1)
        for entry in _ENTRY.iter_unpack(raw):
            if entry[0] <= last[0] or entry[1] <= last[1]:
                raise CorruptDataError(f"a time index has {entry} after {last}, expected both to rise")
            index._timestamps.append(entry[0])
            index._offsets.append(entry[1])
            last = entry
        index.saved = len(index._timestamps)
        return index

    def __len__(self) -> int:
        return len(self._timestamps)

    def append(self, timestamp: int, last_offset: int) -> None:
        """Add an entry if its timestamp is above all before it."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            self._timestamps.append(timestamp)
            self._offsets.append(last_offset - self._base_offset)

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """The (timestamp, last offset) of the last entry whose timestamp is at most `timestamp`."""
        at = bisect_right(self._timestamps, timestamp)
        if at == 0:
            return None
        return self._timestamps[at - 1], self._base_offset + self._offsets[at - 1]

    def last(self) -> tuple[int, int] | None:
        """The newest entry: the largest timestamp and the last offset of the batch that has it."""
        if not self._timestamps:
            return None
        return self._timestamps[-1], self._base_offset + self._offsets[-1]

    def unsaved(self) -> bytes:
        """The bytes that belong at the end of the file."""
        pairs = zip(self._timestamps[self.saved :], self._offsets[self.saved :], strict=True)
        return b"".join([_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs])

    def cut(self, end_offset: int) -> None:
        """Forget the entries of batches at or behind `end_offset`."""
        keep = bisect_right(self._offsets, end_offset - 1 - self._base_offset)
        del self._timestamps[keep:], self._offsets[keep:]
        self.saved = min(self.saved, keep)


class SealedTimeIndex:
    """The index of a sealed segment, searched in place over the mapped file.

    CorruptDataError if its length is no multiple of twelve or its ends are out of order.
    """

    __slots__ = ("_base_offset", "_count", "_view")

    def __init__(self, base_offset: int, view: memoryview) -> None:
        self._base_offset = base_offset
        self._view = view
        self._count, rest = divmod(len(view), ENTRY_BYTES)
        if rest:
            raise CorruptDataError(
                f"a time index has {len(view)} bytes, expected a multiple of {ENTRY_BYTES}"
            )
        if self._count > 1:
            first, last = self._entry(0), self._entry(self._count - 1)
            if not (first[0] < last[0] and first[1] < last[1]):
                raise CorruptDataError(f"a time index runs from {first} to {last}, expected both to rise")

    def __len__(self) -> int:
        return self._count

    def _entry(self, at: int) -> tuple[int, int]:
        timestamp, relative = _ENTRY.unpack_from(self._view, at * ENTRY_BYTES)
        return timestamp, self._base_offset + relative

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """The (timestamp, last offset) of the last entry whose timestamp is at most `timestamp`."""
        low, high = 0, self._count
        while low < high:
            middle = (low + high) >> 1
            if _TIMESTAMP.unpack_from(self._view, middle * ENTRY_BYTES)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self._entry(low - 1) if low else None

    def last(self) -> tuple[int, int] | None:
        """The newest entry: the largest timestamp and the last offset of the batch that has it."""
        return self._entry(self._count - 1) if self._count else None
