"""Where a group's offsets shall be moved to, and what that means for each partition (C7).

As Kafka's own tool does it: what is asked for is brought into the range of offsets that the log holds, except
for `ToCurrent`, which keeps what was committed whatever it is.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from everlog.client.core.group.types import OffsetAndMetadata
from everlog.model.errors import ConfigError
from everlog.model.ids import Offset, Timestamp
from everlog.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """To the first offset that is still there."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """To the end: only what comes later is read."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """To the same offset in every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """To the first record with this timestamp or a later one; to the end if there is none."""

    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many offsets on from what is committed, or back."""

    count: int


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """What is committed stays; the end where nothing is."""


@dataclass(frozen=True, slots=True)
class FromFile:
    """To an offset for each partition, as `read_csv` read them."""

    offsets: Mapping[TopicPartition, int]


Target = ToEarliest | ToLatest | ToOffset | ToTime | ShiftBy | ToCurrent | FromFile


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of one partition before its offset is moved."""

    committed: OffsetAndMetadata | None
    start: Offset
    end: Offset
    at_time: Offset | None = None
    """For ToTime: the offset of the first record that is young enough."""


@dataclass(frozen=True, slots=True)
class Move:
    """From one offset to another; `asked` differs from `to` where it lay beyond the log."""

    place: TopicPartition
    before: Offset | None
    to: Offset
    asked: int

    @property
    def is_clamped(self) -> bool:
        """Whether what was asked for is not in the log."""
        return self.asked != self.to


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What a reset does; `is_new` if the group does not exist yet and committing makes it."""

    group_id: str
    moves: Sequence[Move]
    is_new: bool


def plan_move(target: Target, place: TopicPartition, found: Found) -> Move:
    """Decide on one partition; ConfigError if the target says nothing about it."""
    before = None if found.committed is None else Offset(found.committed.offset)
    asked: int
    match target:
        case ToEarliest():
            asked = found.start
        case ToLatest():
            asked = found.end
        case ToOffset(offset):
            asked = offset
        case ToTime():
            asked = found.end if found.at_time is None else found.at_time
        case ShiftBy(count):
            if before is None:
                raise ConfigError(f"{place} has no committed offset to shift by {count}")
            asked = before + count
        case ToCurrent():
            asked = found.end if before is None else before
            return Move(place, before, Offset(asked), asked)
        case FromFile(offsets):
            if place not in offsets:
                raise ConfigError(f"the file has no offset for {place}")
            asked = offsets[place]
        case _:
            assert_never(target)
    return Move(place, before, Offset(min(max(asked, found.start), found.end)), asked)


def read_csv(lines: Iterable[str], name: str) -> dict[TopicPartition, int]:
    """Read rows of topic, partition, offset of the file `name`; ConfigError names a line that is none."""
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) != 3 or not cells[0] or not cells[1].isdecimal() or not cells[2].isdecimal():
            raise ConfigError(f"{name} line {number} is {','.join(row)!r}: expected topic,partition,offset")
        place = TopicPartition(cells[0], int(cells[1]))
        if place in offsets:
            raise ConfigError(f"{name} line {number} names {place} a second time")
        offsets[place] = int(cells[2])
    if not offsets:
        raise ConfigError(f"{name} is empty: expected rows of topic,partition,offset")
    return offsets


def csv_row(move: Move) -> str:
    """One row that `read_csv` reads back; names of topics need no quotes."""
    return f"{move.place.topic},{move.place.partition},{move.to}"
