"""Connections between scripts and a simulated host: late, cut, out of order between each other.

Within a connection bytes keep their order. A connection that is cut loses what is on its way, in both
directions. One that its client gives up is read to its end by the host all the same: a request can arrive
long after its client has sent it again on another connection.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from everlog.broker.exchange import Parts
from everlog.sim.chance import SimRandom

if TYPE_CHECKING:
    from everlog.broker.session import Session


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is; drawn from the seed once."""

    delay_ms: int = 2
    """Most frames take from 0 to this."""
    late_percent: int = 0
    """How many frames are late, by up to `late_ms`."""
    late_ms: int = 0
    cut_percent: int = 0
    """How many frames are the last of their connection."""


class Scheduler(Protocol):
    """Whoever owns time."""

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        ...

    def observe(self, frame: bytes) -> None:
        """Take note of bytes that arrive now."""
        ...


class Server(Protocol):
    """The far end."""

    def accept(self, connection: "Connection") -> "Session | None":
        """Take on a connection; None if nobody listens."""
        ...

    def deliver(self, session: "Session", frame: bytes) -> None:
        """Hand over a request."""
        ...

    def hang_up(self, session: "Session") -> None:
        """Say that a connection has gone."""
        ...


class Connection:
    """One connection; its client is told of answers and, unless it gave up first, of the end."""

    def __init__(
        self,
        scheduler: Scheduler,
        server: Server,
        weather: Callable[[], Weather],
        chance: SimRandom,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._server = server
        self._weather = weather
        self._chance = chance
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._session: Session | None = None
        self._up: deque[bytes] = deque()
        """Requests on their way, oldest first; one arrival for each is scheduled."""
        self._down: deque[bytes] = deque()
        self._held: deque[bytes] = deque()
        """Requests that have arrived and that the host does not read yet."""
        self._reading = True
        self.open = True
        """Whether bytes still move."""
        self.is_ready = True
        """Whether it can be used, which it can from its first moment on."""
        self._given_up = False

    # The client's side.

    def send(self, frame: bytes) -> None:
        """Send a request."""
        if not self.open:
            return
        self._up.append(frame)
        # Arrivals happen in the order of sending: each takes the oldest frame, whatever its own delay was.
        self._scheduler.at(self._delay(), self._arrive)
        self._maybe_cut()

    def give_up(self) -> None:
        """Listen no more. What was sent may still arrive."""
        self._given_up = True
        if not self._up:
            self._scheduler.at(self._delay(), self.cut)

    # The host's side.

    def send_parts(self, parts: Parts) -> None:
        """Send an answer."""
        if not self.open:
            return
        self._down.append(b"".join(part if isinstance(part, bytes) else part.read() for part in parts))
        self._scheduler.at(self._delay(), self._return)
        self._maybe_cut()

    def hold(self) -> None:
        """Read no more for now."""
        self._reading = False

    def release(self) -> None:
        """Read again."""
        self._reading = True
        self._scheduler.at(0, self._read_held)

    def cut(self) -> None:
        """End it at once; what is on its way is lost."""
        if not self.open:
            return
        self.open = False
        session, self._session = self._session, None
        if session is not None:
            self._server.hang_up(session)
        if not self._given_up:
            self._scheduler.at(self._delay(), self._on_lost)

    # On the way.

    def _delay(self) -> int:
        weather, chance = self._weather(), self._chance
        delay = chance.below(weather.delay_ms + 1)
        if weather.late_percent and chance.happens(weather.late_percent):
            delay += chance.below(weather.late_ms + 1)
        return delay

    def _maybe_cut(self) -> None:
        cut_percent = self._weather().cut_percent
        if cut_percent and self._chance.happens(cut_percent):
            self._scheduler.at(self._delay(), self.cut)

    def _arrive(self) -> None:
        if not self.open or not self._up:
            return
        if self._session is None:
            self._session = self._server.accept(self)
            if self._session is None:
                self.cut()
                return
        frame = self._up.popleft()
        self._scheduler.observe(frame)
        self._held.append(frame)
        self._read_held()
        if self._given_up and not self._up and not self._held:
            self._scheduler.at(self._delay(), self.cut)

    def _read_held(self) -> None:
        while self._held and self._reading and self._session is not None:
            self._server.deliver(self._session, self._held.popleft())

    def _return(self) -> None:
        if self.open and self._down:
            frame = self._down.popleft()
            self._scheduler.observe(frame)
            if not self._given_up:
                self._on_frame(frame)
