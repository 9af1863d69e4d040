"""The files of a log as the tools read them: leniently, so that a damaged one shows what it still has.

The broker's own readers refuse a file at its first flaw, which is right for serving and wrong for looking.
"""

import mmap
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from struct import Struct

from everlog.log import aborted_index, offset_index, time_index
from everlog.model.errors import ConfigError
from everlog.records.batch import (
    HEADER_BYTES,
    LENGTH_OFFSET,
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchView,
)
from everlog.records.crc import crc32c

_LENGTH = Struct(">i")
_ROOM_STEP = 1 << 20
_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")
_TXN_ENTRY = Struct(">hqqqq")
_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_CRC_FROM = 6

_SEGMENT_NAME = re.compile(
    r"(\d{20})\.(?:log|index|timeindex|txnindex|snapshot)(?:\.deleted|\.swap|\.cleaned)?\Z"
)
_RAFT_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")


class FileKind(Enum):
    """What a file of a log directory holds."""

    SEGMENT = "segment"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    TEXT = "text"


_BY_SUFFIX = {
    ".log": FileKind.SEGMENT,
    ".checkpoint": FileKind.SEGMENT,
    offset_index.SUFFIX: FileKind.OFFSET_INDEX,
    time_index.SUFFIX: FileKind.TIME_INDEX,
    aborted_index.SUFFIX: FileKind.TXN_INDEX,
    ".snapshot": FileKind.PRODUCER_SNAPSHOT,
}
TEXT_NAMES = frozenset(
    {
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "partition.metadata",
        "meta.properties",
        "quorum-state",
        ".kafka_cleanshutdown",
    }
)


def kind_of(path: str) -> FileKind:
    """What a file holds, by its name; ConfigError if it is none of a log's files."""
    name = os.path.basename(path)
    if name in TEXT_NAMES:
        return FileKind.TEXT
    for suffix in (".deleted", ".swap", ".cleaned"):
        name = name.removesuffix(suffix)
    kind = _BY_SUFFIX.get(os.path.splitext(name)[1])
    if kind is None:
        raise ConfigError(
            f"{path} is not a file of a log: expected .log, .index, .timeindex, .txnindex, .snapshot, "
            f".checkpoint or one of {', '.join(sorted(TEXT_NAMES))}"
        )
    return kind


def base_offset_of(path: str) -> int:
    """The offset in a file's name; 0 where there is none."""
    name = os.path.basename(path)
    found = _SEGMENT_NAME.match(name) or _RAFT_SNAPSHOT_NAME.match(name)
    return int(found.group(1)) if found else 0


def map_file(path: str) -> memoryview:
    """The bytes of a file without reading them; they stay valid for as long as the view is kept."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes from a position on that are not what they should be."""

    position: int
    problem: str


@dataclass(frozen=True, slots=True)
class Room:
    """Zeros behind the last batch: room for the next ones, in a segment that a broker appends to."""

    position: int
    size: int


def batches_in(view: memoryview) -> Iterator[tuple[int, BatchView] | Damage | Room]:
    """Walk a segment's batches; one with a bad checksum is followed by its Damage, and the walk goes on.

    It ends where a length is impossible, since nobody can say where the next batch begins.
    """
    position = 0
    while position < len(view):
        left = len(view) - position
        if not bytes(view[position : position + HEADER_BYTES]).strip(b"\0") and not any(
            bytes(view[at : at + _ROOM_STEP]).strip(b"\0") for at in range(position, len(view), _ROOM_STEP)
        ):
            yield Room(position, left)
            return
        if left < HEADER_BYTES:
            yield Damage(position, f"{left} bytes are left, too few for a batch: a torn tail")
            return
        length = _LENGTH.unpack_from(view, position + LENGTH_OFFSET)[0]
        size = length + LENGTH_OVERHEAD
        if length < MIN_BATCH_LENGTH or size > left:
            what = "a torn tail" if size > left else "not a batch"
            yield Damage(position, f"a batch says it has {size} bytes where {left} are left: {what}")
            return
        batch = BatchView(view[position : position + size])
        yield position, batch
        if batch.magic != MAGIC:
            yield Damage(position, f"the batch has magic {batch.magic}, expected {MAGIC}")
        elif not batch.checksum_holds():
            made = crc32c(batch.raw[21:])
            yield Damage(position, f"the batch's checksum is {batch.crc:#010x}, its bytes make {made:#010x}")
        position += size


def offset_entries(view: memoryview, base_offset: int) -> list[tuple[int, int]]:
    """The (offset, position) pairs of an offset index; the zeros that Kafka fills ahead are left out."""
    whole = len(view) // offset_index.ENTRY_BYTES * offset_index.ENTRY_BYTES
    entries = list(_OFFSET_ENTRY.iter_unpack(view[:whole]))
    while entries and entries[-1] == (0, 0) and len(entries) > 1:
        entries.pop()
    if entries == [(0, 0)] and len(view) > offset_index.ENTRY_BYTES:
        return []
    return [(base_offset + relative, position) for relative, position in entries]


def time_entries(view: memoryview, base_offset: int) -> list[tuple[int, int]]:
    """The (timestamp, offset) pairs of a time index; the zeros that Kafka fills ahead are left out."""
    whole = len(view) // time_index.ENTRY_BYTES * time_index.ENTRY_BYTES
    entries = list(_TIME_ENTRY.iter_unpack(view[:whole]))
    while entries and entries[-1] == (0, 0):
        entries.pop()
    return [(timestamp, base_offset + relative) for timestamp, relative in entries]


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """One entry of a transaction index."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def aborted_entries(view: memoryview) -> list[AbortedEntry]:
    """The entries of a transaction index."""
    whole = len(view) // aborted_index.ENTRY_BYTES * aborted_index.ENTRY_BYTES
    return [AbortedEntry(*fields) for fields in _TXN_ENTRY.iter_unpack(view[:whole])]


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """One entry of a producer snapshot: a batch that a producer wrote last."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """A producer snapshot as found; `problem` says what does not hold."""

    version: int
    entries: list[ProducerEntry]
    problem: str | None


def producer_snapshot(view: memoryview) -> ProducerSnapshot:
    """Read a producer snapshot as far as it goes."""
    if len(view) < _SNAPSHOT_HEAD.size:
        return ProducerSnapshot(-1, [], f"{len(view)} bytes, expected at least {_SNAPSHOT_HEAD.size}")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(view)
    body = view[_SNAPSHOT_HEAD.size :]
    whole = len(body) // _SNAPSHOT_ENTRY.size * _SNAPSHOT_ENTRY.size
    entries = [ProducerEntry(*fields) for fields in _SNAPSHOT_ENTRY.iter_unpack(body[:whole])]
    made = crc32c(view[_SNAPSHOT_CRC_FROM:])
    problem = None
    if version != 1:
        problem = f"its version is {version}, expected 1"
    elif made != crc:
        problem = f"its checksum is {crc:#010x}, its bytes make {made:#010x}"
    elif count != len(entries) or whole != len(body):
        problem = f"it counts {count} entries, its {len(view)} bytes hold {len(entries)}"
    return ProducerSnapshot(version, entries, problem)
