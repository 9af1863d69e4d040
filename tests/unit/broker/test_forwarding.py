"""Clients' requests that are the controller's: served here or sent in an envelope, answered just the same."""

import pytest

from everlog.broker.desk.handlers import envelope
from everlog.broker.exchange import Exchange, Parts
from everlog.broker.forwarding import FORWARDED, anonymous, forward, packed_host, unpacked_host
from everlog.model.errors import ErrorCode, ProtocolError
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.codec import decode_response, encode_request, encode_response
from everlog.wire.message import Message
from everlog.wire.messages.api_versions import ApiVersionsRequest
from everlog.wire.messages.create_acls import CreateAclsRequest
from everlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from everlog.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from everlog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

from .scripted_quorum import ChannelWorld, ScriptedDesk

CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3)], timeout_ms=5_000)
CREATED = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_message=None, num_partitions=3)])
NOT_CONTROLLER = CreateTopicsResponse(
    topics=[CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)]
)
VERSION = 7
CORRELATION_ID = 4711


class Client:
    """Stands where a session stands, for one exchange after another."""

    listener_name = "PLAINTEXT"
    peer_host = "192.0.2.7"
    number = 12

    def __init__(self) -> None:
        self.open = True
        self.closed = False
        self.exchange: Exchange
        self.frames: list[bytes] = []

    def send_answered(self) -> None:
        self.frames.append(whole(self.exchange.parts))

    def close(self) -> None:
        self.closed = True

    def begin(self, version: int = VERSION, correlation_id: int = CORRELATION_ID) -> Exchange:
        # It has all that an exchange asks of a session.
        self.exchange = Exchange(self, version, correlation_id)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        return self.exchange

    def answer(self, key: int = ApiKey.CREATE_TOPICS, version: int = VERSION) -> Message:
        """The one answer that it got."""
        (frame,) = self.frames
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        correlation_id, message = decode_response(key, version, frame[4:])
        assert correlation_id == CORRELATION_ID
        return message


def whole(parts: Parts) -> bytes:
    return b"".join(part if isinstance(part, bytes) else part.read() for part in parts)


@pytest.fixture
def world() -> ChannelWorld:
    return ChannelWorld()


@pytest.fixture
def client() -> Client:
    return Client()


def send(world: ChannelWorld, client: Client, request: Message = CREATE, version: int = VERSION) -> None:
    """Have a client's request forwarded; the buffer that it came in is used again at once."""
    buffer = bytearray(encode_request(request, version, CORRELATION_ID, "a client"))
    assert request.KEY is not None
    forward(world, request.KEY, client.begin(version), memoryview(buffer)[4:])
    buffer[:] = bytes(len(buffer))
    world.settle()


def envelope_of(world: ChannelWorld, number: int = 0) -> EnvelopeRequest:
    request = world.link.requests()[number]
    assert isinstance(request, EnvelopeRequest)
    return request


def serve_at_desk(request: EnvelopeRequest) -> tuple[ScriptedDesk, "Outer"]:
    """Hand an envelope to the handler at another node's desk."""
    desk, outer = ScriptedDesk(), Outer()
    envelope.handle(desk, request, outer.begin(0, 1))
    return desk, outer


class Outer(Client):
    """The connection that an envelope came on."""

    peer_host = "198.51.100.1"

    def opened(self) -> EnvelopeResponse:
        (frame,) = self.frames
        _, message = decode_response(ApiKey.ENVELOPE, 0, frame[4:])
        assert isinstance(message, EnvelopeResponse)
        return message


class TestHere:
    def test_the_active_controllers_own_clients_are_served_at_its_desk(
        self, world: ChannelWorld, client: Client
    ) -> None:
        world.quorum.leader, world.quorum.is_active = 1, True
        send(world, client)
        ((request, exchange),) = world.desk.served
        assert request == CREATE
        assert (exchange.api_version, exchange.client_id) == (VERSION, "a client")
        assert (exchange.listener_name, exchange.peer_host, exchange.connection) == (
            "PLAINTEXT",
            "192.0.2.7",
            12,
        )
        exchange.answer(CREATED)
        assert client.answer() == CREATED
        assert world.links == []

    def test_a_lead_that_is_lost_meanwhile_is_not_the_clients_affair(
        self, world: ChannelWorld, client: Client
    ) -> None:
        world.quorum.leader, world.quorum.is_active = 1, True
        send(world, client)
        world.quorum.leader, world.quorum.is_active = 2, False
        world.desk.served[0][1].answer(NOT_CONTROLLER)
        assert client.frames == []
        world.pass_time(20)
        assert envelope_of(world).request_data


class TestThere:
    def test_the_request_travels_as_it_came_with_who_has_sent_it(
        self, world: ChannelWorld, client: Client
    ) -> None:
        world.quorum.leader = 2
        send(world, client)
        sent = envelope_of(world)
        assert sent.request_data == encode_request(CREATE, VERSION, CORRELATION_ID, "a client")[4:]
        assert sent.client_host_address == bytes([192, 0, 2, 7])
        assert sent.request_principal == anonymous()

    def test_the_answer_inside_is_passed_on_as_it_is(self, world: ChannelWorld, client: Client) -> None:
        world.quorum.leader = 2
        send(world, client)
        world.link.open()
        inside = encode_response(CREATED, VERSION, CORRELATION_ID)
        world.link.answer(0, EnvelopeResponse(response_data=inside[4:]))
        assert client.frames == [inside]

    def test_all_the_way_to_another_desk_and_back(self, world: ChannelWorld, client: Client) -> None:
        world.quorum.leader = 2
        send(world, client)
        desk, outer = serve_at_desk(envelope_of(world))
        ((request, exchange),) = desk.served
        assert request == CREATE
        assert (exchange.api_version, exchange.client_id, exchange.peer_host) == (
            VERSION,
            "a client",
            "192.0.2.7",
        )
        exchange.answer(CREATED)
        world.link.open()
        world.link.answer(0, outer.opened())
        assert client.answer() == CREATED

    def test_whoever_is_not_the_controller_is_left_for_the_one_who_is(
        self, world: ChannelWorld, client: Client
    ) -> None:
        world.quorum.leader = 2
        send(world, client)
        desk, outer = serve_at_desk(envelope_of(world))
        desk.served[0][1].answer(NOT_CONTROLLER)
        world.link.open()
        world.link.answer(0, outer.opened())
        assert client.frames == []
        world.quorum.leader = 3
        world.pass_time(20)
        assert world.link.host == "node-3.test"
        world.link.open()
        inside = encode_response(CREATED, VERSION, CORRELATION_ID)
        world.link.answer(0, EnvelopeResponse(response_data=inside[4:]))
        assert client.answer() == CREATED

    def test_a_connection_that_breaks_is_tried_again(self, world: ChannelWorld, client: Client) -> None:
        world.quorum.leader = 2
        send(world, client)
        world.link.open()
        world.link.lose("has hung up")
        world.pass_time(50)
        assert len(world.links) == 2
        assert envelope_of(world).request_data

    def test_an_envelope_that_is_refused_is_answered_with_its_error(
        self, world: ChannelWorld, client: Client
    ) -> None:
        world.quorum.leader = 2
        send(world, client)
        world.link.open()
        world.link.answer(0, EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        answer = client.answer()
        assert isinstance(answer, CreateTopicsResponse)
        assert [(one.name, one.error_code) for one in answer.topics] == [("t", ErrorCode.UNSUPPORTED_VERSION)]

    @pytest.mark.parametrize(("timeout_ms", "waits_ms"), [(5_000, 5_000), (0, 1_000), (600_000, 60_000)])
    def test_without_a_controller_the_client_hears_that_its_time_is_up(
        self, world: ChannelWorld, client: Client, timeout_ms: int, waits_ms: int
    ) -> None:
        send(world, client, CreateTopicsRequest(topics=CREATE.topics, timeout_ms=timeout_ms))
        world.pass_time(waits_ms - 1)
        assert client.frames == []
        world.pass_time(21)
        answer = client.answer()
        assert isinstance(answer, CreateTopicsResponse)
        assert [(one.name, one.error_code) for one in answer.topics] == [("t", ErrorCode.REQUEST_TIMED_OUT)]

    def test_a_request_that_says_no_time_has_thirty_seconds(
        self, world: ChannelWorld, client: Client
    ) -> None:
        send(world, client, DescribeQuorumRequest(), 2)
        world.pass_time(29_999)
        assert client.frames == []
        world.pass_time(21)
        answer = client.answer(ApiKey.DESCRIBE_QUORUM, 2)
        assert isinstance(answer, DescribeQuorumResponse)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_nothing_is_tried_again_for_a_client_that_has_gone(
        self, world: ChannelWorld, client: Client
    ) -> None:
        send(world, client)
        client.open = False
        world.quorum.leader = 2
        world.pass_time(1_000)
        assert world.links == []
        assert world.channel.under_way == 0

    def test_what_cannot_be_read_goes_nowhere(self, world: ChannelWorld, client: Client) -> None:
        frame = encode_request(CREATE, VERSION, CORRELATION_ID, "a client")[4:30]
        with pytest.raises(ProtocolError, match="CreateTopicsRequest"):
            forward(world, ApiKey.CREATE_TOPICS, client.begin(), memoryview(frame))
        assert world.channel.under_way == 0


def inside_of(request: Message, version: int) -> bytes:
    return encode_request(request, version, CORRELATION_ID, None)[4:]


INSIDE = inside_of(CREATE, VERSION)


class TestEnvelope:
    @pytest.mark.parametrize(
        ("field", "value", "code"),
        [
            ("request_data", b"", ErrorCode.INVALID_REQUEST),
            ("request_data", INSIDE[:20], ErrorCode.INVALID_REQUEST),
            ("request_data", inside_of(ApiVersionsRequest(), 3), ErrorCode.INVALID_REQUEST),
            ("request_data", inside_of(EnvelopeRequest(), 0), ErrorCode.INVALID_REQUEST),
            ("request_data", inside_of(CreateAclsRequest(), 3), ErrorCode.INVALID_REQUEST),
            ("request_data", b"\x00\x13\x00\x63" + INSIDE[4:], ErrorCode.UNSUPPORTED_VERSION),
            ("client_host_address", b"abc", ErrorCode.INVALID_REQUEST),
            ("request_principal", b"", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
            ("request_principal", b"\x00\x07", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
            ("request_principal", anonymous()[:-3], ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ],
    )
    def test_what_cannot_be_served_is_said_of_the_envelope(
        self, field: str, value: bytes, code: ErrorCode
    ) -> None:
        request = EnvelopeRequest(
            request_data=INSIDE,
            request_principal=anonymous(),
            client_host_address=packed_host("192.0.2.7"),
        )
        setattr(request, field, value)
        desk, outer = serve_at_desk(request)
        assert desk.served == []
        assert outer.opened().error_code == code

    def test_no_principal_and_no_host_are_fine(self) -> None:
        desk, _ = serve_at_desk(EnvelopeRequest(request_data=INSIDE, request_principal=None))
        assert desk.served[0][1].peer_host == "unknown"

    def test_a_handlers_own_frame_goes_inside_without_its_size(self) -> None:
        desk, outer = serve_at_desk(EnvelopeRequest(request_data=INSIDE, request_principal=None))
        frame = encode_response(CREATED, VERSION, CORRELATION_ID)
        desk.served[0][1].answer_parts((frame[:9], frame[9:]))
        assert outer.opened().response_data == frame[4:]

    def test_the_quorums_own_word_for_not_leading_counts_too(self) -> None:
        desk, outer = serve_at_desk(
            EnvelopeRequest(request_data=inside_of(DescribeQuorumRequest(), 2), request_principal=None)
        )
        desk.served[0][1].answer(DescribeQuorumResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert outer.opened().error_code == ErrorCode.NOT_CONTROLLER

    def test_it_is_abandoned_when_the_broker_that_sent_it_is_gone(self) -> None:
        desk, outer = serve_at_desk(EnvelopeRequest(request_data=INSIDE, request_principal=None))
        assert not desk.served[0][1].abandoned
        outer.open = False
        assert desk.served[0][1].abandoned


def test_what_is_forwarded_is_what_both_listeners_serve() -> None:
    for key in FORWARDED:
        assert APIS[key].on_broker, key.name
        assert APIS[key].on_controller, key.name


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7"])
def test_hosts_travel_as_bytes(host: str) -> None:
    assert unpacked_host(packed_host(host)) == host


def test_a_scope_is_left_behind_and_names_are_unknown() -> None:
    assert unpacked_host(packed_host("fe80::1%eth0")) == "fe80::1"
    assert packed_host("unknown") == b""
