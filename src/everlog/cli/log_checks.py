"""What must hold between the files of a partition (L3, L10): checksums, offsets, indexes, snapshots."""

import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from everlog.cli.log_files import (
    Damage,
    Room,
    aborted_entries,
    base_offset_of,
    batches_in,
    map_file,
    offset_entries,
    producer_snapshot,
    time_entries,
)
from everlog.log import aborted_index, offset_index, time_index
from everlog.model.errors import EverlogError
from everlog.model.settings.kinds import LONG_MAX
from everlog.records.reader import read_records


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold, and where."""

    path: str
    problem: str
    position: int | None = None

    def __str__(self) -> str:
        where = "" if self.position is None else f" at position {self.position}"
        return f"{self.path}{where}: {self.problem}"


@dataclass(slots=True)
class Segment:
    """The batches of one segment, by what the indexes say about them."""

    path: str
    base_offset: int
    end_offset: int
    size_bytes: int = 0
    room_at: int | None = None
    """Where room for more batches begins, if it has any."""
    batches: int = 0
    records: int = 0
    positions: "array[int]" = field(default_factory=lambda: array("q"))
    base_offsets: "array[int]" = field(default_factory=lambda: array("q"))
    max_timestamps: "array[int]" = field(default_factory=lambda: array("q"))


Step = Callable[[int], None]
"""Is told how many bytes were looked at."""


def check_segment(path: str, step: Step, *, records: bool) -> tuple[Segment, list[Finding]]:
    """Walk one segment: lengths, checksums, rising offsets; with `records` every record of every batch."""
    base_offset = base_offset_of(path)
    view = map_file(path)
    segment = Segment(path, base_offset, base_offset, len(view))
    findings: list[Finding] = []
    for found in batches_in(view):
        if isinstance(found, Damage):
            findings.append(Finding(path, found.problem, found.position))
            continue
        if isinstance(found, Room):
            segment.room_at = found.position
            segment.size_bytes -= found.size
            continue
        position, batch = found
        if batch.base_offset < segment.end_offset:
            problem = f"the batch begins at offset {batch.base_offset}, expected {segment.end_offset} or more"
            findings.append(Finding(path, problem, position))
        if batch.next_offset > LONG_MAX:
            problem = f"the batch ends behind offset {LONG_MAX}, which no batch can"
            findings.append(Finding(path, problem, position))
        if not 0 <= batch.count <= batch.last_offset_delta + 1:
            problem = f"the batch has {batch.count} records in {batch.last_offset_delta + 1} offsets"
            findings.append(Finding(path, problem, position))
        elif records:
            try:
                read_records(batch)
            except EverlogError as error:
                findings.append(Finding(path, str(error), position))
        segment.batches += 1
        segment.records += max(0, batch.count)
        segment.end_offset = max(segment.end_offset, batch.next_offset)
        segment.positions.append(position)
        segment.base_offsets.append(batch.base_offset)
        segment.max_timestamps.append(batch.max_timestamp)
        step(batch.size)
    return segment, findings


def check_offset_index(segment: Segment, path: str) -> Iterator[Finding]:
    """Each entry names the beginning of a batch, and no record before it has the entry's offset or more."""
    view = map_file(path)
    if len(view) % offset_index.ENTRY_BYTES:
        yield Finding(path, f"it has {len(view)} bytes, expected a multiple of {offset_index.ENTRY_BYTES}")
    previous = (segment.base_offset - 1, -1)
    for number, (offset, position) in enumerate(offset_entries(view, segment.base_offset)):
        at = number * offset_index.ENTRY_BYTES
        if offset <= previous[0] or position <= previous[1]:
            yield Finding(
                path, f"entry {(offset, position)} comes after {previous}, expected both to rise", at
            )
        previous = (offset, position)
        batch = bisect_right(segment.positions, position) - 1
        if batch < 0 or segment.positions[batch] != position:
            yield Finding(path, f"offset {offset} points to position {position}, where no batch begins", at)
        elif not segment.base_offsets[batch] <= offset < segment.end_offset:
            yield Finding(
                path,
                f"offset {offset} points to position {position}, where the batch begins with offset "
                f"{segment.base_offsets[batch]} in a segment that ends at {segment.end_offset}",
                at,
            )


def check_time_index(segment: Segment, path: str) -> Iterator[Finding]:
    """Each entry's timestamp is that of its batch, and the largest up to there."""
    view = map_file(path)
    if len(view) % time_index.ENTRY_BYTES:
        yield Finding(path, f"it has {len(view)} bytes, expected a multiple of {time_index.ENTRY_BYTES}")
    previous = (-1, segment.base_offset - 1)
    largest = -1
    batch = 0
    for number, (timestamp, offset) in enumerate(time_entries(view, segment.base_offset)):
        at = number * time_index.ENTRY_BYTES
        if timestamp <= previous[0] or offset < previous[1]:
            yield Finding(
                path, f"entry {(timestamp, offset)} comes after {previous}, expected both to rise", at
            )
        previous = (timestamp, offset)
        while batch < segment.batches and segment.base_offsets[batch] <= offset:
            largest = max(largest, segment.max_timestamps[batch])
            batch += 1
        if offset >= segment.end_offset:
            yield Finding(path, f"offset {offset} lies behind the segment's end, {segment.end_offset}", at)
        elif timestamp != largest:
            yield Finding(
                path,
                f"timestamp {timestamp} at offset {offset}, expected {largest}, the largest up to there",
                at,
            )


def check_txn_index(segment: Segment, path: str) -> Iterator[Finding]:
    """Markers lie in the segment and rise; a transaction begins before its marker."""
    view = map_file(path)
    if len(view) % aborted_index.ENTRY_BYTES:
        yield Finding(path, f"it has {len(view)} bytes, expected a multiple of {aborted_index.ENTRY_BYTES}")
    marker = segment.base_offset - 1
    for number, entry in enumerate(aborted_entries(view)):
        in_order = marker < entry.last_offset < segment.end_offset and entry.first_offset < entry.last_offset
        if entry.version != 0 or not in_order:
            at = number * aborted_index.ENTRY_BYTES
            yield Finding(path, f"{entry} after the marker at {marker}, segment end {segment.end_offset}", at)
        marker = entry.last_offset


def check_snapshot(path: str, end_offset: int) -> Iterator[Finding]:
    """The checksum holds, and no producer wrote behind the offset that the snapshot stands for."""
    snapshot = producer_snapshot(map_file(path))
    if snapshot.problem is not None:
        yield Finding(path, snapshot.problem)
    stands_for = base_offset_of(path)
    if stands_for > end_offset:
        yield Finding(path, f"it stands for offset {stands_for}, the log ends at {end_offset}")
    for entry in snapshot.entries if snapshot.problem is None else ():
        if entry.last_offset >= stands_for:
            yield Finding(
                path, f"producer {entry.producer_id} wrote offset {entry.last_offset}, the name says less"
            )


def check_partition(directory: str, step: Step, *, records: bool) -> tuple[list[Segment], list[Finding]]:
    """Check all files of one partition, segment by segment in order."""
    names = sorted(os.listdir(directory))
    logs = [name for name in names if name.endswith(".log")]
    segments: list[Segment] = []
    findings: list[Finding] = []
    for name in logs:
        path = os.path.join(directory, name)
        segment, found = check_segment(path, step, records=records)
        findings += found
        if segments and segment.base_offset < segments[-1].end_offset:
            problem = (
                f"the segment before it ends at offset {segments[-1].end_offset}, expected at most its name"
            )
            findings.append(Finding(path, problem))
        segments.append(segment)
        if segment.room_at is not None and name != logs[-1]:
            problem = "zeros to the end of the file, which only the last segment may have"
            findings.append(Finding(path, problem, segment.room_at))
        findings += _check_indexes(segment, is_last=name == logs[-1])
    end_offset = segments[-1].end_offset if segments else 0
    for name in names:
        if name.endswith(".snapshot"):
            findings += check_snapshot(os.path.join(directory, name), end_offset)
    return segments, findings


def _check_indexes(segment: Segment, *, is_last: bool) -> Iterator[Finding]:
    stem = segment.path.removesuffix(".log")
    for suffix, check in (
        (offset_index.SUFFIX, check_offset_index),
        (time_index.SUFFIX, check_time_index),
        (aborted_index.SUFFIX, check_txn_index),
    ):
        path = stem + suffix
        if os.path.exists(path):
            yield from check(segment, path)
        elif not is_last and suffix != aborted_index.SUFFIX:
            yield Finding(path, "the index of a sealed segment is missing")
