"""A simulated machine with one node on it: it can be killed, lose power, stop, pause, and start again."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.exchange import Parts
from everlog.model.errors import EverlogError
from everlog.model.settings import broker_settings
from everlog.model.settings.listeners import Listener, SecurityProtocol
from everlog.node.node import Node
from everlog.sim.alarm import SimAlarm
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.clock import DriftingClock, SimClock
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Crashed, Moment
from everlog.sim.platter import Loss

if TYPE_CHECKING:
    from everlog.broker.session import Session
    from everlog.sim.network import Connection, Scheduler

DATA = "/data"


class _Outlet:
    """The node's end of a connection."""

    def __init__(self, host: "Host", connection: "Connection") -> None:
        self._host = host
        self._connection = connection
        self.life = host.life

    def send(self, parts: Parts) -> None:
        self._connection.send_parts(parts)

    def close(self) -> None:
        self._connection.cut()

    def pause(self, reason: str) -> None:
        self._connection.hold()

    def resume(self, reason: str) -> None:
        self._connection.release()


class Host:
    """One machine. Whatever reaches the node goes through `_run`, which knows whether it is alive."""

    def __init__(
        self,
        scheduler: "Scheduler",
        clock: SimClock | DriftingClock,
        chance: SimRandom,
        settings: dict[str, str],
        watch: Callable[[], None],
    ) -> None:
        self.clock = clock
        self.files = SimFiles(clock)
        self.settings = settings
        self.life = 0
        """Counts starts; what belongs to an earlier life is dropped."""
        self.node: Node | None = None
        self.serving = False
        self.on_recovered: Callable[[Node], None] = lambda _node: None
        """Called in each life when the node has read its disk and nothing was written yet."""
        self.kill_when_crashed: Callable[[], None] = lambda: None
        """Called when the disk stopped the machine in the middle of an operation."""
        self.disk_ms = 0
        """How long the disk takes for a job beside the loop, besides what all disks take."""
        self._scheduler = scheduler
        self._chance = chance
        self._watch = watch
        self._paused = False
        self._held: list[Callable[[], None]] = []
        self._connections: list[Connection] = []
        self._steps_due = 0
        self._tick_at: int | None = None
        self.aside = SimAside()
        self.alarm = SimAlarm()

    # Lives.

    def start(self) -> None:
        """Start on what is on the disk."""
        assert self.node is None, self.life
        self.life += 1
        self.aside = SimAside()
        self.alarm = SimAlarm()
        self._steps_due = 0
        self._tick_at = None
        self._run(self._start)

    def _start(self) -> None:
        node = Node(
            broker_settings({**_SETTINGS, **self.settings}),
            self.files,
            self.clock,
            self._chance.fork(f"life {self.life}"),
            self.aside,
            self.alarm,
        )
        self.node = node
        node.on_broker = lambda _broker: self.on_recovered(node)
        listener = Listener("PLAINTEXT", "broker.test", 9092, SecurityProtocol.PLAINTEXT)
        node.start([listener], self._started)

    def _started(self, error: EverlogError | None) -> None:
        assert error is None, f"the node does not start: {error}"
        assert self.node is not None
        self.serving = True
        self.node.tick(self.clock.now())

    def crash(self, loss: Loss) -> None:
        """End it at once; the disk keeps what the kind of crash lets it keep."""
        self.node = None
        self.serving = False
        self._held.clear()
        self._paused = False
        self.files = self.files.after_crash(self._chance, loss)
        self._drop_connections()

    def crash_soon(self, operations: int, moment: Moment) -> None:
        """Let the disk stop the machine in the middle of one of the next operations."""
        self.files.crash_at(self.files.operations + operations, moment)

    def stop(self) -> None:
        """End it cleanly."""
        node, self.serving = self.node, False
        assert node is not None
        try:
            self.aside.run_all()
            node.close()
        except Crashed:
            self.kill_when_crashed()
            return
        self.node = None
        # What a clean stop leaves is durable by its own syncs; the page cache is not needed for it.
        self.files = self.files.after_crash(self._chance, Loss.NONE)
        self._drop_connections()

    def pause(self) -> None:
        """Let nothing run, as SIGSTOP does; what arrives is held."""
        self._paused = True

    def go_on(self) -> None:
        """Let everything that was held run at once."""
        self._paused = False
        held, self._held = self._held, []
        for action in held:
            self._run(action)

    def _drop_connections(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.cut()

    def connections(self) -> "list[Connection]":
        """Those that are open, oldest first."""
        return [known for known in self._connections if known.open]

    # What reaches the node.

    def accept(self, connection: "Connection") -> "Session | None":
        """Take on a connection; None while nobody listens."""
        if self.node is None or not self.serving:
            return None
        self._connections = [known for known in self._connections if known.open]
        self._connections.append(connection)
        return self.node.open_session(_Outlet(self, connection), "PLAINTEXT", "192.0.2.7")

    def deliver(self, session: "Session", frame: bytes) -> None:
        """Hand a request to the node."""

        def receive() -> None:
            # What was held during a pause may come after a crash that an earlier one of it has met.
            if self.node is not None and session.open:
                session.receive_whole(memoryview(bytearray(frame)))
                self.node.settle()

        self._run(receive)

    def hang_up(self, session: "Session") -> None:
        """Tell the node that a connection has gone."""
        self._run(session.closed)

    def _run(self, action: Callable[[], None]) -> None:
        """Let the node do something, if it can."""
        life = self.life

        def go() -> None:
            if life == self.life:
                action()

        if self._paused:
            self._held.append(go)
            return
        try:
            go()
        except Crashed:
            self.kill_when_crashed()
            return
        if self.node is not None:
            self._watch()
            self._pump()

    def _pump(self) -> None:
        """Schedule what the node waits for: work beside the loop, and its alarm."""
        while self._steps_due < self.aside.waiting * 2 + self.aside.ended:
            self._steps_due += 1
            # A job has two steps: it is worked on, and it is told that it has ended.
            self._later(self._chance.below(4) + self.disk_ms // 2, self._step_aside)
        deadline = self.alarm.deadline
        if deadline is not None and (self._tick_at is None or deadline < self._tick_at):
            self._tick_at = max(deadline, self.clock.now())
            at = self._tick_at
            self._later(self.clock.until(deadline), lambda: self._tick(at))

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self.life
        self._scheduler.at(delay_ms, lambda: self._run(action) if life == self.life else None)

    def _step_aside(self) -> None:
        self._steps_due -= 1
        if self.node is None:
            return
        if self._chance.happens(50):
            _ = self.aside.finish(self._chance) or self.aside.work(self._chance)
        else:
            _ = self.aside.work(self._chance) or self.aside.finish(self._chance)

    def _tick(self, at: int) -> None:
        if self._tick_at != at or self.node is None:
            return
        self._tick_at = None
        self.alarm.deadline = None
        if self._may_tick():
            self.node.tick(self.clock.now())

    def _may_tick(self) -> bool:
        return self.serving


_SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": DATA,
}
