"""Produce requests that follow each other for the same partition, as one thing.

A producer with several requests in flight has them arrive together. Where a compiler was at hand at
installation, those of the plainest kind are read as one run and then checked, written and answered as one.
All others, and all of them without the compiled reader, go one by one through `produce`, the reference.
"""

from collections.abc import Callable
from typing import NoReturn

from everlog.ports.files import Buffer

ProduceRun = tuple[int, int, int, str | bytes, int, tuple[int, ...], tuple[tuple[int, int], ...]]
"""Where the last request ends in the data; version, acks, topic name or, from version 13, its id, partition;
then of each request its correlation id, and where its batch begins and ends."""

_read: Callable[[Buffer, int, int], ProduceRun | None] | None
_write: Callable[[str | bytes, int, tuple[int, ...], list[int], int], bytes] | None
try:
    from everlog.wire.hot._kernel import read_run as _read
    from everlog.wire.hot._kernel import write_run_answers as _write
except ImportError:
    _read = _write = None


def _find_none(data: Buffer, at: int, end: int, /) -> None:
    """There is no reader of runs."""


read_run: Callable[[Buffer, int, int], ProduceRun | None] = _read or _find_none
"""Read the run that begins at `at`, with the size field of its first request; None if none does."""


def _not_read(*_run: object) -> NoReturn:
    raise AssertionError("a run is read by the kernel")


write_run_answers: Callable[[str | bytes, int, tuple[int, ...], list[int], int], bytes] = _write or _not_read
"""Return the answer frames of a run of which none has failed, one behind the other: of its topic, partition
and correlation ids, their base offsets and the log's first offset."""


def runs_are_read() -> bool:
    """Whether `read_run` ever finds anything in this process."""
    return _read is not None
