"""Which bytes of a segment file this process has proved since it opened it."""

from bisect import bisect_right

_MAX_RANGES = 64


class VerifiedRanges:
    """The ranges of a file whose batches are known to be whole and undamaged.

    Everything from `trusted_from` on is: it was appended by this process, or scanned when the log was
    recovered. What lies before is proved when it is first read, and remembered.
    """

    __slots__ = ("_ends", "_starts", "trusted_from")

    def __init__(self, trusted_from: int) -> None:
        self.trusted_from = trusted_from
        self._starts: list[int] = []
        self._ends: list[int] = []

    def unproved_from(self, start: int, end: int) -> int:
        """The first position in a range that is not proved yet; `end` if all of it is."""
        if start >= self.trusted_from:
            return end
        at = bisect_right(self._starts, start)
        if at and self._ends[at - 1] > start:
            start = self._ends[at - 1]
        return end if start >= self.trusted_from else min(start, end)

    def add(self, start: int, end: int) -> None:
        """Remember a range that has been proved."""
        if end >= self.trusted_from:
            self.trusted_from = min(self.trusted_from, start)
            return
        at = bisect_right(self._starts, start)
        if at and self._ends[at - 1] >= start:
            at -= 1
            self._ends[at] = max(self._ends[at], end)
        else:
            self._starts.insert(at, start)
            self._ends.insert(at, end)
        while at + 1 < len(self._starts) and self._starts[at + 1] <= self._ends[at]:
            self._ends[at] = max(self._ends[at], self._ends.pop(at + 1))
            del self._starts[at + 1]
        if len(self._starts) > _MAX_RANGES:
            # Forgetting costs another check later, and nothing else; the smallest range is the cheapest.
            sizes = [end - start for start, end in zip(self._starts, self._ends, strict=True)]
            smallest = sizes.index(min(sizes))
            del self._starts[smallest], self._ends[smallest]

    def cut(self, size: int) -> None:
        """Forget what lay behind `size`; what will be appended there is trusted again."""
        self.trusted_from = min(self.trusted_from, size)
        while self._starts and self._starts[-1] >= size:
            self._starts.pop()
            self._ends.pop()
        if self._ends:
            self._ends[-1] = min(self._ends[-1], size)
