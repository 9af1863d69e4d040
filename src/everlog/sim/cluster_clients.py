"""Connections of simulated clients to the nodes of a cluster, and the home of those that are processes."""

from collections.abc import Callable

from everlog.sim.chance import SimRandom
from everlog.sim.loop import Ears
from everlog.sim.machine import CLIENTS_PORT
from everlog.sim.mesh import Mesh
from everlog.sim.timeline import Timeline
from everlog.sim.wire import WireEnd
from everlog.sim.workloads.actor import Setting


class ClientConnection:
    """One connection, as a player wants it."""

    def __init__(
        self,
        mesh: Mesh,
        origin: str,
        host: str,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.is_ready = False
        """Whether the node has taken it."""
        self.on_opened: Callable[[], None] = lambda: None
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._end: WireEnd = mesh.connect(origin, host, CLIENTS_PORT, self)

    @property
    def open(self) -> bool:
        """Whether bytes still move."""
        return self._end.is_open

    def send(self, frame: bytes) -> None:
        """Send a request."""
        self._end.send(frame)

    def give_up(self) -> None:
        """Listen no more. What was sent may still arrive."""
        self._end.close()

    def opened(self) -> None:
        """The node has taken it; what was sent meanwhile is on its way."""
        self.is_ready = True
        self.on_opened()

    def received(self, frame: bytes) -> None:
        """An answer has come."""
        self._on_frame(frame)

    def lost(self, reason: str, *, refused: bool) -> None:
        """It is over."""
        self._on_lost()


class ProcessHome:
    """A world as one client process sees it: from a machine of its own."""

    def __init__(self, name: str, time: Timeline, mesh: Mesh, hosts: list[str], setting: Setting) -> None:
        self.setting = setting
        self._name = name
        self._time = time
        self._mesh = mesh
        self._hosts = hosts

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        self._time.at(delay_ms, action)

    def now_ms(self) -> int:
        """The time."""
        return self._time.now_ms()

    def addresses(self, host: str) -> list[str]:
        """Where a host is found: nodes by their names, and all of them where only the cluster is named."""
        return [host] if host in self._hosts else list(self._hosts)

    def connect(self, address: str, chance: SimRandom, ears: Ears) -> ClientConnection:
        """A connection to a node, which will be taken, refused, or left without an answer."""
        connection = ClientConnection(self._mesh, self._name, address, ears.on_frame, ears.on_lost)
        connection.on_opened = ears.on_opened
        return connection
