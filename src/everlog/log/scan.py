"""Walks over a segment file: by header to find a batch, by every byte to prove what lies there."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from everlog.model.errors import CorruptDataError
from everlog.ports.files import File
from everlog.records.batch import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_OFFSET,
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchView,
)
from everlog.records.crc import crc32c

SCAN_BYTES = 4 << 20
"""How much a full scan reads at once."""
MAX_BATCH_BYTES = 1 << 28
"""More than any request brings in; a length above it is damage, and must not be allocated."""
_WALK_BYTES = 8 << 10
_WALKED = Struct(">qiibIhiqq")
_LENGTH = Struct(">i")


class Header(NamedTuple):
    """Where a batch lies and what it spans."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    attributes: int

    @property
    def end(self) -> int:
        """The position behind the batch."""
        return self.position + self.size


def headers(file: File, position: int, end: int) -> Iterator[Header]:
    """Yield the batches from `position` on, by their headers only; CorruptDataError where none can be.

    The offsets must rise. What the checksum covers is not checked, but for what a walk depends on.
    """
    chunk, chunk_at = b"", position
    expected = -1
    while position < end:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = file.read(position, min(_WALK_BYTES, end - position)), position, 0
            if len(chunk) < HEADER_BYTES:
                raise _damaged(file, position, f"{len(chunk)} bytes, too few for a batch")
        base, length, epoch, magic, _, attributes, last_delta, _, max_timestamp = _WALKED.unpack_from(
            chunk, at
        )
        size = length + LENGTH_OVERHEAD
        if length < MIN_BATCH_LENGTH or position + size > end:
            raise _damaged(file, position, f"a batch of {size} bytes, where {end - position} are left")
        if magic != MAGIC or last_delta < 0 or base < expected:
            raise _damaged(
                file, position, f"magic {magic}, offset {base} + {last_delta}, expected {expected} or more"
            )
        expected = base + last_delta + 1
        yield Header(position, size, base, base + last_delta, max_timestamp, epoch, attributes)
        position += size


def batches(
    file: File, position: int, end: int, scan_bytes: int = SCAN_BYTES
) -> Iterator[tuple[int, BatchView]]:
    """Yield every batch between two positions with its own, each proved by its checksum, in big reads.

    CorruptDataError at the first whose length, magic, offsets or checksum cannot be. A view stays valid
    for as long as it is kept.
    """
    expected = -1
    scan_bytes = max(scan_bytes, HEADER_BYTES)
    read_bytes = scan_bytes
    while position < end:
        wanted = min(read_bytes, end - position)
        chunk = memoryview(file.read(position, wanted))
        if len(chunk) < wanted:
            raise _damaged(file, position, f"{len(chunk)} bytes left, expected {end - position}")
        at = 0
        read_bytes = scan_bytes
        while at < wanted:
            size = _size_at(file, chunk, at, position, end)
            if size > wanted - at:
                # The chunk does not hold it: it is read again from its first byte, as a whole if need be.
                read_bytes = max(size, scan_bytes)
                break
            batch = BatchView(chunk[at : at + size])
            if batch.base_offset < expected:
                raise _damaged(file, position + at, f"{batch}, expected offset {expected} or more")
            prove(file, position + at, batch)
            expected = batch.base_offset + batch.last_offset_delta + 1
            yield position + at, batch
            at += size
        position += at


def is_room(file: File, position: int, end: int) -> bool:
    """Whether there is nothing but zeros, which no batch begins with: what `File.lend` may leave."""
    while position < end:
        chunk = file.read(position, min(SCAN_BYTES, end - position))
        if chunk.strip(b"\0") or not chunk:
            return False
        position += len(chunk)
    return True


def _size_at(file: File, chunk: memoryview, at: int, chunk_at: int, end: int) -> int:
    """The size of the batch at `at` in a chunk, which may end before it; the file may not."""
    left = end - chunk_at - at
    if left < HEADER_BYTES:
        raise _damaged(file, chunk_at + at, f"{left} bytes, too few for a batch")
    if len(chunk) - at < LENGTH_OVERHEAD:
        return HEADER_BYTES
    size: int = _LENGTH.unpack_from(chunk, at + LENGTH_OFFSET)[0] + LENGTH_OVERHEAD
    if not HEADER_BYTES <= size <= left or size > MAX_BATCH_BYTES:
        raise _damaged(file, chunk_at + at, f"a batch of {size} bytes, where {left} are left")
    return size


def prove(file: File, position: int, batch: BatchView) -> None:
    """Raise CorruptDataError unless the batch's own fields agree and its checksum holds."""
    if (
        batch.magic != MAGIC
        or batch.last_offset_delta < 0
        or not 0 <= batch.count <= batch.last_offset_delta + 1
    ):
        raise _damaged(
            file,
            position,
            f"magic {batch.magic}, {batch.count} records in {batch.last_offset_delta + 1} offsets",
        )
    if crc32c(batch.raw[CRC_START:]) != batch.crc:
        raise _damaged(file, position, "a batch whose checksum does not hold")


def _damaged(file: File, position: int, found: str) -> CorruptDataError:
    return CorruptDataError(f"{file.path} at position {position} has {found}")
