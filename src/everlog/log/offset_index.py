"""Offset to file position, sparsely (L3).

An entry is eight bytes: the last offset of a batch less the segment's base offset, and the position at
which that batch begins. A search for an offset starts at the entry at or before it and walks the log
from there, so a missing entry costs time and never an answer. The active segment's entries are kept in
memory and written out in lots; a sealed segment's are mapped.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from struct import Struct
from typing import Protocol

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer

SUFFIX = ".index"
ENTRY_BYTES = 8
_ENTRY = Struct(">II")
_OFFSET = Struct(">I")
_POSITION_AT = 4


class OffsetIndex(Protocol):
    """What a segment asks of its offset index, growing or sealed."""

    def floor(self, offset: int) -> tuple[int, int] | None:
        """The (last offset, position) of the last entry whose offset is at most `offset`."""
        ...

    def floor_position(self, position: int) -> tuple[int, int] | None:
        """The (last offset, position) of the last entry whose position is at most `position`."""
        ...

    def __len__(self) -> int:
        """How many entries there are."""
        ...


class GrowingOffsetIndex:
    """The index of the active segment, in memory; `unsaved` gives what its file lacks."""

    __slots__ = ("_base_offset", "_offsets", "_positions", "saved")

    def __init__(self, base_offset: int, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._base_offset = base_offset
        self._offsets = array("I")
        self._positions = array("I")
        self.saved = 0
        """How many entries are in the file."""
        for last_offset, position in entries:
            self.append(last_offset, position)

    @classmethod
    def load(cls, base_offset: int, raw: Buffer) -> "GrowingOffsetIndex":
        """Read the file's entries back; they are checked as `SealedOffsetIndex` checks them."""
        SealedOffsetIndex(base_offset, memoryview(raw))
        numbers = array("I")
        numbers.frombytes(raw)
        if sys.byteorder == "little":
            numbers.byteswap()
        index = cls(base_offset)
        index._offsets = numbers[0::2]
        index._positions = numbers[1::2]
        index.saved = len(index._offsets)
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, last_offset: int, position: int) -> int:
        """Add the entry of a batch that is in the log already; returns how many there are now."""
        self._offsets.append(last_offset - self._base_offset)
        self._positions.append(position)
        return len(self._positions)

    def floor(self, offset: int) -> tuple[int, int] | None:
        """The (last offset, position) of the last entry whose offset is at most `offset`."""
        at = bisect_right(self._offsets, offset - self._base_offset)
        if at == 0:
            return None
        return self._base_offset + self._offsets[at - 1], self._positions[at - 1]

    def floor_position(self, position: int) -> tuple[int, int] | None:
        """The (last offset, position) of the last entry whose position is at most `position`."""
        at = bisect_right(self._positions, position)
        if at == 0:
            return None
        return self._base_offset + self._offsets[at - 1], self._positions[at - 1]

    def last(self) -> tuple[int, int] | None:
        """The (last offset, position) of the newest entry."""
        if not self._offsets:
            return None
        return self._base_offset + self._offsets[-1], self._positions[-1]

    def unsaved(self) -> bytes:
        """The bytes that belong at the end of the file."""
        numbers = array("I", bytes(ENTRY_BYTES * (len(self._offsets) - self.saved)))
        numbers[0::2] = self._offsets[self.saved :]
        numbers[1::2] = self._positions[self.saved :]
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers.tobytes()

    def cut(self, position: int) -> None:
        """Forget the entries of batches at or behind `position`."""
        keep = bisect_right(self._positions, position - 1)
        del self._offsets[keep:], self._positions[keep:]
        self.saved = min(self.saved, keep)


class SealedOffsetIndex:
    """The index of a sealed segment, searched in place over the mapped file.

    CorruptDataError if it cannot be an index of this segment: a length that is no multiple of eight, or
    ends out of order. An entry in the middle may still lie, so whoever lands by one checks the batch.
    """

    __slots__ = ("_base_offset", "_count", "_view")

    def __init__(self, base_offset: int, view: memoryview) -> None:
        self._base_offset = base_offset
        self._view = view
        self._count, rest = divmod(len(view), ENTRY_BYTES)
        if rest:
            raise CorruptDataError(
                f"an offset index has {len(view)} bytes, expected a multiple of {ENTRY_BYTES}"
            )
        if self._count > 1:
            first, last = self.entry(0), self.entry(self._count - 1)
            if not (first[0] < last[0] and first[1] < last[1]):
                raise CorruptDataError(f"an offset index runs from {first} to {last}, expected both to rise")

    def __len__(self) -> int:
        return self._count

    def entry(self, at: int) -> tuple[int, int]:
        """The (last offset, position) of one entry."""
        relative, position = _ENTRY.unpack_from(self._view, at * ENTRY_BYTES)
        return self._base_offset + relative, position

    def floor(self, offset: int) -> tuple[int, int] | None:
        """The (last offset, position) of the last entry whose offset is at most `offset`."""
        at = self._count_up_to(offset - self._base_offset, 0)
        return self.entry(at - 1) if at else None

    def floor_position(self, position: int) -> tuple[int, int] | None:
        """The (last offset, position) of the last entry whose position is at most `position`."""
        at = self._count_up_to(position, _POSITION_AT)
        return self.entry(at - 1) if at else None

    def _count_up_to(self, value: int, field_at: int) -> int:
        low, high = 0, self._count
        unpack, view = _OFFSET.unpack_from, self._view
        while low < high:
            middle = (low + high) >> 1
            if unpack(view, middle * ENTRY_BYTES + field_at)[0] <= value:
                low = middle + 1
            else:
                high = middle
        return low
