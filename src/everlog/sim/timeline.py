"""The time of a world of several machines: everything that happens is an event of one heap."""

from collections.abc import Callable
from heapq import heappop, heappush
from zlib import crc32


class Timeline:
    """Runs events in order of their time, and of their making within a millisecond."""

    def __init__(self) -> None:
        self.fingerprint = 0
        """Changes with any byte that went over the network and with when it did."""
        self.ran = 0
        """How many events there were."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._now = 0
        self._ran_this_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since it began."""
        return self._now

    def ticks(self) -> int:
        """The time of histories: a thousand to a millisecond, and later for each event within one."""
        return self._now * 1000 + min(self._ran_this_ms, 999)

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        assert delay_ms >= 0, delay_ms
        self._order += 1
        heappush(self._events, (self._now + delay_ms, self._order, action))

    def observe(self, frame: bytes) -> None:
        """Take bytes that arrive now into the fingerprint."""
        self.fingerprint = crc32(frame, crc32(self._now.to_bytes(8, "big"), self.fingerprint))

    def run_until(self, over: Callable[[], bool], limit_ms: int) -> bool:
        """Run until something is over; False if that takes longer than `limit_ms`."""
        limit = self._now + limit_ms
        while not over():
            assert self._events, "nothing is left to happen"
            time, _, action = heappop(self._events)
            if time > limit:
                # It belongs to the time behind the limit, and nobody will see that.
                return False
            self.ran += 1
            self._ran_this_ms += 1
            if time > self._now:
                self._ran_this_ms = 0
                self._now = time
            action()
        return True
