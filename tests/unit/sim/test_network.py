"""A simulated connection: in order, late, cut, and read to its end after its client has given up."""

from collections.abc import Callable
from heapq import heappop, heappush

import pytest

from everlog.broker.session import Session
from everlog.sim.chance import SimRandom
from everlog.sim.network import Connection, Weather


class Stage:
    """Time, a host that notes what it gets, and a client that does."""

    def __init__(self, weather: Weather, *, listens: bool = True) -> None:
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self.now = 0
        self.listens = listens
        self.arrived: list[tuple[int, bytes]] = []
        self.hung_up = 0
        self.answers: list[bytes] = []
        self.lost = 0
        self.connection = Connection(
            self, self, lambda: weather, SimRandom("stage"), self.answers.append, self._on_lost
        )

    def _on_lost(self) -> None:
        self.lost += 1

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._events, (self.now + delay_ms, self._order, action))

    def observe(self, frame: bytes) -> None:
        pass

    def accept(self, connection: Connection) -> Session | None:
        # Only handed back to us, so that any object will do.
        return object() if self.listens else None  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    def deliver(self, session: Session, frame: bytes) -> None:
        self.arrived.append((self.now, frame))

    def hang_up(self, session: Session) -> None:
        self.hung_up += 1

    def run(self) -> None:
        while self._events:
            time, _, action = heappop(self._events)
            self.now = max(self.now, time)
            action()


def test_requests_and_answers_keep_their_order_however_long_each_takes() -> None:
    stage = Stage(Weather(delay_ms=50, late_percent=50, late_ms=1_000))
    frames = [b"%d" % number for number in range(50)]
    for frame in frames:
        stage.connection.send(frame)
        stage.connection.send_parts((frame,))
    stage.run()

    assert [frame for _, frame in stage.arrived] == frames
    assert stage.answers == frames
    assert len({time for time, _ in stage.arrived}) > 10


def test_a_cut_loses_what_is_on_its_way_and_tells_both_ends() -> None:
    stage = Stage(Weather(delay_ms=0))
    stage.connection.send(b"first")
    stage.run()
    stage.connection.send(b"second")
    stage.connection.send_parts((b"answer",))
    stage.connection.cut()
    stage.run()

    assert [frame for _, frame in stage.arrived] == [b"first"]
    assert (stage.answers, stage.lost, stage.hung_up) == ([], 1, 1)


def test_a_request_arrives_after_its_client_has_given_up() -> None:
    stage = Stage(Weather(delay_ms=0, late_percent=100, late_ms=5_000))
    stage.connection.send(b"late")
    stage.connection.give_up()
    stage.run()

    assert [frame for _, frame in stage.arrived] == [b"late"]
    assert (stage.lost, stage.hung_up) == (0, 1), "the client is not told of what it gave up"


def test_nobody_listens() -> None:
    stage = Stage(Weather(), listens=False)
    stage.connection.send(b"hello")
    stage.run()

    assert (stage.arrived, stage.lost) == ([], 1)


def test_a_host_that_holds_gets_the_rest_when_it_reads_again() -> None:
    stage = Stage(Weather(delay_ms=0))
    stage.connection.send(b"first")
    stage.run()
    stage.connection.hold()
    stage.connection.send(b"second")
    stage.run()
    assert len(stage.arrived) == 1

    stage.connection.release()
    stage.run()
    assert [frame for _, frame in stage.arrived] == [b"first", b"second"]


@pytest.mark.parametrize("percent", [0, 100])
def test_weather_cuts_as_often_as_it_says(percent: int) -> None:
    stage = Stage(Weather(delay_ms=0, cut_percent=percent))
    stage.connection.send(b"one")
    stage.run()

    assert stage.connection.open == (percent == 0)
