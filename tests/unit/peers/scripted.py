"""Connections that do what a test tells them to."""

from collections.abc import Sequence

from everlog.model.ids import Instant
from everlog.peers.peers import Peers
from everlog.ports.links import LinkOwner
from everlog.sim.alarm import SimAlarm
from everlog.sim.clock import SimClock
from everlog.wire.codec import RequestHeader, decode_request, encode_response, read_request_header
from everlog.wire.message import Message, Records


class ScriptedLink:
    """One attempt to connect: what was sent on it, and what the far end is made to do."""

    def __init__(self, host: str, port: int, owner: LinkOwner) -> None:
        self.host = host
        self.port = port
        self.owner = owner
        self.frames: list[bytes] = []
        self.closed = False

    def send(self, frame: Sequence[Records]) -> None:
        assert not self.closed
        self.frames.append(b"".join(frame))

    def close(self) -> None:
        self.closed = True

    def headers(self) -> list[RequestHeader]:
        return [read_request_header(frame[4:]) for frame in self.frames]

    def requests(self) -> list[Message]:
        return [decode_request(read_request_header(frame[4:]), frame[4:]) for frame in self.frames]

    def open(self) -> None:
        self.owner.opened()

    def answer(self, number: int, message: Message) -> None:
        """Answer the request that was sent as the `number`th on this connection."""
        header = self.headers()[number]
        frame = encode_response(message, header.api_version, header.correlation_id)
        self.owner.received(memoryview(frame)[4:])

    def lose(self, reason: str = "has hung up", *, refused: bool = False) -> None:
        self.closed = True
        self.owner.lost(reason, refused=refused)


class ScriptedWorld:
    """Peers on a clock that a test moves; each attempt to connect is kept in `links`."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.alarm = SimAlarm()
        self.links: list[ScriptedLink] = []
        self.peers = Peers(self, self.clock, self.alarm, "node-1")

    @property
    def link(self) -> ScriptedLink:
        """The newest connection."""
        return self.links[-1]

    def connect(self, host: str, port: int, owner: LinkOwner) -> ScriptedLink:
        link = ScriptedLink(host, port, owner)
        self.links.append(link)
        return link

    def tick(self) -> None:
        """Do what is due."""
        self.peers.tick(self.clock.now())

    def settle(self) -> None:
        """Ring whatever alarm is due."""
        for _ in range(100):
            deadline = self.alarm.deadline
            if deadline is None or deadline > self.clock.now():
                return
            self.alarm.deadline = None
            self.tick()
        raise AssertionError("the alarm never comes to rest")

    def pass_time(self, ms: int) -> None:
        """Let time pass, ringing the alarm whenever it is due and at no other time."""
        end = self.clock.now() + ms
        self.settle()
        while self.alarm.deadline is not None and self.alarm.deadline <= end:
            self.clock.advance(self.alarm.deadline - self.clock.now())
            self.settle()
        self.clock.advance(Instant(end) - self.clock.now())
