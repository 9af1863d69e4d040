"""Fetches that wait for records, and what wakes them: enough bytes, a changed partition, or the time."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from everlog.broker.exchange import Exchange
from everlog.broker.replicas import Replica
from everlog.model.ids import Instant
from everlog.ports.alarm import Alarm

Answer = Callable[[bool], bool]
"""Answers a fetch with what there is now, and returns whether it did: unless it is told to go in any case,
only if that is as much as was asked for, or something that should not wait."""


FETCH_BYTES: Final = 1_500
PARTITION_BYTES: Final = 400
"""What a fetch that waits takes, and each of its partitions: an estimate on the safe side."""

SWEEP_MS: Final = 1_000
"""How long it takes at least, with no room left, until those are looked for again whose clients have gone."""

_FEW_DONE: Final = 1_000


class ParkedFetch:
    """A fetch that found less than it asked for."""

    __slots__ = ("_answer", "bytes_missing", "deadline", "done", "exchange", "held_bytes", "replicas")

    def __init__(
        self,
        exchange: Exchange,
        replicas: list[Replica],
        bytes_missing: int,
        deadline: Instant,
        answer: Answer,
    ) -> None:
        self.exchange = exchange
        self.replicas = replicas
        self.bytes_missing = bytes_missing
        self.deadline = deadline
        self.done = False
        self.held_bytes = FETCH_BYTES + PARTITION_BYTES * len(replicas)
        """The memory that it takes while it waits."""
        self._answer = answer

    def complete(self) -> None:
        """Answer with what there is now; a fetch is completed once."""
        self._try(in_any_case=True)

    def complete_if_enough(self) -> None:
        """Answer if there is as much as was asked for, else go on waiting."""
        self._try(in_any_case=False)

    def _try(self, *, in_any_case: bool) -> None:
        assert not self.done, self.exchange.correlation_id
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

    def __init__(self, alarm: Alarm, max_bytes: int) -> None:
        self._alarm = alarm
        self._max_bytes = max_bytes
        self.held_bytes = 0
        """The memory that those take who wait, as estimated."""
        self._swept_at: Instant | None = None
        self._woken: list[ParkedFetch] = []
        self._hopeful: list[ParkedFetch] = []
        """Those for whom there may be enough by now."""
        self._settlers: list[Callable[[], None]] = []
        # (deadline, order, fetch): the order keeps equal deadlines first come, first served.
        self._by_deadline: list[tuple[Instant, int, ParkedFetch]] = []
        self._done = 0
        """How many of those have been answered before their time was up."""
        self._order = 0

    def __len__(self) -> int:
        """How many it keeps; among them may be some that were answered."""
        return len(self._by_deadline)

    def park(self, fetch: ParkedFetch, now: Instant) -> bool:
        """Let a fetch wait on its partitions; False if there is no room for it, and it is to be answered."""
        held_bytes = self.held_bytes + fetch.held_bytes
        if held_bytes > self._max_bytes:
            if not self._made_room(fetch.held_bytes, now):
                return False
            held_bytes = self.held_bytes + fetch.held_bytes
        self.held_bytes = held_bytes
        self._order += 1
        heappush(self._by_deadline, (fetch.deadline, self._order, fetch))
        self._alarm.ring_by(fetch.deadline)
        for replica in fetch.replicas:
            replica.watchers[fetch] = None
        return True

    def _made_room(self, wanted: int, now: Instant) -> bool:
        """Let those go whose clients have gone, every now and then."""
        if self._swept_at is not None and now - self._swept_at < SWEEP_MS:
            return False
        self._swept_at = now
        for _, _, fetch in self._by_deadline:
            if fetch.exchange.abandoned:
                self._complete(fetch)
        return self.held_bytes + wanted <= self._max_bytes

    def _complete(self, fetch: ParkedFetch) -> None:
        if not fetch.done:
            fetch.complete()
            self.held_bytes -= fetch.held_bytes
            self._done += 1

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
                if not fetch.done:
                    fetch.complete()
                    self.held_bytes -= fetch.held_bytes
                    self._done += 1
            for fetch in hopeful:
                if not fetch.done:
                    fetch.complete_if_enough()
                    if fetch.done:
                        self.held_bytes -= fetch.held_bytes
                        self._done += 1
        if self._done > _FEW_DONE:
            self._forget_done()
        for settler in self._settlers:
            settler()

    def _forget_done(self) -> None:
        if 2 * self._done < len(self._by_deadline):
            return
        # Behind one that waits for ten minutes there would be all that were answered in this time.
        self._by_deadline = [entry for entry in self._by_deadline if not entry[2].done]
        heapify(self._by_deadline)
        self._done = 0

    def tick(self, now: Instant) -> None:
        """Answer those whose time is up."""
        while self._by_deadline and (self._by_deadline[0][0] <= now or self._by_deadline[0][2].done):
            self._complete(heappop(self._by_deadline)[2])
            self._done -= 1
        if self._by_deadline:
            self._alarm.ring_by(self._by_deadline[0][0])
