"""All nodes that this one talks to, and time as it passes for what they were asked."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from everlog.model.ids import Instant
from everlog.peers.address import Address
from everlog.peers.peer import Peer
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock
from everlog.ports.links import Links


class Peers:
    """Makes one `Peer` for each address and lane. Whoever owns it calls `tick` when the alarm rings."""

    def __init__(self, links: Links, clock: Clock, alarm: Alarm, client_id: str) -> None:
        self.links = links
        self.clock = clock
        self.client_id = client_id
        """What this node calls itself in its requests."""
        self._alarm = alarm
        self._peers: dict[tuple[Address, str], Peer] = {}
        self._due: Instant | None = None
        """When a peer next wants to be woken, or earlier."""
        self._soon: deque[Callable[[], None]] = deque()
        """What is to be told as soon as whoever asked has returned."""
        self._later: list[tuple[Instant, int, Callable[[], None]]] = []
        """A heap of what is to be done at a time, in the order of asking for it."""
        self._asked_for = 0

    def at(self, address: Address, lane: str = "") -> Peer:
        """Return the peer at an address, always the same one.

        Requests of one lane are answered in order, so what may wait long (a fetch) has a lane of its own,
        which is a connection of its own.
        """
        known = self._peers.get((address, lane))
        if known is None:
            known = self._peers[address, lane] = Peer(self, address, lane)
        return known

    def forget(self, address: Address) -> None:
        """End all connections to an address that nobody has any more; what was asked there fails."""
        for key in [key for key in self._peers if key[0] == address]:
            self._peers.pop(key).close("is not in use any more")

    def tick(self, now: Instant) -> None:
        """Do what is due: tell of failures, give up what waited too long, connect again."""
        for _ in range(len(self._soon)):
            self._soon.popleft()()
        if self._due is not None:
            if self._due <= now:
                self._due = None
                self._do_later(now)
                for peer in list(self._peers.values()):
                    peer.tick(now)
            else:
                self._alarm.ring_by(self._due)
        if self._soon:
            self._alarm.ring_by(now)

    def close(self) -> None:
        """End all connections for good: nobody is told of anything any more."""
        peers = list(self._peers.values())
        self._peers.clear()
        self._soon.clear()
        self._later.clear()
        self._due = None
        for peer in peers:
            peer.abandon()

    # For peers.

    def soon(self, tell: Callable[[], None]) -> None:
        """Call something once whoever is calling now has returned."""
        self._soon.append(tell)
        self._alarm.ring_by(self.clock.now())

    def later(self, wait_ms: int, action: Callable[[], None]) -> None:
        """Do something after a wait."""
        self._asked_for += 1
        due = Instant(self.clock.now() + wait_ms)
        heappush(self._later, (due, self._asked_for, action))
        self.wake_by(due)

    def _do_later(self, now: Instant) -> None:
        while self._later and self._later[0][0] <= now:
            heappop(self._later)[2]()
        if self._later:
            self.wake_by(self._later[0][0])

    def wake_by(self, deadline: Instant) -> None:
        """See to it that peers are ticked at a time."""
        if self._due is None or deadline < self._due:
            self._due = deadline
            self._alarm.ring_by(deadline)
