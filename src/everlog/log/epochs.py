"""Which leader epoch began at which offset: how two logs find where they part ways (KIP-101)."""

from bisect import bisect_right
from collections.abc import Iterable

from everlog.model.ids import NO_EPOCH, LeaderEpoch, Offset

NO_OFFSET = Offset(-1)


class LeaderEpochs:
    """The first offset of every leader epoch in a log; epochs and offsets both rise."""

    __slots__ = ("_epochs", "_starts", "changed", "latest")

    def __init__(self, entries: Iterable[tuple[LeaderEpoch, Offset]] = ()) -> None:
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        self.latest: LeaderEpoch = NO_EPOCH
        """The epoch of the last batch; -1 while there is none."""
        self.changed = False
        """Whether the entries differ from those on disk."""
        for epoch, start in entries:
            self.assign(epoch, start)
        self.changed = False

    @property
    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        """The epochs with their first offsets, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: LeaderEpoch, start: Offset) -> None:
        """Note that `epoch` begins at `start`; a no-op for an epoch that is not newer than the latest."""
        if epoch <= self.latest:
            return
        # An epoch without a record in it leaves no trace: its start is that of the next one.
        while self._starts and self._starts[-1] >= start:
            self._drop_last()
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest = epoch
        self.changed = True

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch that the record at `offset` was written in; -1 if it lies before all that are known."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_EPOCH

    def end_offset_for(self, epoch: LeaderEpoch, end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch up to `epoch` and where it ended, as OffsetForLeaderEpoch answers.

        The latest epoch ends at the log's `end_offset`; an epoch of the future, or none, gives (-1, -1).
        """
        if epoch == NO_EPOCH:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, end_offset
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            return NO_EPOCH, NO_OFFSET
        if above == 0:
            return epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def newest_up_to(self, epoch: LeaderEpoch, end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch up to `epoch` and where it ends; (-1, 0) if none is known."""
        above = bisect_right(self._epochs, epoch)
        if above == 0:
            return NO_EPOCH, Offset(0)
        return self._epochs[above - 1], self._starts[above] if above < len(self._starts) else end_offset

    def parting_from(
        self, last_epoch: LeaderEpoch, offset: Offset, end_offset: Offset
    ) -> tuple[LeaderEpoch, Offset] | None:
        """Return where this log parts from one whose last record, before `offset`, is of `last_epoch`.

        That is the newest epoch that the two may share, and where it ends here; None if that log may go on.
        """
        if last_epoch < 0 or not self._epochs:
            return None
        here = self.epoch_at(Offset(offset - 1))
        newest = self.latest if here == NO_EPOCH else here
        if last_epoch > newest:
            # No leader gave that record so new an epoch, but a changed bit may have: no checksum covers it.
            # What comes next here is of an older one, and does not follow there.
            return self.newest_up_to(newest, end_offset)
        epoch, end = self.end_offset_for(last_epoch, end_offset)
        return (epoch, end) if epoch < last_epoch or end < offset else None

    def truncate_end(self, end_offset: Offset) -> None:
        """Forget the epochs that begin at or after `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            self._drop_last()

    def truncate_start(self, start_offset: Offset) -> None:
        """Forget the epochs that ended before `start_offset`; the one that holds it begins there now."""
        keep = bisect_right(self._starts, start_offset) - 1
        if keep < 0 or (keep == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:keep], self._starts[:keep]
        self._starts[0] = start_offset
        self.changed = True

    def _drop_last(self) -> None:
        self._epochs.pop()
        self._starts.pop()
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.changed = True
