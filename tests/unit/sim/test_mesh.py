"""The network of a simulated cluster: order, closed routes, refusals, and machines that go dark."""

from collections.abc import Callable
from heapq import heappop, heappush

from everlog.sim.chance import SimRandom
from everlog.sim.mesh import Mesh
from everlog.sim.network import Weather
from everlog.sim.wire import WireEnd


class Time:
    """A heap of events, and nothing else."""

    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._events, (self.now + delay_ms, self._order, action))

    def observe(self, frame: bytes) -> None:
        pass

    def pass_by(self, ms: int = 1_000) -> None:
        until = self.now + ms
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heappop(self._events)
            action()
        self.now = until


class Heard:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.is_open = False
        self.end: tuple[str, bool] | None = None

    def opened(self) -> None:
        self.is_open = True

    def received(self, frame: bytes) -> None:
        assert self.end is None
        self.frames.append(frame)

    def lost(self, reason: str, *, refused: bool) -> None:
        assert self.end is None, "said once"
        self.end = (reason, refused)


class Machine:
    """Takes every connection to port 9092."""

    def __init__(self) -> None:
        self.has_power = True
        self.taken: list[tuple[WireEnd, Heard]] = []

    def powered(self) -> bool:
        return self.has_power

    def accept(self, end: WireEnd, port: int, peer: str) -> Heard | None:
        if port != 9092:
            return None
        self.taken.append((end, Heard()))
        return self.taken[-1][1]


def a_mesh(weather: Weather = Weather()) -> tuple[Time, Mesh, Machine]:  # noqa: B008  # it is frozen
    time = Time()
    mesh = Mesh(time, SimRandom(1))
    mesh.weather = weather
    machine = Machine()
    mesh.add("node2", machine)
    return time, mesh, machine


def test_frames_keep_their_order_within_a_connection() -> None:
    time, mesh, machine = a_mesh(Weather(delay_ms=40, late_percent=20, late_ms=500))
    ear = Heard()
    end = mesh.connect("node1", "node2", 9092, ear)
    sent = [b"%d" % number for number in range(50)]
    for frame in sent:
        end.send(frame)

    assert not ear.is_open, "nothing is said before connect has returned"
    time.pass_by(20_000)

    assert ear.is_open
    assert machine.taken[0][1].frames == sent


def test_connections_overtake_each_other() -> None:
    time, mesh, machine = a_mesh(Weather(delay_ms=100))
    arrived: list[int] = []
    for number in range(20):
        mesh.connect("node1", "node2", 9092, Heard()).send(b"%d" % number)
    time.pass_by(5_000)
    arrived = [int(heard.frames[0]) for _, heard in machine.taken]

    assert sorted(arrived) == list(range(20))
    assert arrived != list(range(20))


def test_where_nobody_listens_a_connection_is_refused() -> None:
    time, mesh, _ = a_mesh()
    ear = Heard()
    mesh.connect("node1", "node2", 9093, ear)
    time.pass_by()

    assert ear.end == ("nobody listens", True)


def test_a_machine_without_power_says_nothing() -> None:
    time, mesh, machine = a_mesh()
    machine.has_power = False
    ear = Heard()
    mesh.connect("node1", "node2", 9092, ear)
    time.pass_by(60_000)

    assert ear.end is None
    assert not ear.is_open


def test_a_connection_to_a_machine_that_lost_power_is_reset_once_it_is_back() -> None:
    time, mesh, machine = a_mesh()
    ear = Heard()
    end = mesh.connect("node1", "node2", 9092, ear)
    time.pass_by()
    machine.taken[0][0].vanish()
    machine.has_power = False
    end.send(b"into the dark")
    time.pass_by()
    assert ear.end is None

    machine.has_power = True
    time.pass_by()
    assert ear.end == ("reset by the other end", False), "what is not acknowledged is sent again"


def test_a_closed_route_holds_back_one_direction_only() -> None:
    time, mesh, machine = a_mesh()
    ear = Heard()
    end = mesh.connect("node1", "node2", 9092, ear)
    time.pass_by()
    far, heard = machine.taken[0]
    mesh.route("node2", "node1").close()
    end.send(b"request")
    far.send(b"answer")
    time.pass_by()
    assert (heard.frames, ear.frames) == ([b"request"], [])

    mesh.route("node2", "node1").open()
    time.pass_by()
    assert ear.frames == [b"answer"]


def test_what_was_sent_before_a_connection_was_given_up_may_arrive_late() -> None:
    time, mesh, machine = a_mesh()
    end = mesh.connect("node1", "node2", 9092, Heard())
    time.pass_by()
    mesh.route("node1", "node2").close()
    end.send(b"late")
    end.close()
    time.pass_by(30_000)
    heard = machine.taken[0][1]
    assert heard.frames == []

    mesh.heal()
    time.pass_by()
    assert heard.frames == [b"late"]
    assert heard.end == ("closed by the other end", False)


def test_a_reset_loses_what_is_on_its_way_and_both_ends_hear_of_it() -> None:
    time, mesh, machine = a_mesh(Weather(delay_ms=50))
    ear = Heard()
    end = mesh.connect("node1", "node2", 9092, ear)
    time.pass_by()
    end.send(b"lost")
    mesh.wires("node2")[0].reset("cut")
    time.pass_by()

    assert machine.taken[0][1].frames == []
    assert ear.end == machine.taken[0][1].end == ("cut", False)
    assert mesh.wires("node2") == []


def test_an_end_that_does_not_read_gets_its_frames_later() -> None:
    time, mesh, machine = a_mesh()
    end = mesh.connect("node1", "node2", 9092, Heard())
    time.pass_by()
    far, heard = machine.taken[0]
    far.hold()
    end.send(b"a")
    end.send(b"b")
    time.pass_by()
    assert heard.frames == []

    far.release()
    time.pass_by()
    assert heard.frames == [b"a", b"b"]


def test_a_connection_given_up_before_it_was_open_is_ended_at_the_far_end_too() -> None:
    time, mesh, machine = a_mesh()
    end = mesh.connect("node1", "node2", 9092, Heard())
    end.send(b"never sent")
    end.close()
    time.pass_by()

    assert machine.taken[0][1].frames == []
    assert machine.taken[0][1].end == ("closed by the other end", False)
