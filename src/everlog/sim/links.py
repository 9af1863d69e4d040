"""Connections of a simulated node to others, over the mesh between their machines."""

from collections.abc import Callable, Sequence

from everlog.ports.files import Buffer
from everlog.ports.links import LinkOwner
from everlog.sim.mesh import Mesh
from everlog.sim.wire import WireEnd
from everlog.wire.frames import SIZE_BYTES

Run = Callable[[Callable[[], None]], None]
"""Lets a node do something, if it is alive and not paused: later if it is paused, never if it has died."""


class SimLink:
    """One connection that a node has opened."""

    def __init__(self, owner: LinkOwner, run: Run) -> None:
        self._owner: LinkOwner | None = owner
        """None once it has heard the last of it."""
        self._run = run
        self.end: WireEnd

    # What the node calls.

    def send(self, frame: Sequence[Buffer]) -> None:
        """Send one frame."""
        if self._owner is not None:
            self.end.send(b"".join(frame))

    def close(self) -> None:
        """End it; the owner hears nothing more."""
        if self._owner is not None:
            self._owner = None
            self.end.close()

    # What the wire says.

    def opened(self) -> None:
        """The far end has taken it."""
        self._run(self._opened)

    def received(self, frame: bytes) -> None:
        """A frame has come."""
        self._run(lambda: self._received(frame))

    def lost(self, reason: str, *, refused: bool) -> None:
        """It is over."""
        self._run(lambda: self._lost(reason, refused=refused))

    def _opened(self) -> None:
        if self._owner is not None:
            self._owner.opened()

    def _received(self, frame: bytes) -> None:
        if self._owner is not None:
            # Nobody may keep a view of it: what it shows afterwards is not what came.
            data = bytearray(frame)
            self._owner.received(memoryview(data)[SIZE_BYTES:])
            data[:] = bytes(len(data))

    def _lost(self, reason: str, *, refused: bool) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.lost(reason, refused=refused)


class SimLinks:
    """Opens connections from one machine to the others; hosts are the mesh's names for them.

    Make one for each life of a node: `run` is how anything reaches that life.
    """

    def __init__(self, mesh: Mesh, origin: str, run: Run) -> None:
        self._mesh = mesh
        self._origin = origin
        self._run = run

    def connect(self, host: str, port: int, owner: LinkOwner) -> SimLink:
        """Begin to connect; the owner hears of it later, never before this has returned."""
        link = SimLink(owner, self._run)
        link.end = self._mesh.connect(self._origin, host, port, link)
        return link
