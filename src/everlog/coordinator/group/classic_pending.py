"""Member ids that were given out and not used yet, in all groups of a shard: a bounded number of them."""

from typing import NamedTuple

BUDGET_BYTES = 4 << 20
_OVERHEAD_BYTES = 1_024
"""About what a group and a deadline take, beside the texts of their ids."""


class PendingId(NamedTuple):
    """One id, and the group that it is for."""

    group_id: str
    member_id: str


class PendingIds:
    """Ids in the order in which they were given out.

    Whoever asks for ids and never joins could fill the memory until they time out. So all of them together
    have a budget, and the oldest make room: a client joins with its id at once, and else gets another.
    """

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._costs: dict[PendingId, int] = {}
        self._spent_bytes = 0

    def __len__(self) -> int:
        return len(self._costs)

    def add(self, group_id: str, member_id: str) -> list[PendingId]:
        """Take in an id, and return the oldest that are to be dropped (and removed here) to make room."""
        cost = len(group_id) + len(member_id) + _OVERHEAD_BYTES
        self._costs[PendingId(group_id, member_id)] = cost
        self._spent_bytes += cost
        crowded_out: list[PendingId] = []
        over = self._spent_bytes - self._budget_bytes
        for oldest, freed in self._costs.items():
            if over <= 0 or len(crowded_out) == len(self._costs) - 1:
                break
            crowded_out.append(oldest)
            over -= freed
        return crowded_out

    def remove(self, group_id: str, member_id: str) -> None:
        """An id was used, or never will be."""
        self._spent_bytes -= self._costs.pop(PendingId(group_id, member_id))
