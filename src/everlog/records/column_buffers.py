"""The buffers of columns, as Arrow lays them out, on their way to batches and out of them.

Nothing here knows Arrow: a column is its buffers. Numbers are in the machine's byte order. A validity
bitmap has a bit for each row, the lowest first, and is None where no row is null.
"""

from collections.abc import Iterator
from typing import NamedTuple

from everlog.ports.files import Buffer

LARGEST_INT64 = (1 << 63) - 1


class Span(NamedTuple):
    """Batches to read columns from."""

    raw: Buffer
    """Whole batches as they came, back to back; just one if there is a section."""
    section: Buffer | None
    """The records of that one uncompressed; None if they lie in `raw` as they are."""
    start: int
    """The first offset that is wanted."""
    stop: int
    """The offset behind the last one wanted; `LARGEST_INT64` for all."""
    topic: int
    """The number of the topic in a dictionary."""
    partition: int


class Binary(NamedTuple):
    """A column of bytes: row i has those from offsets[i] up to offsets[i + 1] of the data."""

    offsets: Buffer
    """Of 32 bits, one more than there are rows."""
    data: Buffer
    validity: Buffer | None
    null_count: int


class Views(NamedTuple):
    """A column of bytes that lie where they are: Arrow's layout of views."""

    views: Buffer
    """Of 16 bytes for each row: the size, then the bytes if they are 12 at most, else the first 4 of them,
    the number of the buffer that they lie in, and where in it."""
    buffers: tuple[Buffer, ...]
    validity: Buffer | None
    null_count: int


class Columns(NamedTuple):
    """The records of some batches, a buffer for each column."""

    rows: int
    offset: Buffer
    """Of 64 bits."""
    timestamp: Buffer
    """Of 64 bits, milliseconds since 1970."""
    timestamp_validity: Buffer | None
    """A record that has no timestamp is null, and -1 in `timestamp`."""
    timestamp_nulls: int
    timestamp_type: Buffer
    """Of 8 bits: 1 where the broker's clock made the timestamp."""
    leader_epoch: Buffer
    """Of 32 bits."""
    topic: Buffer
    """Of 32 bits, from the spans."""
    partition: Buffer
    """Of 32 bits."""
    key: Binary
    value: Binary
    header_lists: Buffer
    """Of 32 bits: row i has the headers from number header_lists[i] up to header_lists[i + 1]."""
    header_count: int
    header_name: Binary
    """UTF-8, with what is not replaced by U+FFFD; never null."""
    header_value: Binary


class BinarySource(NamedTuple):
    """A column of bytes to make records of, which may be a slice of a longer one."""

    offsets: Buffer
    data: Buffer
    validity: Buffer | None
    start: int
    """The slot of the first row."""
    wide: bool
    """Whether the offsets are of 64 bits rather than 32."""


class NumberSource(NamedTuple):
    """A column of numbers: 64 bits for timestamps in milliseconds, 32 bits for partitions."""

    numbers: Buffer
    validity: Buffer | None
    start: int


class HeaderSource(NamedTuple):
    """A column of lists of headers; a null list is an empty one."""

    offsets: Buffer
    validity: Buffer | None
    start: int
    wide: bool
    entries: int
    """How many headers there are in `names` and `contents`."""
    names: BinarySource
    contents: BinarySource


class RowSource(NamedTuple):
    """Columns to make records of; those left out are null, or `now` for timestamps."""

    rows: int
    key: BinarySource | None
    value: BinarySource | None
    headers: HeaderSource | None
    timestamps: NumberSource | None
    now: int


class EncodedRows(NamedTuple):
    """Records of one batch before compression, and where to go on."""

    section: bytearray
    """The records, behind as much room as was asked for."""
    next: int
    """The row, or the place in the order, behind the last one taken."""
    base_timestamp: int
    max_timestamp: int


class Keyless(NamedTuple):
    """Where rows without a key go: to each of some partitions in turn, `run_rows` at a time."""

    partitions: tuple[int, ...]
    run_rows: int
    run_at: int = 0
    """How many rows went before."""

    def runs(self, rows: int) -> Iterator[tuple[int, int, int]]:
        """Yield where each of so many rows without a key goes: a partition, its first row, and the end."""
        start = 0
        while start < rows:
            turn, done = divmod(self.run_at + start, self.run_rows)
            end = min(rows, start + self.run_rows - done)
            yield self.partitions[turn % len(self.partitions)], start, end
            start = end


class Routed(NamedTuple):
    """Rows by partition."""

    order: bytearray
    """The numbers of the rows in 32 bits: those of partition 0 first, in their order."""
    ends: tuple[int, ...]
    """Where in the order each partition ends."""
    run_at: int
    """As in `Keyless`, for the next call."""
