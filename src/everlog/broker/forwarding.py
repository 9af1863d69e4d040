"""Requests of clients that only the active controller can serve, taken there and back.

Where this node's own controller is active its desk serves them. Otherwise they travel as they came, in an
Envelope, and the answer inside is passed on as it is (KIP-590).
"""

import ipaddress
from struct import Struct
from typing import Final, Protocol

from everlog.broker.controller_channel import ControllerChannel, LocalDesk, NotServed, Told
from everlog.broker.direct_exchange import DirectExchange
from everlog.broker.error_answers import error_answer, says_not_active
from everlog.broker.exchange import Exchange
from everlog.broker.request_limits import decode_limited
from everlog.model.errors import ErrorCode, Refused
from everlog.peers.address import Unreachable
from everlog.peers.peer import Peer
from everlog.wire.apis import ApiKey
from everlog.wire.codec import encode_response, encode_value, read_request_header
from everlog.wire.message import Message
from everlog.wire.messages.default_principal_data import DefaultPrincipalData
from everlog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UNREGISTER_CONTROLLER,
    }
)
"""What goes to the active controller, as with Kafka."""

TIMEOUT_MS: Final = 30_000
"""For requests that do not say how long they may take."""

LEAST_TIMEOUT_MS: Final = 1_000
MAX_TIMEOUT_MS: Final = 60_000

ENVELOPE_VERSION: Final = 0
PRINCIPAL_VERSION: Final = 0
_PREFIX: Final = Struct(">h")
_SIZE: Final = Struct(">i")


class Forwarder(Protocol):
    """A broker that knows its way to the active controller."""

    @property
    def channel(self) -> ControllerChannel:
        """That way."""
        ...


def forward(broker: Forwarder, api_key: int, exchange: Exchange, frame: memoryview) -> None:
    """Have a request served by the active controller, and its client answered in the end.

    ProtocolError if it cannot be read. The frame may be reused once this returns.
    """
    assert api_key in FORWARDED, api_key
    header = read_request_header(frame)
    exchange.client_id = header.client_id
    request = decode_limited(header, frame)
    wanted: int = getattr(request, "timeout_ms", TIMEOUT_MS)
    errand = _Forward(request, exchange, bytes(frame))
    broker.channel.run(errand, min(max(wanted, LEAST_TIMEOUT_MS), MAX_TIMEOUT_MS))


class _Forward:
    """A client's request on its way to the active controller; what comes back is a whole answer frame."""

    lane = "forward"

    def __init__(self, request: Message, exchange: Exchange, frame: bytes) -> None:
        assert request.KEY is not None, request
        self.name = ApiKey(request.KEY).name
        self._request = request
        self._exchange = exchange
        self._frame = frame

    @property
    def abandoned(self) -> bool:
        return self._exchange.abandoned

    def here(self, desk: LocalDesk, told: Told) -> None:
        def answered(answer: Message | bytes | None) -> None:
            told(_framed(answer, direct))

        direct = DirectExchange(
            self._exchange.api_version,
            answered,
            correlation_id=self._exchange.correlation_id,
            client_id=self._exchange.client_id,
            origin=self._exchange,
        )
        desk.serve(self._request, direct)

    def there(self, peer: Peer, timeout_ms: int, told: Told) -> None:
        def answered(answer: EnvelopeResponse | Unreachable) -> None:
            if isinstance(answer, Unreachable):
                told(NotServed(answer.reason))
            elif answer.error_code == ErrorCode.NOT_CONTROLLER:
                told(NotServed(f"{peer.address} is not the active controller"))
            elif answer.error_code != ErrorCode.NONE or answer.response_data is None:
                code = ErrorCode(answer.error_code)
                told(Refused(code, f"the controller at {peer.address} cannot serve {self.name}: {code.name}"))
            else:
                told(_SIZE.pack(len(answer.response_data)) + answer.response_data)

        envelope = EnvelopeRequest(
            request_data=self._frame,
            request_principal=anonymous(),
            client_host_address=packed_host(self._exchange.peer_host),
        )
        peer.ask(envelope, ENVELOPE_VERSION, timeout_ms, answered)

    def end(self, outcome: object) -> None:
        exchange = self._exchange
        if exchange.abandoned:
            return
        if isinstance(outcome, bytes):
            exchange.answer_parts((outcome,))
            return
        assert isinstance(outcome, Refused), outcome
        answer = error_answer(self._request, exchange.api_version, outcome)
        if answer is None:
            exchange.answer_nothing(close=True)
        else:
            exchange.answer(answer)


def _framed(answer: Message | bytes | None, exchange: Exchange) -> bytes | NotServed:
    """The frame of an answer, unless it says that this controller is not the active one any more."""
    if isinstance(answer, Message):
        if says_not_active(answer):
            return NotServed("this node's controller is not active any more")
        return encode_response(answer, exchange.api_version, exchange.correlation_id)
    assert answer is not None, "what is forwarded is answered"
    return answer


# How an envelope says who has asked.


def anonymous() -> bytes:
    """The name of whoever has not said who it is; there is nobody else yet."""
    named = DefaultPrincipalData(type="User", name="ANONYMOUS")
    return _PREFIX.pack(PRINCIPAL_VERSION) + encode_value(named, PRINCIPAL_VERSION)


def packed_host(host: str) -> bytes:
    """An address as four or sixteen bytes; none if it is not known."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return b""


def unpacked_host(packed: bytes) -> str:
    """The address in an envelope; ValueError if it is none."""
    return str(ipaddress.ip_address(packed)) if packed else "unknown"
