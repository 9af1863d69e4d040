"""Fetches that wait for records, and what wakes them: enough bytes, a changed partition, or the time."""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from everlog.broker.replicas import Replica
from everlog.model.ids import Instant
from everlog.ports.alarm import Alarm


class ParkedFetch:
    """A fetch that found less than it asked for."""

    __slots__ = ("_complete", "bytes_missing", "deadline", "done", "replicas")

    def __init__(
        self,
        replicas: list[Replica],
        bytes_missing: int,
        deadline: Instant,
        complete: Callable[[], None],
    ) -> None:
        self.replicas = replicas
        self.bytes_missing = bytes_missing
        self.deadline = deadline
        self.done = False
        self._complete = complete

    def complete(self) -> None:
        """Answer with what there is now; a fetch is completed once."""
        if self.done:
            return
        self.done = True
        for replica in self.replicas:
            replica.watchers.pop(self, None)
        self._complete()


class ParkingLot:
    """All fetches that wait. Those that were woken are answered when the broker settles.

    Answering at the end of a read rather than at the append lets the producer's own answer go first, and lets
    one fetch answer carry all that the read brought.
    """

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._woken: list[ParkedFetch] = []
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
        """Count new bytes towards those who wait for them."""
        for fetch in list(replica.watchers):
            fetch.bytes_missing -= appended_bytes
            if fetch.bytes_missing <= 0:
                del replica.watchers[fetch]
                self._woken.append(fetch)

    def changed(self, replicas: Iterable[Replica]) -> None:
        """Wake all who wait on these partitions: they were deleted, or lead from elsewhere."""
        for replica in replicas:
            self._woken.extend(replica.watchers)
            replica.watchers.clear()

    def settle(self) -> None:
        """Answer those that were woken."""
        while self._woken:
            woken, self._woken = self._woken, []
            for fetch in woken:
                fetch.complete()

    def tick(self, now: Instant) -> None:
        """Answer those whose time is up."""
        while self._by_deadline and self._by_deadline[0][0] <= now:
            heappop(self._by_deadline)[2].complete()
        while self._by_deadline and self._by_deadline[0][2].done:
            heappop(self._by_deadline)
        if self._by_deadline:
            self._alarm.ring_by(self._by_deadline[0][0])
