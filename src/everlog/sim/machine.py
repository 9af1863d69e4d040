"""One machine of several: a node on a simulated disk and clock, reached and reaching others over the mesh."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.exchange import Parts
from everlog.model.errors import EverlogError
from everlog.model.settings import broker_settings
from everlog.model.settings.listeners import Listener, SecurityProtocol
from everlog.node.node import Node
from everlog.sim.chance import SimRandom
from everlog.sim.clock import DriftingClock
from everlog.sim.host import DATA, Host
from everlog.sim.links import SimLinks
from everlog.sim.mesh import Mesh
from everlog.sim.platter import Loss
from everlog.sim.wire import Ear, WireEnd

if TYPE_CHECKING:
    from everlog.broker.session import Session

CLIENTS_PORT, CONTROLLERS_PORT = 9092, 9093
_LEAVING_MS = 20_000
"""How long a node that leaves may take to hand over before it is just stopped."""
_LISTENERS = {CLIENTS_PORT: "PLAINTEXT", CONTROLLERS_PORT: "CONTROLLER"}


def host_name(node_id: int) -> str:
    """What the mesh calls the machine of a node."""
    return f"node{node_id}"


class _Outlet:
    """The node's end of a connection that somebody has opened."""

    def __init__(self, end: WireEnd) -> None:
        self._end = end

    def send(self, parts: Parts) -> None:
        self._end.send(b"".join(part if isinstance(part, bytes) else part.read() for part in parts))

    def close(self) -> None:
        self._end.close()

    def pause(self, reason: str) -> None:
        self._end.hold()

    def resume(self, reason: str) -> None:
        self._end.release()


class _Guest:
    """A connection that somebody has opened: what comes over it is handed to a session of the node."""

    def __init__(self, machine: "Machine", run: Callable[[Callable[[], None]], None]) -> None:
        self._machine = machine
        self._run = run
        self.session: Session | None = None

    def opened(self) -> None:
        """Only who connects hears this."""
        raise AssertionError

    def received(self, frame: bytes) -> None:
        def receive() -> None:
            if self.session is not None and self.session.open:
                self.session.receive_whole(memoryview(bytearray(frame)))
                self._machine.settle()

        self._run(receive)

    def lost(self, reason: str, *, refused: bool) -> None:
        def close() -> None:
            if self.session is not None:
                self.session.closed()
                self._machine.settle()

        self._run(close)


class Machine(Host):
    """A host that is one of several."""

    def __init__(
        self,
        node_id: int,
        mesh: Mesh,
        clock: DriftingClock,
        chance: SimRandom,
        settings: dict[str, str],
        watch: Callable[["Machine"], None],
    ) -> None:
        self.node_id = node_id
        self.name = host_name(node_id)
        own = {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{self.name}:{CLIENTS_PORT},CONTROLLER://{self.name}:{CONTROLLERS_PORT}",
            "controller.listener.names": "CONTROLLER",
            "allow.insecure.listener": "true",
            "log.dirs": DATA,
        }
        super().__init__(mesh.scheduler, clock, chance, own | settings, lambda: watch(self))
        self.on_failed: Callable[[EverlogError], None] = lambda _error: None
        """Called when the node cannot start, or go on."""
        self.build: Callable[..., Node] = Node
        """Makes the node of each life."""
        self._mesh = mesh
        self._has_power = True
        self._parsed = broker_settings(self.settings)
        mesh.add(self.name, self)

    # What the mesh asks.

    def powered(self) -> bool:
        """Whether anything at all answers."""
        return self._has_power

    def accept(self, end: WireEnd, port: int, peer: str) -> Ear | None:  # type: ignore[override]
        """Take on a connection; None if nobody listens there."""
        name = _LISTENERS.get(port)
        if self.node is None or name is None or (port == CLIENTS_PORT and not self.serving):
            return None
        if port == CONTROLLERS_PORT and self.node.desk is None:
            return None
        guest = _Guest(self, self._runner())

        def greet() -> None:
            if self.node is None:
                # What it was handed before this, when it went on, was its end, and that of its connections.
                return
            guest.session = self.node.open_session(_Outlet(end), name, peer)

        # A process that is stopped has its connections taken by its machine, and learns of them later.
        self._run(greet)
        return guest

    def settle(self) -> None:
        """Let the node answer what it has put off until a step is over."""
        if self.node is not None:
            self.node.settle()

    def do(self, action: Callable[[], None]) -> None:
        """Let the node do something, as if it had thought of it itself."""
        self._run(action)

    # Lives.

    def start(self) -> None:
        """Start on what is on the disk."""
        self._has_power = True
        super().start()

    def _start(self) -> None:
        try:
            self.node = self.build(
                self._parsed,
                self.files,
                self.clock,
                self._chance.fork(f"life {self.life}"),
                self.aside,
                self.alarm,
                SimLinks(self._mesh, self.name, self._runner()),
            )
        except EverlogError as error:
            self.on_failed(error)
            return
        self.on_recovered(self.node)
        listener = Listener(_LISTENERS[CLIENTS_PORT], self.name, CLIENTS_PORT, SecurityProtocol.PLAINTEXT)
        self.node.start([listener], self._started)

    def _started(self, error: EverlogError | None) -> None:
        if error is not None:
            self.on_failed(error)
            return
        assert self.node is not None
        self.serving = True
        self.node.tick(self.clock.now())

    def leave(self, done: Callable[[], None]) -> None:
        """Stop cleanly, with leadership handed over first; `done` once nothing of it runs.

        It is not called where something else ends the node first.
        """
        assert self.node is not None
        node, life = self.node, self.life

        def stop() -> None:
            if self.life == life and self.node is node:
                self.stop()
                if self.node is None:
                    done()

        def left() -> None:
            # Not from within the node, which is not done with its step.
            self._scheduler.at(0, stop)

        self._run(lambda: node.leave(left))
        self._scheduler.at(_LEAVING_MS, stop)

    def crash(self, loss: Loss) -> None:
        """End it at once. Without power nobody is told; a process that dies has its connections closed."""
        self._has_power = loss is Loss.NONE
        super().crash(loss)

    def _drop_connections(self) -> None:
        for wire in self._mesh.wires(self.name):
            for end in wire.ends_at(self.name):
                if self._has_power:
                    end.close()
                else:
                    end.vanish()

    def _may_tick(self) -> bool:
        # The quorum goes on whether or not the broker serves already.
        return True

    def _runner(self) -> Callable[[Callable[[], None]], None]:
        """A way to reach this life of the node, and no other."""
        life = self.life

        def run(action: Callable[[], None]) -> None:
            if life == self.life and self.node is not None:
                self._run(action)

        return run
