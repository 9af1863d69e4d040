"""Rewritten segments into the place of the old ones, so that a crash at any time leaves one or the other.

    1. `.cleaned` files are complete and durable                           beside the loop
    2. `begin`: they become `.swap`, the log last                          on the loop
    3. the names are synced: from here on a start-up finishes the swap     beside the loop
    4. `replace`: old files become `.deleted`, the new indexes take        on the loop
       their names, and readers get the new segment
    5. the names are synced                                                beside the loop
    6. `finish`: the new log takes its name                                on the loop

Between 5 and 6 because names reach the disk in any order: a new log under its own name, beside an old
segment that it stands for, could not be told from a log that has both. What is on the loop are renames.
"""

import errno
from collections.abc import Sequence

from everlog.log import offset_index, time_index
from everlog.log.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from everlog.log.removal import Removals
from everlog.log.segment import LOG_SUFFIX, SNAPSHOT_SUFFIX, SUFFIXES, Segment
from everlog.log.segments import SegmentList
from everlog.log.sync import Unsynced
from everlog.model.ids import Instant
from everlog.ports.files import Files

CLEANED_FILES = (offset_index.SUFFIX, time_index.SUFFIX, LOG_SUFFIX)
"""What a rewritten segment consists of. It needs no transaction index: no aborted record is left in it."""


class Swap:
    """A rewritten segment, and those that it stands for."""

    __slots__ = ("irrevocable", "new", "old", "replaced")

    def __init__(self, old: Sequence[Segment], new: Segment) -> None:
        self.old = tuple(old)
        self.new = new
        self.irrevocable = False
        """Whether old files may have lost their names: what is `.swap` must be kept from here on."""
        self.replaced = False
        """Whether readers have the new segment."""


class Swaps:
    """The swap that is under way in one log, if any. It is given the log's segments, to see and to change."""

    __slots__ = ("_files", "_pending", "_removals", "_segments", "_unsynced")

    def __init__(self, files: Files, segments: SegmentList, unsynced: Unsynced, removals: Removals) -> None:
        self._files = files
        self._segments = segments
        self._unsynced = unsynced
        self._removals = removals
        self._pending: Swap | None = None

    def sync_names(self) -> int:
        """Make the names durable; blocks, and is to be run beside the loop."""
        self._files.sync_dir(self._segments.path)
        return 0

    def begin(self, swap: Swap) -> bool:
        """Let a complete rewrite be the one that counts after the next sync of names.

        False, and nothing is done, if the log has let go of one of the old segments meanwhile.
        """
        assert self._pending is None, self._segments.path
        if self._place_of(swap) is None:
            return False
        self._pending = swap
        for suffix in CLEANED_FILES:
            path = swap.new.stem + suffix
            self._files.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
        return True

    def replace(self, due: Instant) -> bool:
        """Put the new segment into the log; the old ones' files are removed at `due`.

        False if the swap is off: the log was cut, or has let go of one of the old segments.
        """
        swap = self._pending
        if swap is None:
            return False
        at = self._place_of(swap)
        if at is None:
            self._call_off(swap)
            return False
        new = swap.new
        swap.irrevocable = True
        new.open_as(new.stem + LOG_SUFFIX + SWAP_SUFFIX)
        for segment in swap.old:
            # A snapshot is the state at an offset; that of the first one is as good as it was.
            suffixes = [s for s in SUFFIXES if s != SNAPSHOT_SUFFIX] if segment is swap.old[0] else SUFFIXES
            for suffix in suffixes:
                self._removals.shelve_file(segment.stem + suffix, due)
            self._unsynced.forget(segment)
        for suffix in CLEANED_FILES:
            if suffix != LOG_SUFFIX:
                self._files.rename(new.stem + suffix + SWAP_SUFFIX, new.stem + suffix)
        self._segments.replace(at, len(swap.old), new)
        swap.replaced = True
        return True

    def finish(self, due: Instant) -> None:
        """Give the new log its name, once the names are synced after `replace`."""
        swap = self._pending
        if swap is None:
            return
        path = swap.new.stem + LOG_SUFFIX
        self._files.rename(path + SWAP_SUFFIX, path)
        self._pending = None
        if swap.new not in self._segments.in_order:
            # The log has let go of it meanwhile, when it did not bear this name.
            self._removals.shelve_file(path, due)

    def settle(self, due: Instant) -> None:
        """Bring what is under way to an end now, before the log is cut. It may block.

        The caller syncs the names before it cuts: a swap that a start-up finished would undo the cut.
        """
        swap = self._pending
        if swap is None:
            return
        if swap.replaced:
            self.sync_names()
            self.finish(due)
        elif swap.irrevocable:
            raise OSError(errno.EIO, "a swap of segments has failed half way", self._segments.path)
        else:
            self._call_off(swap)

    def _place_of(self, swap: Swap) -> int | None:
        """Where in the log the old segments are; None if it has not all of them, sealed, in a row."""
        in_order, count = self._segments.in_order, len(swap.old)
        for at, segment in enumerate(in_order):
            if segment is swap.old[0]:
                found = in_order[at : at + count]
                in_place = all(a is b for a, b in zip(found, swap.old, strict=False))
                # One segment is left behind them, the active one at least.
                return at if in_place and at + count < len(in_order) else None
        return None

    def _call_off(self, swap: Swap) -> None:
        for suffix in reversed(CLEANED_FILES):
            for ending in (SWAP_SUFFIX, CLEANED_SUFFIX):
                path = swap.new.stem + suffix + ending
                if self._files.exists(path):
                    self._files.unlink(path)
        self._pending = None
