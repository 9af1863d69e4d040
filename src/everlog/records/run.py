"""A run of batches: those that one read of a socket brought for one partition, checked as one.

The check is compiled, and knows batches of the plainest kind only: no codec, no transaction, one producer or
none. Anything else, and everything where there was no compiler at installation, is checked one by one in
`log.validate`, which is the reference and puts into words what is wrong.
"""

from collections.abc import Callable
from typing import NoReturn

from everlog.ports.files import Buffer
from everlog.records.batch import CRC_START
from everlog.records.crc import crc32c

_BASE_OFFSET_BYTES = 8

Spans = tuple[tuple[int, int], ...]
RunHeader = tuple[int, int, int, int, int, int]
"""Of one batch: checksum, last offset delta, largest timestamp, base sequence; where it begins and ends."""
Checked = tuple[tuple[RunHeader, ...], bool, int, int, int, int, int, int, int]
"""Of a run: the batches; whether any record is without a key; records, largest timestamp, bytes of all
batches and of the largest one; the producer whose sequence numbers follow each other, -1 if nobody, its
epoch, and the first of those numbers."""

_check: Callable[[Buffer, Spans], Checked | None] | None
_stamp: Callable[[Buffer, Spans, int, int], int] | None
try:
    from everlog.records._kernel import check_run as _check
    from everlog.records._kernel import stamp_run as _stamp
except ImportError:
    _check = _stamp = None


def _not_made(*_run: object) -> NoReturn:
    raise AssertionError("a run is made by the kernel")


stamp_run: Callable[[Buffer, Spans, int, int], int] = _stamp or _not_made
"""Give each batch its place in the log, one behind the other; returns the offset behind the last."""


BatchRun = tuple[memoryview, Spans, Checked, list[memoryview]]
"""Batches that passed every check that does not depend on the log: the data that they lie in and where, what
was found, and the bytes of each, which are valid for as long as the data is. `stamp_run` gives them their
places."""


def run_bytes(run: BatchRun) -> int:
    """Bytes of all batches of a run."""
    return run[2][4]


def unstamp_run(run: BatchRun) -> None:
    """Make the batches as they came, for whoever looks at them one by one after a write has failed."""
    for view in run[3]:
        view[:_BASE_OFFSET_BYTES] = bytes(_BASE_OFFSET_BYTES)


def checked_run(data: memoryview, spans: Spans) -> BatchRun | None:
    """Return the batches as a run, or None if one of them needs a closer look."""
    checked = None if _check is None else _check(data, spans)
    if checked is None:
        return None
    views: list[memoryview] = []
    for checksum, _, _, _, start, end in checked[0]:
        view = data[start:end]
        if crc32c(view[CRC_START:]) != checksum:
            return None
        views.append(view)
    return data, spans, checked, views
