"""Skim: one pass over the records of a batch that checks them all and keeps none.

The broker does this once for each batch that it takes in, before the batch gets an offset. The pass is
compiled where a compiler was at hand at installation, and plain Python otherwise; this module picks
which, and EVERLOG_PURE_PYTHON=1 in the environment keeps the compiled one from loading. Both give the
same answers; what is wrong with a record is always put into words by the plain one.
"""

from collections.abc import Callable
from typing import NamedTuple

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records.varint import LARGEST_INT64, SMALLEST_INT64, read_varint, read_varlong

_kernel_skim: Callable[[Buffer, int, int], tuple[int, int, bool, int, int]] | None
try:
    from everlog.records._kernel import skim as _kernel_skim
except ImportError:
    _kernel_skim = None


class Skim(NamedTuple):
    """What a batch's records say that its header should agree with."""

    max_timestamp: int
    """The largest timestamp; -1 if there are no records."""

    max_timestamp_delta: int
    """The offset delta of the first record that has it; -1 if there are no records."""

    null_keys: bool
    """Whether any record is without a key."""


def skim(records: Buffer, count: int, base_timestamp: int) -> Skim:
    """Walk an uncompressed records section and sum it up; CorruptDataError names the record that is wrong.

    Holds afterwards: there are exactly `count` records with offset deltas 0 to count - 1 in order, every
    length and header count fits, no varint is too long, every timestamp has 64 bits, no byte is left over.
    """
    if _kernel_skim is None:
        return skim_plainly(records, count, base_timestamp)
    found = _kernel_skim(records, count, base_timestamp)
    if found[3] < 0:
        return Skim(found[0], found[1], found[2])
    return skim_compiled(records, count, base_timestamp)


def kernel_is_loaded() -> bool:
    """Whether `skim` runs compiled in this process."""
    return _kernel_skim is not None


def skim_compiled(records: Buffer, count: int, base_timestamp: int) -> Skim:
    """As `skim`, by the compiled kernel, which must be there."""
    assert _kernel_skim is not None, "the kernel is not built"
    max_timestamp, delta, null_keys, bad, position = _kernel_skim(records, count, base_timestamp)
    if bad < 0:
        return Skim(max_timestamp, delta, null_keys)
    _skim_from(records, count, base_timestamp, first=bad, position=position)
    raise AssertionError(f"the kernel refused record {bad} at byte {position} and the reference did not")


def skim_plainly(records: Buffer, count: int, base_timestamp: int) -> Skim:
    """As `skim`, in plain Python: the reference that the kernel is held to."""
    return _skim_from(records, count, base_timestamp, first=0, position=0)


def _skim_from(records: Buffer, count: int, base_timestamp: int, *, first: int, position: int) -> Skim:
    """Skim from record number `first`, which begins at `position`."""
    if count < 0:
        raise CorruptDataError(f"a batch gives its number of records as {count}")
    # Indexing bytes is the quickest there is without a kernel, and well worth the copy.
    data = records if isinstance(records, bytes) else bytes(records)
    max_delta = max_index = None
    null_keys = False
    for index in range(first, count):
        try:
            timestamp_delta, null_key, position = _check_record(data, position, index)
            if not SMALLEST_INT64 <= base_timestamp + timestamp_delta <= LARGEST_INT64:
                raise CorruptDataError(f"its timestamp is {base_timestamp + timestamp_delta}")
        except CorruptDataError as error:
            raise CorruptDataError(f"record {index} of {count} is damaged: {error}") from None
        null_keys = null_keys or null_key
        if max_delta is None or timestamp_delta > max_delta:
            max_delta, max_index = timestamp_delta, index
    if position != len(data):
        raise CorruptDataError(f"{len(data) - position} bytes are left over after {count} records")
    if max_delta is None or max_index is None:
        return Skim(-1, -1, null_keys=False)
    return Skim(base_timestamp + max_delta, max_index, null_keys)


def _check_record(data: bytes, position: int, index: int) -> tuple[int, bool, int]:
    """Check the record at `position`; return its timestamp delta, whether its key is null, and its end."""
    size, position = read_varint(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise CorruptDataError(f"its size is {size} where {len(data) - position} bytes are left")
    timestamp_delta, position = read_varlong(data, position + 1)  # Behind a byte of unused attributes.
    offset_delta, position = read_varint(data, position)
    if offset_delta != index:
        raise CorruptDataError(f"its offset delta is {offset_delta}, expected {index}")
    key_bytes, position = read_varint(data, position)
    position = _step_over(position, end, key_bytes, "key")
    value_bytes, position = read_varint(data, position)
    position = _step_over(position, end, value_bytes, "value")
    headers, position = read_varint(data, position)
    if not 0 <= headers <= end - position:
        raise CorruptDataError(f"it has {headers} headers where {end - position} bytes are left")
    for _ in range(headers):
        name_bytes, position = read_varint(data, position)
        if name_bytes < 0:
            raise CorruptDataError(f"the length of a header's name is {name_bytes}")
        position = _step_over(position, end, name_bytes, "header name")
        header_bytes, position = read_varint(data, position)
        position = _step_over(position, end, header_bytes, "header value")
    if position != end:
        raise CorruptDataError(f"its size is {size}, but {size + position - end} bytes make it up")
    return timestamp_delta, key_bytes < 0, end


def _step_over(position: int, end: int, length: int, what: str) -> int:
    """Return the position behind a field of `length` bytes, where -1 stands for null."""
    if length < -1 or length > end - position:
        raise CorruptDataError(f"the length of its {what} is {length} where {end - position} bytes are left")
    return position + length if length > 0 else position
