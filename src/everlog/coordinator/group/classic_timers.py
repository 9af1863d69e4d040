"""Deadlines by name, the earliest first."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from everlog.model.ids import Instant
from everlog.ports.alarm import Alarm

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class Timers(Generic[K]):
    """Deadlines that move often, as sessions do with each heartbeat: to move one later costs next to nothing.

    The heap may have an entry that is too early or for nobody; it is looked at again when its time comes.
    """

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._deadlines: dict[K, Instant] = {}
        # (when to look, tie-breaker, name). For each name, one entry is at its deadline or before it.
        self._heap: list[tuple[Instant, int, K]] = []
        self._entered: dict[K, Instant] = {}
        """The earliest entry of each name in the heap; never later than its deadline."""
        self._count = 0
        self._told: Instant | None = None
        """The earliest that the alarm was asked for, as far as it has not rung."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, name: K) -> bool:
        return name in self._deadlines

    def set(self, name: K, deadline: Instant) -> None:
        """Set a deadline, or move it."""
        self._deadlines[name] = deadline
        entered = self._entered.get(name)
        if entered is None or deadline < entered:
            self._enter(name, deadline)
        if self._told is None or deadline < self._told:
            self._told = deadline
            self._alarm.ring_by(deadline)

    def cancel(self, name: K) -> None:
        """Drop a deadline, if there is one."""
        if self._deadlines.pop(name, None) is None:
            return
        del self._entered[name]
        self._keep_small()

    def pop_due(self, now: Instant) -> K | None:
        """Take out the name whose deadline passed first, if one has by `now`."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now:
            return None
        name = heappop(self._heap)[2]
        del self._deadlines[name]
        del self._entered[name]
        return name

    def deadline(self) -> Instant | None:
        """The earliest deadline."""
        self._drop_stale()
        self._told = self._heap[0][0] if self._heap else None
        return self._told

    def clear(self) -> None:
        """Drop all deadlines."""
        self._deadlines.clear()
        self._entered.clear()
        self._heap.clear()

    def _enter(self, name: K, deadline: Instant) -> None:
        self._entered[name] = deadline
        self._count += 1
        heappush(self._heap, (deadline, self._count, name))
        self._keep_small()

    def _drop_stale(self) -> None:
        while self._heap:
            at, _, name = self._heap[0]
            if self._entered.get(name) == at:
                deadline = self._deadlines[name]
                if deadline == at:
                    return
                heappop(self._heap)
                self._enter(name, deadline)
            else:
                heappop(self._heap)

    def _keep_small(self) -> None:
        # What was cancelled lies in the heap until its time comes, which may be half an hour; names that come
        # and go at once must not pile up there.
        if len(self._heap) <= 2 * len(self._deadlines) + _SLACK:
            return
        self._entered = dict(self._deadlines)
        self._heap = [(deadline, at, name) for at, (name, deadline) in enumerate(self._deadlines.items())]
        self._count = len(self._heap)
        heapify(self._heap)
