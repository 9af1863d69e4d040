"""The log as consensus needs it: append at the end, make durable, cut back."""

from collections.abc import Callable
from typing import Protocol

from everlog.model.errors import StorageError
from everlog.model.ids import Offset


class QuorumLog(Protocol):
    """The log that the quorum agrees on."""

    @property
    def end_offset(self) -> Offset:
        """Behind the last record, durable or not."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; -1 in an empty log."""
        ...

    def append(self, batch: bytearray, epoch: int) -> None:
        """Append one batch at `end_offset`; StorageError, and nothing changed, if the disk refuses."""
        ...

    def sync(self, done: Callable[[Offset | StorageError], None]) -> None:
        """Make all that is appended durable, then say up to where. `done` comes after this has returned."""
        ...

    def cut_back(self, end: Offset) -> None:
        """Give up all from `end` on and heal the log after a failed sync; StorageError if it cannot be."""
        ...
