"""A run of batches: those that one read of a socket brought for one partition, checked as one.

The check is compiled, and knows batches of the plainest kind only: no codec, no transaction, one producer or
none. Anything else, and everything where there was no compiler at installation, is checked one by one in
`log.validate`, which is the reference and puts into words what is wrong.
"""

from collections.abc import Callable

from everlog.ports.files import Buffer
from everlog.records.batch import CRC_START
from everlog.records.crc import crc32c

_BASE_OFFSET_BYTES = 8

Spans = tuple[tuple[int, int], ...]
RunHeader = tuple[int, int, int, int, int, int]
"""Of one batch: checksum, last offset delta, largest timestamp, base sequence; where it begins and ends."""
_Checked = tuple[tuple[RunHeader, ...], bool, int, int, int, int, int, int, int]

_check: Callable[[Buffer, Spans], _Checked | None] | None
_stamp: Callable[[Buffer, Spans, int, int], int] | None
try:
    from everlog.records._kernel import check_run as _check
    from everlog.records._kernel import stamp_run as _stamp
except ImportError:
    _check = _stamp = None


class BatchRun:
    """Batches that passed every check that does not depend on the log."""

    __slots__ = (
        "_data",
        "_spans",
        "first_sequence",
        "headers",
        "largest",
        "max_timestamp",
        "null_keys",
        "producer_epoch",
        "producer_id",
        "records",
        "size",
        "views",
    )

    def __init__(self, data: memoryview, spans: Spans, checked: _Checked, views: list[memoryview]) -> None:
        self._data = data
        self._spans = spans
        self.views = views
        """The bytes of each batch; they are valid for as long as the buffer is."""
        self.headers: tuple[RunHeader, ...]
        self.null_keys: bool
        """Whether any record is without a key."""
        self.size: int
        """Bytes of all batches; those of the largest one are in `largest`."""
        self.producer_id: int
        """Whose batches they are, with sequence numbers that follow each other; -1 if nobody's."""
        (
            self.headers,
            self.null_keys,
            self.records,
            self.max_timestamp,
            self.size,
            self.largest,
            self.producer_id,
            self.producer_epoch,
            self.first_sequence,
        ) = checked

    def stamp(self, base_offset: int, leader_epoch: int) -> int:
        """Give each batch its place in the log, one behind the other; returns the offset behind the last."""
        assert _stamp is not None, "a run is made by the kernel"
        return _stamp(self._data, self._spans, base_offset, leader_epoch)

    def unstamp(self) -> None:
        """Make the batches as they came, for whoever looks at them one by one after a write has failed."""
        for view in self.views:
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
    return BatchRun(data, spans, checked, views)
