"""Whatever the network does, each request to another node ends once, in time, and with its own answer."""

from collections.abc import Callable
from heapq import heappop, heappush

import pytest

from everlog.model.ids import Instant
from everlog.peers.address import Address, Unreachable
from everlog.peers.peers import Peers
from everlog.sim.alarm import SimAlarm
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.links import SimLinks
from everlog.sim.mesh import Mesh
from everlog.sim.network import Weather
from everlog.sim.wire import WireEnd
from everlog.wire.codec import decode_request, encode_response, read_request_header
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

VERSION = 12
SEEDS = 150
REQUESTS = 80
LANES = ("", "fetch")
SLACK_MS = 1
PORT = 9092


class Sitting:
    """The far end of a connection: answers what comes in order, sooner or later, or hangs up."""

    def __init__(self, far: "FarNode", end: WireEnd) -> None:
        self._far = far
        self.end = end
        self._owed: list[bytes] = []

    def opened(self) -> None:
        raise AssertionError("only who connects hears this")

    def received(self, frame: bytes) -> None:
        header = read_request_header(frame[4:])
        request = decode_request(header, frame[4:])
        assert isinstance(request, MetadataRequest)
        assert request.topics is not None
        answer = MetadataResponse(topics=[MetadataResponseTopic(name=request.topics[0].name)])
        self._owed.append(encode_response(answer, header.api_version, header.correlation_id))
        self._far.world.at(self._far.chance.below(60), self._answer)

    def _answer(self) -> None:
        # One for each request: the oldest is always the one that is due.
        if self._far.is_up and self.end.is_open and self._owed:
            self.end.send(self._owed.pop(0))

    def lost(self, reason: str, *, refused: bool) -> None:
        self._owed.clear()


class FarNode:
    """Another node, which is killed and started, loses power, and stops answering."""

    def __init__(self, world: "World", chance: SimRandom) -> None:
        self.world = world
        self.chance = chance
        self.is_up = True
        self.has_power = True
        self._sittings: list[Sitting] = []

    def powered(self) -> bool:
        return self.has_power

    def accept(self, end: WireEnd, port: int, peer: str) -> Sitting | None:
        if not self.is_up or port != PORT:
            return None
        self._sittings.append(Sitting(self, end))
        return self._sittings[-1]

    def kill(self) -> None:
        self.is_up = False
        for sitting in self._sittings:
            sitting.end.close()
        self._sittings.clear()

    def lose_power(self) -> None:
        self.is_up = self.has_power = False
        for sitting in self._sittings:
            sitting.end.vanish()
        self._sittings.clear()

    def start(self) -> None:
        self.is_up = self.has_power = True


class World:
    """One node that asks, one that is asked, time, and everything that goes wrong between them."""

    def __init__(self, seed: int) -> None:
        self.chance = SimRandom(seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self.clock = SimClock()
        self.alarm = SimAlarm()
        self.mesh = Mesh(self, self.chance.fork("mesh"))
        self.mesh.weather = Weather(
            delay_ms=self.chance.below(20),
            late_percent=self.chance.below(20),
            late_ms=400,
            cut_percent=self.chance.below(5),
        )
        self.far = FarNode(self, self.chance.fork("far"))
        self.mesh.add("node2", self.far)
        links = SimLinks(self.mesh, "node1", lambda action: action())
        self.peers = Peers(links, self.clock, self.alarm, "node-1")
        self.ended: dict[int, str] = {}
        self.deadlines: dict[int, int] = {}

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._events, (self.clock.now() + delay_ms, self._order, action))

    def observe(self, frame: bytes) -> None:
        pass

    def run(self, until: int) -> None:
        """Let time pass, with the alarm rung when it is due and never otherwise."""
        while True:
            due = self.alarm.deadline
            upcoming = self._events[0][0] if self._events else until
            moment = min(upcoming, until if due is None else max(due, self.clock.now()), until)
            self.clock.advance(moment - self.clock.now())
            if due is not None and due <= moment:
                self.alarm.deadline = None
                self.peers.tick(self.clock.now())
            elif self._events and upcoming <= moment:
                heappop(self._events)[2]()
            else:
                return
            self._check_deadlines()

    def ask_anything(self, number: int) -> None:
        """Ask on any lane, with any patience."""
        self.ask(number, LANES[self.chance.below(len(LANES))], 50 + self.chance.below(1_500))

    def ask(self, number: int, lane: str, timeout_ms: int) -> None:
        """Ask for something that nobody else asks for, and note how it ends."""
        self.deadlines[number] = self.clock.now() + timeout_ms
        request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}")])

        def done(answer: MetadataResponse | Unreachable) -> None:
            assert number not in self.ended, f"request {number} ends twice"
            if isinstance(answer, MetadataResponse):
                assert answer.topics[0].name == f"t{number}", "the answer to another request"
                self.ended[number] = "answered"
            else:
                self.ended[number] = "refused" if answer.refused else "unreachable"
                if self.chance.happens(20):
                    self.peers.at(Address("node2", PORT), lane).probe(lambda _: None)

        before = len(self.ended)
        self.peers.at(Address("node2", PORT), lane).ask(request, VERSION, timeout_ms, done)
        assert len(self.ended) == before, "nobody is told before the call has returned"

    def _check_deadlines(self) -> None:
        now = self.clock.now()
        late = [
            number
            for number, deadline in self.deadlines.items()
            if deadline + SLACK_MS < now and number not in self.ended
        ]
        assert not late, f"requests {late} have not ended at {now}"

    def strike(self) -> None:
        """Do one harmful thing, and undo it some time later."""
        there, back = self.mesh.route("node1", "node2"), self.mesh.route("node2", "node1")
        kind, for_ms = self.chance.below(5), 10 + self.chance.below(900)
        if kind < 2:
            route = (there, back)[kind]
            route.close()
            self.at(for_ms, lambda: None if route.is_open else route.open())
        elif kind < 4 and self.far.is_up:
            (self.far.kill, self.far.lose_power)[kind - 2]()
            self.at(for_ms, self.far.start)
        else:
            for wire in self.mesh.wires("node2"):
                wire.reset("the connection was reset")


def play(seed: int) -> World:
    world = World(seed)
    for number in range(REQUESTS):
        world.at(world.chance.below(8_000), lambda number=number: world.ask_anything(number))  # type: ignore[misc]  # an int
    for _ in range(world.chance.below(15)):
        world.at(world.chance.below(8_000), world.strike)
    world.run(until=12_000)
    return world


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_each_request_ends_once_and_in_time(first: int) -> None:
    seen: set[str] = set()
    for seed in range(first, first + 50):
        world = play(seed)
        assert len(world.ended) == REQUESTS, f"seed {seed}"
        seen.update(world.ended.values())

        # Once everything is well again, everything is answered. A connection whose far end has lost its power
        # is not known to be dead before something is asked on it.
        world.mesh.heal()
        world.mesh.weather = Weather()
        world.far.start()
        world.run(until=16_000)
        for number in range(1_000, 1_020):
            world.ask(number, LANES[number % 2], 1_900)
            world.run(until=world.clock.now() + 2_000)
        assert [world.ended[number] for number in range(1_002, 1_020)] == ["answered"] * 18, f"seed {seed}"
        assert world.alarm.deadline is None or world.alarm.deadline > Instant(world.clock.now())
    assert seen == {"answered", "refused", "unreachable"}, "the seeds show all that can happen"
