"""Connections of simulated clients to the nodes of a cluster."""

from collections.abc import Callable

from everlog.sim.machine import CLIENTS_PORT
from everlog.sim.mesh import Mesh
from everlog.sim.wire import WireEnd


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

    def received(self, frame: bytes) -> None:
        """An answer has come."""
        self._on_frame(frame)

    def lost(self, reason: str, *, refused: bool) -> None:
        """It is over."""
        self._on_lost()
