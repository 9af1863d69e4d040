"""A desk on a controller that leads a quorum of one, asked through the bytes of requests and answers."""

from typing import TypeVar, cast

from everlog.broker.desk.desk import Desk
from everlog.broker.desk.dispatch import handler
from everlog.broker.exchange import Exchange, Parts
from everlog.controller.decisions import Command
from everlog.controller.heartbeats import Heartbeats
from everlog.controller.leader_recovery import Ends
from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.metadata.image import ClusterImage
from everlog.model.ids import BrokerId, Instant, Uuid
from everlog.wire.codec import decode_request, decode_response, encode_request, read_request_header
from everlog.wire.message import Message
from everlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from everlog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from tests.unit.controller.builders import Machine, outcome

M = TypeVar("M", bound=Message)
R = TypeVar("R")

CLUSTER_ID = "a-cluster-of-some-kind"
SESSION_MS = 9_000


class Line:
    """One request's way back: what a session is to its exchange."""

    listener_name = "CONTROLLER"
    peer_host = "127.0.0.1"
    number = 1
    open = True

    def __init__(self) -> None:
        self.exchange: Exchange | None = None

    def send_answered(self) -> None:
        """The exchange has its answer."""

    @property
    def parts(self) -> Parts:
        assert self.exchange is not None
        return self.exchange.parts


class SimulatedDesk:
    """What handlers of commands need of a desk."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.clock = self.machine.clock
        self.controller = self.machine.controller()
        self.heartbeats = Heartbeats(SESSION_MS)
        self.cluster_id = CLUSTER_ID
        self.recovered_ends: Ends = {}

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def now(self) -> Instant:
        return self.clock.now()

    def heard(self, broker: BrokerId, epoch: int, exchange: Exchange) -> None:
        """A broker beats; nobody closes its connection here."""

    def do(self, command: Command[R]) -> R:
        """Decide on a command beside the wire."""
        return outcome(self.machine, self.controller, command)

    def ask(self, request: Message, version: int, kind: type[M]) -> M:
        """Handle a request as it comes over the wire and return the answer that goes back."""
        assert request.KEY is not None
        frame = memoryview(encode_request(request, version, 7, "test"))[4:]
        header = read_request_header(frame)
        line = Line()
        line.exchange = exchange = Exchange(line, version, 7)  # type: ignore[arg-type]  # all that it uses
        # Handlers of commands are content with a Seat, which this is; the table says Desk for the others.
        handler(request.KEY)(cast(Desk, self), decode_request(header, frame), exchange)
        self.machine.aside.run_all()
        assert exchange.answered
        whole = b"".join(part if isinstance(part, bytes) else part.read() for part in line.parts)
        _, answer = decode_response(request.KEY, version, whole[4:])
        assert isinstance(answer, kind)
        return answer

    def register(self, number: int, **fields: object) -> BrokerRegistrationResponse:
        """Let a new process of a broker register."""
        given: dict[str, object] = {
            "broker_id": number,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self.machine.random.uuid(),
            "listeners": [Listener(name="PLAINTEXT", host="127.0.0.1", port=9092 + number)],
            "features": [
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            "log_dirs": [Uuid(bytes(14) + b"\x01" + bytes((number,)))],
            **fields,
        }
        request = BrokerRegistrationRequest(**given)  # type: ignore[arg-type]
        return self.ask(request, 4, BrokerRegistrationResponse)

    def beat(self, number: int, **fields: object) -> BrokerHeartbeatResponse:
        """Let a broker beat that knows all there is to know."""
        given: dict[str, object] = {
            "broker_id": number,
            "broker_epoch": self.image.brokers[BrokerId(number)].epoch,
            "current_metadata_offset": self.image.end_offset - 1,
            **fields,
        }
        request = BrokerHeartbeatRequest(**given)  # type: ignore[arg-type]
        return self.ask(request, 2, BrokerHeartbeatResponse)

    def join(self, *numbers: int) -> None:
        """Let brokers register and be unfenced."""
        for number in numbers:
            assert self.register(number).error_code == 0
            assert not self.beat(number).is_fenced
