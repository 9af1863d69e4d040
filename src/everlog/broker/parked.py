"""Fetches that wait for records, and what wakes them: enough bytes, a changed partition, or the time."""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from everlog.broker.replicas import Replica
from everlog.model.ids import Instant
from everlog.ports.alarm import Alarm

Answer = Callable[[bool], bool]
"""Answers a fetch with what there is now, and returns whether it did: unless it is told to go in any case,
only if that is as much as was asked for, or something that should not wait."""


class ParkedFetch:
    """A fetch that found less than it asked for."""

    __slots__ = ("_answer", "bytes_missing", "deadline", "done", "replicas")

    def __init__(
        self,
        replicas: list[Replica],
        bytes_missing: int,
        deadline: Instant,
        answer: Answer,
    ) -> None:
        self.replicas = replicas
        self.bytes_missing = bytes_missing
        self.deadline = deadline
        self.done = False
        self._answer = answer

    def complete(self) -> None:
        """Answer with what there is now; a fetch is completed once."""
        self._try(in_any_case=True)

    def complete_if_enough(self) -> None:
        """Answer if there is as much as was asked for, else go on waiting."""
        self._try(in_any_case=False)

    def _try(self, *, in_any_case: bool) -> None:
        if self.done:
            return
        self.done = True
        if not self._answer(in_any_case):
            self.done = False
            for replica in self.replicas:
                replica.watchers[self] = None
            return
        for replica in self.replicas:
            replica.watchers.pop(self, None)


class ParkingLot:
    """All fetches that wait. Those that were woken are answered when the broker settles.

    Answering at the end of a read rather than at the append lets the producer's own answer go first, and lets
    one fetch answer carry all that the read brought.
    """

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._woken: list[ParkedFetch] = []
        self._hopeful: list[ParkedFetch] = []
        """Those for whom there may be enough by now."""
        self._settlers: list[Callable[[], None]] = []
        # (deadline, order, fetch): the order keeps equal deadlines first come, first served.
        self._by_deadline: list[tuple[Instant, int, ParkedFetch]] = []
        self._order = 0

    def park(self, fetch: ParkedFetch) -> None:
        """Let a fetch wait on its partitions."""
        self._order += 1
        heappush(self._by_deadline, (fetch.deadline, self._order, fetch))
        self._alarm.ring_by(fetch.deadline)
        for replica in fetch.replicas:
            replica.watchers[fetch] = None

    def appended(self, replica: Replica, appended_bytes: int) -> None:
        """Count new bytes, which can be read at once, towards those who wait for them."""
        for fetch in list(replica.watchers):
            fetch.bytes_missing -= appended_bytes
            if fetch.bytes_missing <= 0:
                del replica.watchers[fetch]
                self._woken.append(fetch)

    def committed(self, replica: Replica) -> None:
        """More of a partition can be read; how many bytes that are is seen when they are."""
        self._hopeful.extend(replica.watchers)
        replica.watchers.clear()

    def changed(self, replicas: Iterable[Replica]) -> None:
        """Wake all who wait on these partitions: they were deleted, or lead from elsewhere."""
        for replica in replicas:
            self._woken.extend(replica.watchers)
            replica.watchers.clear()

    def settle_too(self, settler: Callable[[], None]) -> None:
        """Call something whenever the broker settles, after those who wait here."""
        self._settlers.append(settler)

    def settle(self) -> None:
        """Answer those that were woken."""
        while self._woken or self._hopeful:
            woken, self._woken = self._woken, []
            hopeful, self._hopeful = self._hopeful, []
            for fetch in woken:
                fetch.complete()
            for fetch in hopeful:
                fetch.complete_if_enough()
        for settler in self._settlers:
            settler()

    def tick(self, now: Instant) -> None:
        """Answer those whose time is up."""
        while self._by_deadline and self._by_deadline[0][0] <= now:
            heappop(self._by_deadline)[2].complete()
        while self._by_deadline and self._by_deadline[0][2].done:
            heappop(self._by_deadline)
        if self._by_deadline:
            self._alarm.ring_by(self._by_deadline[0][0])
