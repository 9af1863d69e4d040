"""Leader: one node's lead of the quorum in one epoch, and what is committed in it."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from everlog.model.ids import Offset


class Leader:
    """Counts how far each voter has the log on disk, itself included.

    The high watermark is what a majority has. It stays unknown until the majority has an entry of this
    very epoch: what earlier leaders left is only committed along with one of ours (Raft, section 5.4.2).
    """

    def __init__(self, epoch: int, epoch_start: Offset, voters: Iterable[int]) -> None:
        self.epoch = epoch
        self.epoch_start = epoch_start
        """Where the entry that announces this leader lies."""
        self._ends = dict.fromkeys(voters, Offset(0))
        """What each voter has on disk; it never goes back."""
        self._high_watermark: Offset | None = None

    @property
    def high_watermark(self) -> Offset | None:
        """Up to where the log is committed; None before this leader has committed anything."""
        return self._high_watermark

    @property
    def ends(self) -> Mapping[int, Offset]:
        """What each voter has on disk."""
        return MappingProxyType(self._ends)

    def acknowledged(self, voter: int, end: Offset) -> bool:
        """Take in that a voter has all below `end` on disk; True if that commits something new."""
        if voter not in self._ends or end <= self._ends[voter]:
            return False
        self._ends[voter] = end
        by_majority = sorted(self._ends.values(), reverse=True)[len(self._ends) // 2]
        if by_majority <= self.epoch_start:
            return False
        if self._high_watermark is not None and by_majority <= self._high_watermark:
            return False
        self._high_watermark = by_majority
        return True
