"""Runs: plain batches that lie back to back, as an answer brings them, looked at all at once.

A consumer would else make an object for each batch, look at a dozen of its fields and sum it up by itself,
which takes longer than to read what is in it where batches are small. A run is what one call of the kernel
says of all of them; views of the batches are there for whoever asks. Without the kernel there are no runs,
and nothing misses them.
"""

from collections.abc import Iterator, Sequence
from typing import overload

from everlog.ports.files import Buffer
from everlog.records.batch import BatchView, whole_batches
from everlog.records.varint import LARGEST_INT64, SMALLEST_INT64

try:
    from everlog.records import _columns as _kernel
except ImportError:
    _kernel = None  # type: ignore[assignment]  # there are no runs


class PlainRun(Sequence[BatchView]):
    """Batches that are not compressed, belong to no transaction and are no markers; at least one.

    It owns nothing: `raw` is a slice of the buffer that they were found in.
    """

    __slots__ = ("_count", "_views", "leader_epoch", "next_offset", "raw")

    def __init__(self, raw: memoryview, count: int, next_offset: int, leader_epoch: int) -> None:
        self.raw = raw
        self.next_offset = next_offset
        """The offset of the record that follows the last batch."""
        self.leader_epoch = leader_epoch
        """That of the last batch."""
        self._count = count
        self._views: list[BatchView] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> BatchView: ...
    @overload
    def __getitem__(self, at: slice) -> list[BatchView]: ...
    def __getitem__(self, at: int | slice) -> BatchView | list[BatchView]:
        return self.views[at]

    def __iter__(self) -> Iterator[BatchView]:
        return iter(self.views)

    @property
    def views(self) -> list[BatchView]:
        """The batches one by one."""
        if self._views is None:
            self._views = list(whole_batches(self.raw))
        return self._views

    def checksums_hold(self) -> bool:
        """Whether every batch has the bytes that its checksum was made of."""
        assert _kernel is not None
        return _kernel.run_is_whole(self.raw)

    def cut(self, max_bytes: int) -> "tuple[PlainRun, PlainRun | None]":
        """The first batches, one at least and as many as it takes to have `max_bytes`, and the others."""
        if len(self.raw) <= max_bytes:
            return self, None
        first = _found(self.raw, SMALLEST_INT64, max_bytes)
        assert first is not None, "a part of a run is a run"
        return first, _found(self.raw[len(first.raw) :], SMALLEST_INT64, LARGEST_INT64)


def plain_run(buffer: Buffer, start: int) -> PlainRun | None:
    """The whole batches of a buffer from the one that holds offset `start` on, if all of them are plain.

    A batch that is cut off at the end is left out. None where any is of another kind, or nothing is left;
    what is wrong with a buffer is for `whole_batches` to say.
    """
    return None if _kernel is None else _found(memoryview(buffer), start, LARGEST_INT64)


def _found(view: memoryview, start: int, max_bytes: int) -> PlainRun | None:
    assert _kernel is not None
    found = _kernel.find_run(view, start, max_bytes)
    if found is None:
        return None
    begin, end, count, next_offset, leader_epoch = found
    return PlainRun(view[begin:end], count, next_offset, leader_epoch)
