"""The transactions of a segment that were aborted, in the order of their markers.

An entry is 34 bytes and lies with the segment that holds the abort marker. The file is made with its
first entry. It has no checksum, so its numbers are held against the segment before they are used.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset, ProducerId
from everlog.ports.files import Buffer

SUFFIX = ".txnindex"
ENTRY_BYTES = 34
_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction: a reader of committed records skips the producer's between the offsets."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    """The offset of the abort marker."""
    last_stable_offset: Offset
    """The first offset of the oldest transaction still open after the marker, else the offset behind it."""


def pack(entries: Iterable[AbortedTxn]) -> bytes:
    """Return the bytes of entries."""
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def unpack(raw: Buffer, base_offset: int, end_offset: int) -> list[AbortedTxn]:
    """Read the entries of a segment that holds `base_offset` up to `end_offset`.

    CorruptDataError unless markers lie in the segment and rise, and each transaction begins before its own.
    """
    if len(raw) % ENTRY_BYTES:
        raise CorruptDataError(
            f"a transaction index has {len(raw)} bytes, expected a multiple of {ENTRY_BYTES}"
        )
    found: list[AbortedTxn] = []
    last_marker = base_offset - 1
    for version, producer_id, first, last, stable in _ENTRY.iter_unpack(raw):
        entry = AbortedTxn(ProducerId(producer_id), Offset(first), Offset(last), Offset(stable))
        in_order = last_marker < last < end_offset and 0 <= first < last and 0 <= stable <= last + 1
        if version != _VERSION or producer_id < 0 or not in_order:
            raise CorruptDataError(
                f"a transaction index has version {version} {entry} after the marker at {last_marker}, "
                f"in a segment of {base_offset} to {end_offset}"
            )
        found.append(entry)
        last_marker = last
    return found
