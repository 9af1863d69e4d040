"""A whole node on simulated ports, and a client that speaks to it in any version of any request."""

from typing import TypeVar

from everlog.broker.broker import Broker
from everlog.broker.exchange import Parts
from everlog.model.ids import Instant
from everlog.model.settings import broker_settings
from everlog.model.settings.listeners import Listener, SecurityProtocol
from everlog.node.node import Node
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.disk import SimFiles
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message

M = TypeVar("M", bound=Message)


class Silence:
    """An alarm that never rings: tests move time themselves."""

    def ring_by(self, deadline: Instant) -> None:
        """Forget it."""


class SimNode:
    """One node that serves, and the answers that it has sent."""

    def __init__(self, files: SimFiles | None = None, **given: str) -> None:
        self.files = files or SimFiles()
        self.files.make_dir("logs")
        self.aside = SimAside()
        self.clock = SimClock()
        settings = {key.replace("_", "."): value for key, value in given.items()}
        self.node = Node(
            broker_settings(
                {"node.id": "1", "process.roles": "broker,controller", "log.dirs": "logs", **settings}
            ),
            self.files,
            self.clock,
            SimRandom(7),
            self.aside,
            Silence(),
        )
        started: list[object] = []
        listener = Listener("PLAINTEXT", "broker.test", 9092, SecurityProtocol.PLAINTEXT)
        self.node.start([listener], started.append)
        self.aside.run_all()
        assert started == [None]
        self.answers: list[bytes] = []
        self.session = self.node.open_session(self, "PLAINTEXT", "192.0.2.7")

    @property
    def broker(self) -> Broker:
        return self.node.broker

    def send(self, parts: Parts) -> None:
        self.answers.append(b"".join(part if isinstance(part, bytes) else part.read() for part in parts))

    def close(self) -> None:
        raise AssertionError("the broker closed the connection")

    def pause(self, reason: str) -> None:
        """Nothing: tests send one request at a time."""

    def resume(self, reason: str) -> None:
        """Nothing: tests send one request at a time."""

    def request(self, message: Message, version: int) -> None:
        """Send a request and let nothing happen on the disk."""
        frame = encode_request(message, version, 42, "tester")
        self.session.receive(memoryview(frame)[4:])

    def ask(self, message: Message, version: int, answer_type: type[M]) -> M:
        """Send a request, let the disk work, and return its answer."""
        self.request(message, version)
        self.aside.run_all()
        frame = self.answers.pop()
        assert not self.answers
        key = message.KEY
        assert key is not None
        correlation_id, answer = decode_response(key, version, memoryview(frame)[4:])
        assert correlation_id == 42
        assert isinstance(answer, answer_type)
        return answer
