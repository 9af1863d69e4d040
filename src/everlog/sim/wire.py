"""One connection of a simulated cluster, with its two ends."""

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from everlog.sim.mesh import Mesh, Route


_SENT_AGAIN_MS = 400


class Ear(Protocol):
    """Whoever listens at one end of a connection."""

    def opened(self) -> None:
        """The far end has taken the connection; only the end that has connected hears this."""
        ...

    def received(self, frame: bytes) -> None:
        """A whole frame has come, its size field included."""
        ...

    def lost(self, reason: str, *, refused: bool) -> None:
        """The connection is over, or never came to be; `refused` where nobody listens there. Said once."""
        ...


class WireEnd:
    """One end: what is sent here arrives at the other end, in order, if it arrives at all."""

    def __init__(self, wire: "Wire", away: "Route", back: "Route", ear: Ear | None) -> None:
        self.ear = ear
        """None once nobody listens at this end any more."""
        self.other: WireEnd = self
        self._wire = wire
        self._away = away
        self._back = back
        self._kept: deque[bytes] = deque()
        """Sent before the connection was open."""
        self._coming: deque[bytes | None] = deque()
        """On their way to this end, oldest first; None is the end of the connection."""
        self._unread: deque[bytes] = deque()
        """Arrived, and not read yet."""
        self._reads = True
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether this end may still send and hear."""
        return not self._closed and self._wire.is_up

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        if not self.is_open:
            return
        if not self._wire.is_open:
            self._kept.append(frame)
            return
        self._push(frame)
        if self._away.loses():
            self._away.travel(lambda: self._wire.reset("the connection was reset"))

    def close(self) -> None:
        """Listen no more. What was sent before may still arrive, and then the other end hears of the end."""
        if self._closed:
            return
        self._closed = True
        self.ear = None
        if self._wire.is_open or self is self._wire.far:
            self._push(None)

    def vanish(self) -> None:
        """The machine lost its power: nothing is heard here any more, and the other end is told nothing."""
        self._closed = True
        self.ear = None
        self._unread.clear()

    def hold(self) -> None:
        """Read no more for now."""
        self._reads = False

    def release(self) -> None:
        """Read again."""
        self._reads = True
        self._wire.mesh.scheduler.at(0, self._read)

    def told_opened(self) -> None:
        """The other end has taken the connection; what was kept goes out now."""
        if self._closed:
            # It was given up meanwhile, and what was meant for it was never sent.
            self._push(None)
            return
        if self.ear is not None:
            self.ear.opened()
        while self._kept and self.is_open:
            self._push(self._kept.popleft())

    def told_lost(self, reason: str, *, refused: bool = False) -> None:
        """The connection is over."""
        ear, self.ear = self.ear, None
        self._closed = True
        if ear is not None:
            ear.lost(reason, refused=refused)

    def _push(self, frame: bytes | None) -> None:
        other = self.other
        other._coming.append(frame)  # two ends of one thing
        # Arrivals happen in the order of sending: each takes the oldest frame, whatever its own delay was.
        self._away.travel(other._arrive)

    def _arrive(self) -> None:
        if not self._wire.is_up or not self._coming:
            return
        frame = self._coming.popleft()
        if frame is None:
            self._wire.is_up = False
            self._read()
            self.told_lost("closed by the other end")
            return
        self._wire.mesh.observe(self._back, frame, is_request=self is self._wire.far)
        if self.ear is None:
            # A machine answers for a connection that nobody has any more, unless it has no power.
            self._wire.refuse_late(self)
            return
        self._unread.append(frame)
        self._read()

    def _read(self) -> None:
        while self._unread and self._reads and self.ear is not None:
            self.ear.received(self._unread.popleft())


class Wire:
    """A connection from one machine to another."""

    def __init__(self, mesh: "Mesh", origin: str, target: str, ear: Ear) -> None:
        self.mesh = mesh
        self.origin = origin
        self.target = target
        self.is_up = True
        """Whether anything of it is left."""
        self.is_open = False
        """Whether the far end has taken it, and the near end knows."""
        there, back = mesh.route(origin, target), mesh.route(target, origin)
        self._there, self._back = there, back
        self.near = WireEnd(self, there, back, ear)
        self.far = WireEnd(self, back, there, None)
        self.near.other, self.far.other = self.far, self.near

    def knock(self, port: int) -> None:
        """Ask the far machine to take it."""
        self._there.travel(lambda: self._knocked(port))

    def ends_at(self, host: str) -> list[WireEnd]:
        """Its ends at that machine: one, or both where a machine speaks to itself."""
        ends = [self.near] if host == self.origin else []
        return [*ends, self.far] if host == self.target else ends

    def reset(self, reason: str) -> None:
        """End it at once; what is on its way in either direction is lost."""
        if self.is_up:
            self.is_up = False
            for end, route in ((self.near, self._back), (self.far, self._there)):
                route.travel(lambda end=end: end.told_lost(reason))  # type: ignore[misc]  # end is a WireEnd

    def refuse_late(self, end: WireEnd) -> None:
        """Something came to an end that nobody listens at: tell the sender as soon as the machine can."""
        if not self.is_up:
            return
        host = self.target if end is self.far else self.origin
        door = self.mesh.door(host)
        if door is not None and not door.powered():
            # The sender's machine sends it again and again meanwhile.
            self.mesh.scheduler.at(_SENT_AGAIN_MS, lambda: self.refuse_late(end))
            return
        self.is_up = False
        other, route = (self.near, self._back) if end is self.far else (self.far, self._there)
        route.travel(lambda: other.told_lost("reset by the other end"))

    def _knocked(self, port: int) -> None:
        door = self.mesh.door(self.target)
        if not self.is_up or door is None:
            return
        if not door.powered():
            if self.near.is_open:
                self.mesh.scheduler.at(_SENT_AGAIN_MS, lambda: self._knocked(port))
            return
        ear = door.accept(self.far, port, self.origin)
        if ear is None:
            self.is_up = False
            self._back.travel(lambda: self.near.told_lost("nobody listens", refused=True))
            return
        self.far.ear = ear
        self._back.travel(self._welcomed)

    def _welcomed(self) -> None:
        if self.is_up:
            self.is_open = True
            self.near.told_opened()
