"""Which offset of a partition became which in its mirror. It decides, and does no I/O.

A *run* is a stretch of records that follow each other without a gap on both sides. A *slice* is what one
transaction has mirrored: a few runs. Slices are counted from 0, and noted in a compacted topic under keys
that are used again, so that the notes stay bounded while the log does not:

- slice n is noted under `0/(n mod 4096)`: the last 4096 slices are all there;
- every 64th also under `1/(n/64 mod 4096)`, every 4096th also under `2/…`: the older, the sparser.

Where a note is missing, translation falls back to the end of the one before: records come again, none is
skipped. MirrorMaker 2 does the same with its offset syncs.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from everlog.model.errors import EverlogError

SLOTS = 4096
SPACING = 64
LEVELS = 3
MAX_RUNS = 1000


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """`count` records from offset `source` on, which lie from offset `target` on in the mirror."""

    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class Slice:
    """What one transaction has mirrored of a partition."""

    number: int
    runs: tuple[Run, ...]
    """In order and at least one; the last one ends where the slice does."""
    is_complete: bool = True
    """Whether all runs are noted; of very many only some are."""

    @property
    def source_end(self) -> int:
        """Behind the last record that was mirrored."""
        return self.runs[-1].source + self.runs[-1].count

    @property
    def target_end(self) -> int:
        """Behind the last record in the mirror."""
        return self.runs[-1].target + self.runs[-1].count


@dataclass(frozen=True, slots=True)
class Translated:
    """Where a group goes on in the mirror."""

    offset: int
    is_exact: bool
    """Whether it is the very next record for the group; if not, it gets some records again."""


Span = tuple[int, int]
"""The first offset, and how many follow each other from there on."""


def pair(sources: Iterable[Span], targets: Iterable[Span]) -> list[Run]:
    """The runs of records that were read at `sources` and written, in the same order, at `targets`.

    AssertionError if they are not equally many: then it is not known which became which.
    """
    runs: list[Run] = []
    waiting = iter(targets)
    target, room = 0, 0
    for first, length in sources:
        source, left = first, length
        while left:
            if not room:
                target, room = next(waiting, (0, 0))
                assert room, f"fewer records were written than read: {left} are left at offset {source}"
            count = min(left, room)
            last = runs[-1] if runs else None
            if last and last.source + last.count == source and last.target + last.count == target:
                runs[-1] = Run(last.source, last.target, last.count + count)
            else:
                runs.append(Run(source, target, count))
            source, left = source + count, left - count
            target, room = target + count, room - count
    assert not room, f"more records were written than read: {room} from offset {target} on"
    assert next(waiting, None) is None, "more records were written than read"
    return runs


def slice_of(number: int, runs: Sequence[Run], limit: int = MAX_RUNS) -> Slice:
    """A slice of these runs, of which it keeps `limit` at most, and always the last one."""
    if len(runs) <= limit:
        return Slice(number, tuple(runs))
    step = -(-(len(runs) - 1) // (limit - 1))
    return Slice(number, (*runs[:-1:step], runs[-1]), is_complete=False)


def slots_of(number: int) -> list[str]:
    """The keys under which a slice is noted."""
    return [
        f"{level}/{number // SPACING**level % SLOTS}"
        for level in range(LEVELS)
        if number % SPACING**level == 0
    ]


def note_of(one: Slice) -> bytes:
    """A slice as it lies in the log."""
    shape: dict[str, object] = {
        "slice": one.number,
        "runs": [[run.source, run.target, run.count] for run in one.runs],
    }
    if not one.is_complete:
        shape["complete"] = False
    return json.dumps(shape, separators=(",", ":")).encode()


def read_note(value: bytes) -> Slice:
    """The slice of a note; EverlogError if it is none."""
    try:
        shape = json.loads(value)
        runs = tuple(Run(int(source), int(target), int(count)) for source, target, count in shape["runs"])
        if not runs:
            raise ValueError
        return Slice(int(shape["slice"]), runs, bool(shape.get("complete", True)))
    except (ValueError, TypeError, KeyError):
        raise EverlogError(
            f"{value[:80]!r} is no note of an offset map: expected JSON such as "
            '{"slice":0,"runs":[[source,target,count]]}'
        ) from None


class OffsetMap:
    """All that is noted of one partition."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        by_number = {one.number: one for one in slices}
        self._slices = [by_number[number] for number in sorted(by_number)]
        self._runs = [run for one in self._slices for run in one.runs]
        self._starts = [run.source for run in self._runs]
        self._is_followed = [
            followed for place, one in enumerate(self._slices) for followed in self._followed(place, one)
        ]

    def _followed(self, place: int, one: Slice) -> list[bool]:
        """For each run of a slice, whether the next one that is noted is also the next that there is."""
        after = self._slices[place + 1] if place + 1 < len(self._slices) else None
        within = [one.is_complete] * (len(one.runs) - 1)
        return [*within, after is not None and after.number == one.number + 1]

    @property
    def last(self) -> Slice | None:
        """The newest slice."""
        return self._slices[-1] if self._slices else None

    def translate(self, offset: int) -> Translated:
        """Where who would read `offset` next in the source goes on in the mirror.

        Every record from `offset` on that is mirrored, or will be, is at the answer or behind it.
        """
        if not self._runs:
            return Translated(0, is_exact=False)
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            first = self._slices[0]
            # Before the first record of all: where that one lies. Else the notes of it are gone.
            return Translated(self._runs[0].target, True) if first.number == 0 else Translated(0, False)
        run = self._runs[index]
        if offset < run.source + run.count:
            return Translated(run.target + offset - run.source, is_exact=True)
        is_exact = self._is_followed[index] or offset == run.source + run.count == self._slices[-1].source_end
        return Translated(run.target + run.count, is_exact)
