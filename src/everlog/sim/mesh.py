"""The network of a simulated cluster: who reaches whom, how late, and over which connections.

Ends are named by their hosts: nodes (`node1`) and clients. Each direction between two of them is a `Route`
with a chance of its own. Within a connection bytes keep their order, between connections nothing does. What
a closed route holds back arrives when it is opened again, however late, even on a connection that its sender
has given up. A process that dies has its connections closed by its machine; a machine that loses power says
nothing to anybody.
"""

from collections.abc import Callable
from typing import Protocol

from everlog.sim.chance import SimRandom
from everlog.sim.network import Scheduler, Weather
from everlog.sim.wire import Ear, Wire, WireEnd


class Door(Protocol):
    """A machine that others may connect to."""

    def powered(self) -> bool:
        """Whether anything at all answers; a machine without power does not even refuse."""
        ...

    def accept(self, end: WireEnd, port: int, peer: str) -> Ear | None:
        """Take on a connection; None if nobody listens there."""
        ...


class Route:
    """One direction between two machines."""

    def __init__(self, mesh: "Mesh", chance: SimRandom, name: str) -> None:
        self.name = name
        self.weather: Weather | None = None
        """The weather of this route alone, if it has its own."""
        self._mesh = mesh
        self._chance = chance
        self._closed = 0
        """How many reasons there are for nothing to come through."""
        self._stuck: list[Callable[[], None]] = []

    @property
    def is_open(self) -> bool:
        """Whether anything comes through."""
        return not self._closed

    def close(self) -> None:
        """Let nothing through until it is opened as often as it was closed."""
        self._closed += 1

    def open(self) -> None:
        """Take one reason back; what was held back comes through now, each piece at a time of its own."""
        assert self._closed, self.name
        self._closed -= 1
        if not self._closed:
            stuck, self._stuck = self._stuck, []
            for arrive in stuck:
                self.travel(arrive)

    def travel(self, arrive: Callable[[], None]) -> None:
        """Let something travel: `arrive` is called at the far end, once, if it is ever let through."""

        def land() -> None:
            if self._closed:
                self._stuck.append(arrive)
            else:
                arrive()

        self._mesh.scheduler.at(self._delay(), land)

    def loses(self) -> bool:
        """Whether the connection that sends something now is lost over it."""
        cut_percent = self._weather().cut_percent
        return bool(cut_percent) and self._chance.happens(cut_percent)

    def _weather(self) -> Weather:
        return self.weather or self._mesh.weather

    def _delay(self) -> int:
        weather, chance = self._weather(), self._chance
        delay = chance.below(weather.delay_ms + 1)
        if weather.late_percent and chance.happens(weather.late_percent):
            delay += chance.below(weather.late_ms + 1)
        return delay


class Mesh:
    """All routes and connections of a world."""

    def __init__(self, scheduler: Scheduler, chance: SimRandom) -> None:
        self.scheduler = scheduler
        self.weather = Weather()
        """Of all routes that have none of their own."""
        self.trace: Callable[[str, bytes, bool], None] | None = None
        """Called with a route's name, each frame that arrives over it, and whether it asks or answers."""
        self._chance = chance
        self._routes: dict[tuple[str, str], Route] = {}
        self._doors: dict[str, Door] = {}
        self._wires: list[Wire] = []

    def add(self, host: str, door: Door) -> None:
        """Know a machine by its name."""
        self._doors[host] = door

    def route(self, origin: str, target: str) -> Route:
        """The way from one machine to another."""
        found = self._routes.get((origin, target))
        if found is None:
            name = f"{origin} -> {target}"
            found = self._routes[origin, target] = Route(self, self._chance.fork(name), name)
        return found

    def connect(self, origin: str, host: str, port: int, ear: Ear) -> WireEnd:
        """Begin to connect; the ear hears of it later, never before this has returned."""
        wire = Wire(self, origin, host, ear)
        self._wires = [known for known in self._wires if known.is_up]
        self._wires.append(wire)
        wire.knock(port)
        return wire.near

    def door(self, host: str) -> Door | None:
        """The machine of that name, if there is one."""
        return self._doors.get(host)

    def wires(self, host: str) -> list[Wire]:
        """The connections from and to a machine that are not over, oldest first."""
        return [wire for wire in self._wires if wire.is_up and host in (wire.origin, wire.target)]

    def observe(self, route: Route, frame: bytes, *, is_request: bool) -> None:
        """Take note of bytes that arrive now."""
        self.scheduler.observe(frame)
        if self.trace is not None:
            self.trace(route.name, frame, is_request)

    def heal(self) -> None:
        """Open every route, and let it have the weather of all."""
        for route in self._routes.values():
            route.weather = None
            while not route.is_open:
                route.open()
