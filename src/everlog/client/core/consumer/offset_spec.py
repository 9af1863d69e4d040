"""Where to read from and up to, as people write it, and what that means for one partition.

    start            from the first record             end          only what comes from now on
    +5               from 5 after the first            -5           the last 5
    120              from offset 120                   100:200      from 100 up to 199
    :end             all there is now                  -100:end     the last 100, then stop
    @1700000000000   from a moment (ms; 10 digits: s)  @2026-01-31  from a day, UTC
    @-1h             from an hour ago                  @-2h:-1h     from two hours ago to one hour ago
    @2026-01-31T08:00:1h30m                            ninety minutes from 8 o'clock

The grammar is that of rpk and kcl. An end is exclusive. Times without a zone are UTC (C7, L7).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_never

from everlog.model.errors import ConfigError
from everlog.model.ids import Offset, Timestamp


@dataclass(frozen=True, slots=True)
class AfterStart:
    """So many offsets after the first one that is still there, but not behind the end."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """So many offsets before the end, but not before the first one that is still there."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class AtOffset:
    """Exactly this offset, whether or not it is there."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record with this timestamp or a later one; the end if there is none."""

    timestamp: Timestamp


Point = AfterStart | BeforeEnd | AtOffset | AtTime


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """A range in every partition; without an `end` reading goes on for ever."""

    start: Point
    end: Point | None = None

    @property
    def timestamps(self) -> list[Timestamp]:
        """The moments whose offsets must be looked up before `resolve`."""
        return [point.timestamp for point in (self.start, self.end) if isinstance(point, AtTime)]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """From `start`, up to but without `end`; None is no end."""

    start: Offset
    end: Offset | None


def parse_offset_spec(text: str, now: Timestamp) -> OffsetSpec:
    """Read the grammar above; ConfigError says what was expected. `now` is what `-1h` counts from."""
    stripped = text.strip()
    if stripped.startswith("@"):
        return _parse_times(stripped[1:], now, text)
    first, colon, last = stripped.partition(":")
    if not colon:
        return OffsetSpec(_parse_point(first, text))
    start = _parse_point(first, text) if first else AfterStart()
    return OffsetSpec(start, _parse_point(last, text) if last else None)


def resolve(
    spec: OffsetSpec, earliest: Offset, latest: Offset, by_time: Mapping[Timestamp, Offset | None]
) -> OffsetRange:
    """Turn a spec into offsets of one partition that holds `earliest` up to `latest`.

    `by_time` has an entry for each of `spec.timestamps`; None where no record is that young.
    """

    def place(point: Point) -> Offset:
        match point:
            case AfterStart(count):
                return Offset(min(earliest + count, latest))
            case BeforeEnd(count):
                return Offset(max(latest - count, earliest))
            case AtOffset(offset):
                return offset
            case AtTime(timestamp):
                found = by_time[timestamp]
                return latest if found is None else found
            case _:
                assert_never(point)

    return OffsetRange(place(spec.start), None if spec.end is None else place(spec.end))


_NUMBER = re.compile(r"([+-]?)(\d{1,19})\Z")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?\Z")
_UNIT_MS = (86_400_000, 3_600_000, 60_000, 1_000, 1)
_EXPECTED = "expected start, end, +N, -N, N, N:M, @TIME or @TIME:TIME, such as @-1h or @2026-01-31T08:00"


def _parse_point(part: str, whole: str) -> Point:
    if part == "start":
        return AfterStart()
    if part == "end":
        return BeforeEnd()
    number = _NUMBER.match(part)
    if number is None:
        raise ConfigError(f"offset {whole!r} cannot be read: {_EXPECTED}")
    sign, digits = number.groups()
    if sign == "+":
        return AfterStart(int(digits))
    return BeforeEnd(int(digits)) if sign == "-" else AtOffset(Offset(int(digits)))


def _parse_times(part: str, now: Timestamp, whole: str) -> OffsetSpec:
    """One time, or two with a colon between them; ISO times have colons too, so each colon is tried."""
    single = _parse_time(part, now, None)
    if single is not None:
        return OffsetSpec(single)
    for colon in [at for at, letter in enumerate(part) if letter == ":"]:
        start = _parse_time(part[:colon], now, None) if colon else AfterStart()
        if start is None:
            continue
        if colon == len(part) - 1:
            return OffsetSpec(start)
        end = _parse_time(part[colon + 1 :], now, start)
        if end is not None:
            return OffsetSpec(start, end)
    raise ConfigError(f"offset {whole!r} cannot be read: {_EXPECTED}")


def _parse_time(part: str, now: Timestamp, start: Point | None) -> Point | None:
    """One time; after a `start`, a bare duration counts from there. None if it is not a time."""
    if part == "end":
        return BeforeEnd()
    if part == "now":
        return AtTime(now)
    if part.isdecimal() and len(part) in (10, 13):
        return AtTime(Timestamp(int(part) * (1000 if len(part) == 10 else 1)))
    duration_ms = duration_from_text(part[1:] if part[:1] in ("+", "-") else part)
    if duration_ms is not None and part.startswith("-"):
        return AtTime(Timestamp(max(0, now - duration_ms)))
    if duration_ms is not None and isinstance(start, AtTime):
        return AtTime(Timestamp(start.timestamp + duration_ms))
    moment = moment_from_text(part)
    return None if moment is None else AtTime(moment)


def moment_from_text(text: str) -> Timestamp | None:
    """Read a day or a moment in ISO 8601, UTC unless it has a zone; None if it is not one."""
    if "-" not in text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Timestamp(int(moment.timestamp() * 1000))


def duration_from_text(text: str) -> int | None:
    """Read a duration such as `1h30m`, `90s` or `250ms` into milliseconds; None if it is not one."""
    parts = _DURATION.match(text)
    if not text or parts is None:
        return None
    return sum(int(count or 0) * unit_ms for count, unit_ms in zip(parts.groups(), _UNIT_MS, strict=True))
