"""A script is handed its answers, and is told when there will be none."""

from collections.abc import Callable
from heapq import heappop, heappush

from everlog.broker.session import Session
from everlog.sim.chance import SimRandom
from everlog.sim.network import Connection, Weather
from everlog.sim.player import Player
from everlog.sim.script import ANYBODY, Lost, Script, ask, burst, sleep
from everlog.wire.codec import encode_response, read_request_header
from everlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class World:
    """Time, and a host that answers all but the requests whose numbers it is told to leave."""

    def __init__(self, *unanswered: int) -> None:
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self.now = 0
        self._unanswered = unanswered
        self._connections: list[Connection] = []
        self.requests = 0
        self.nodes: list[int] = []
        """Where connections were asked for."""

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._events, (self.now + delay_ms, self._order, action))

    def observe(self, frame: bytes) -> None:
        pass

    def accept(self, connection: Connection) -> Session | None:
        return connection  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # handed back to us

    def deliver(self, session: Session, frame: bytes) -> None:
        self.requests += 1
        if self.requests - 1 not in self._unanswered:
            connection = next(each for each in self._connections if id(each) == id(session))
            header = read_request_header(memoryview(frame)[4:])
            answer = ApiVersionsResponse(throttle_time_ms=self.requests)
            connection.send_parts((encode_response(answer, 3, header.correlation_id),))

    def hang_up(self, session: Session) -> None:
        pass

    def play(self, script: Script[None]) -> None:
        """Play a script to its end."""

        def connect(node: int, on_frame: Callable[[bytes], None], on_lost: Callable[[], None]) -> Connection:
            self.nodes.append(node)
            made = Connection(self, self, Weather, SimRandom("player"), on_frame, on_lost)
            self._connections.append(made)
            return made

        player = Player("player", script, self.at, connect)
        player.start()
        while self._events:
            time, _, action = heappop(self._events)
            self.now = max(self.now, time)
            action()
        assert player.done

    @property
    def connections(self) -> int:
        return len(self._connections)


def test_an_answer_goes_to_the_step_that_asked() -> None:
    world = World()
    heard: list[int] = []

    def script() -> Script[None]:
        for _ in range(3):
            answer = yield from ask(ApiVersionsResponse, ApiVersionsRequest(), 3)
            heard.append(answer.throttle_time_ms)
            yield from sleep(10)

    world.play(script())

    assert heard == [1, 2, 3]
    assert world.connections == 1
    assert world.now >= 30


def test_a_request_without_an_answer_is_lost_and_the_next_goes_over_another_connection() -> None:
    world = World(0)
    heard: list[object] = []

    def script() -> Script[None]:
        try:
            yield from ask(ApiVersionsResponse, ApiVersionsRequest(), 3, timeout_ms=500)
        except Lost:
            heard.append(world.now)
        answer = yield from ask(ApiVersionsResponse, ApiVersionsRequest(), 3)
        heard.append(answer.throttle_time_ms)

    world.play(script())

    assert heard == [500, 2]
    assert world.connections == 2


def test_a_burst_has_the_answers_that_came() -> None:
    world = World(2)
    heard: list[int | None] = []

    def script() -> Script[None]:
        requests = [ApiVersionsRequest() for _ in range(3)]
        answers = yield from burst(ApiVersionsResponse, list(requests), 3)
        heard.extend(None if answer is None else answer.throttle_time_ms for answer in answers)

    world.play(script())

    assert heard == [1, 2, None]


def test_two_channels_are_two_connections() -> None:
    world = World()

    def script() -> Script[None]:
        yield from ask(ApiVersionsResponse, ApiVersionsRequest(), 3, "one")
        yield from ask(ApiVersionsResponse, ApiVersionsRequest(), 3, "other")

    world.play(script())

    assert world.connections == 2


def test_each_node_has_a_connection_of_its_own() -> None:
    world = World()

    def script() -> Script[None]:
        for node in (1, 2, 1, ANYBODY):
            yield from ask(ApiVersionsResponse, ApiVersionsRequest(), 3, node=node)

    world.play(script())

    assert world.nodes == [1, 2, ANYBODY]
