"""One connection to a broker on an event loop: requests out, answers in, in order, each by a deadline."""

import asyncio
import copy
import socket
import ssl
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, TypeVar, cast

from everlog.client.core.answer_frames import MAX_ANSWER_BYTES, AnswerFrames
from everlog.client.core.errors import TimedOut, TlsFailed, Unreachable
from everlog.client.core.versions import BrokerVersions
from everlog.client.drive.direct_writes import DIRECT_BYTES, DirectWrites
from everlog.client.drive.tls import tls_problem
from everlog.edge.same_machine import send_unpaced
from everlog.model.errors import EverlogError, ProtocolError
from everlog.wire.apis import ApiKey
from everlog.wire.codec import decode_response, encode_request_pieces
from everlog.wire.message import Message, Records

Answer = TypeVar("Answer", bound=Message)

WRITE_BUFFER_BYTES = 1024 * 1024
SILENT_S = 1.0
"""A broker that owes an answer and says nothing for so long may be frozen: better ask others meanwhile."""
_INT32 = Struct(">i")

_APIS = {api.value: api for api in ApiKey}

_OPENING = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What is answered before a connection is known to serve us."""


class _Expected:
    """An answer that is due. Its future may be done before it comes: then the answer is dropped."""

    __slots__ = ("answer", "api", "correlation_id", "kind", "sent_at", "timeout", "timer", "version")

    timer: asyncio.TimerHandle

    def __init__(
        self,
        api: ApiKey,
        version: int,
        correlation_id: int,
        kind: type[Message],
        answer: "asyncio.Future[Any]",
        timeout: float,
        sent_at: float,
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.kind = kind
        self.answer = answer
        self.timeout = timeout
        self.sent_at = sent_at


class Connection(asyncio.BufferedProtocol):
    """Requests may be sent ahead of the answers to earlier ones; brokers answer in order.

    A caller that stops waiting does no harm: the answer is dropped when it comes. What cannot be read, a
    broken connection, or a broker that is silent for `patience` seconds closes it, and all that is under way
    fails. Make one with `open_connection`, which also agrees on versions and authenticates.
    """

    def __init__(
        self, address: str, client_id: str, loop: asyncio.AbstractEventLoop, patience: float
    ) -> None:
        self.address = address
        self.versions = BrokerVersions({}, address)
        self.is_proven = False
        """Whether a request beyond those of the opening was ever answered."""
        self._when_closed: list[Callable[[Connection], object]] = []
        self._client_id = client_id
        self._loop = loop
        self._patience = patience
        self._transport: asyncio.Transport | None = None
        self._is_encrypted = False
        self._direct: DirectWrites | None = None
        """For large requests, where the socket takes bytes as they are."""
        self._correlation_id = 0
        self._expected: deque[_Expected] = deque()
        self._held_back: list[tuple[_Expected | None, list[Records]]] | None = None
        """While the connection authenticates again: requests to be sent after it, in order (KIP-368)."""
        self._failure: EverlogError | None = None
        self._frames = AnswerFrames(address)
        self._used_at = loop.time()
        self._heard_at = self._used_at
        self._throttled_until = 0.0
        self._ended = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def in_flight(self) -> int:
        """Requests whose answers have not come yet."""
        return len(self._expected) + (len(self._held_back) if self._held_back else 0)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self._failure is None

    @property
    def is_writable(self) -> bool:
        """Whether the socket takes more; if not, wait for `drained` before sending much."""
        return self._writable.is_set()

    def idle_for(self, now: float) -> float:
        """Seconds without a request, by the loop's clock; 0 while one is under way."""
        return 0.0 if self.in_flight else now - self._used_at

    def is_silent(self, now: float) -> bool:
        """Whether an answer is due and nothing came for `SILENT_S`, by the loop's clock."""
        if not self._expected:
            return False
        return now - max(self._heard_at, self._expected[0].sent_at) >= SILENT_S

    @property
    def failure(self) -> EverlogError | None:
        """Why it ended, once it has."""
        return self._failure

    def when_closed(self, tell: "Callable[[Connection], object]") -> None:
        """Call this once when the connection ends, by whomever; at once if it has."""
        if self._failure is not None:
            tell(self)
        else:
            self._when_closed.append(tell)

    def send(
        self, request: Message, answer_type: type[Answer], timeout: float, *, at_most: int | None = None
    ) -> "asyncio.Future[Answer]":
        """Send a request at once, in the newest version both sides speak, `at_most` if given.

        The future ends with its answer, with TimedOut after `timeout` seconds, with Unreachable if the
        connection breaks; this call itself never fails. Record batches in it must not change until then.
        """
        try:
            version = self.versions.pick(_api_of(request), at_most)
            return self.send_version(request, answer_type, version, timeout)
        except EverlogError as error:
            failed: asyncio.Future[Answer] = self._loop.create_future()
            _fail(failed, error)
            return failed

    async def call(
        self, request: Message, answer_type: type[Answer], timeout: float, *, at_most: int | None = None
    ) -> Answer:
        """Send a request and wait for its answer."""
        return await self.send(request, answer_type, timeout, at_most=at_most)

    def send_silent(self, request: Message, *, at_most: int | None = None) -> None:
        """Send what is never answered: a produce request with acks=0."""
        version = self.versions.pick(_api_of(request), at_most)
        self._used_at = self._loop.time()
        self._put(None, self._encode(request, version))

    def send_version(
        self,
        request: Message,
        answer_type: type[Answer],
        version: int,
        timeout: float,
        *,
        ahead: bool = False,
    ) -> "asyncio.Future[Answer]":
        """Send in a given version; `ahead` of what is held back, if it is what the others wait for."""
        pieces = self._encode(request, version)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        now = self._loop.time()
        expected = _Expected(
            _api_of(request), version, self._correlation_id, answer_type, answer, timeout, now
        )
        # A throttled connection is not read by the broker for that long (KIP-219): no fault of the request.
        wait = timeout + max(0.0, self._throttled_until - now)
        expected.timer = self._loop.call_later(wait, self._is_late, expected)
        if not ahead:
            self._used_at = now
        self._put(expected, pieces, ahead=ahead)
        return answer

    async def drained(self) -> None:
        """Wait until the socket takes more; at once if it does, or if the connection has ended."""
        await self._writable.wait()

    def hold_back(self) -> None:
        """Keep requests from here on, except those sent ahead, until `go_on`."""
        if self._held_back is None:
            self._held_back = []

    def go_on(self) -> None:
        """Send what was held back."""
        held, self._held_back = self._held_back or [], None
        for expected, pieces in held:
            if self._transport is not None:
                self._put(expected, pieces)

    async def finish(self, timeout: float, reason: EverlogError | None = None) -> None:
        """Close the connection, but let what was sent leave first, for `timeout` seconds at most.

        What is not answered fails at once with `reason`, as with `close`; requests that have no answers get
        through.
        """
        transport = self._transport
        if transport is None:
            return
        if not self._is_encrypted and not transport.get_write_buffer_size():
            self.close(reason)
            return
        transport.close()
        self._transport = None
        self.close(reason)
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            transport.abort()
        except asyncio.CancelledError:
            transport.abort()
            raise

    def close(self, reason: EverlogError | None = None) -> None:
        """Close the connection; what was not answered fails with `reason`. Closing twice is harmless."""
        if self._failure is None:
            self._failure = reason or Unreachable(f"broker {self.address}: the connection is closed")
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        if self._direct is not None:
            self._direct.close()
            self._direct = None
        self._writable.set()
        held, self._held_back = self._held_back or [], None
        due = [*self._expected, *(expected for expected, _ in held if expected is not None)]
        self._expected.clear()
        for expected in due:
            expected.timer.cancel()
            # Each its own: tracebacks would pile up on a shared one.
            _fail(expected.answer, copy.copy(self._failure))
        told, self._when_closed = self._when_closed, []
        for tell in told:
            tell(self)

    def versions_agreed(self, versions: BrokerVersions) -> None:
        """Speak these from now on, and believe in large answers."""
        self.versions = versions
        self._frames.max_bytes = MAX_ANSWER_BYTES

    def _encode(self, request: Message, version: int) -> list[Records]:
        if self._transport is None or self._failure is not None:
            raise copy.copy(self._failure) or Unreachable(f"broker {self.address}: the connection is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return encode_request_pieces(request, version, self._correlation_id, self._client_id)

    def _put(self, expected: _Expected | None, pieces: list[Records], *, ahead: bool = False) -> None:
        assert self._transport is not None
        if self._held_back is not None and not ahead:
            self._held_back.append((expected, pieces))
            return
        if expected is not None:
            self._expected.append(expected)
        if (
            self._direct is not None
            and sum(map(len, pieces)) >= DIRECT_BYTES
            and not self._transport.get_write_buffer_size()
            and not (pieces := self._direct.write(pieces))
        ):
            return
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)

    def _is_late(self, expected: _Expected) -> None:
        late = f"broker {self.address} did not answer {expected.api.name} within {expected.timeout:g} s"
        _fail(expected.answer, TimedOut(late))
        # A short time-out is the caller's hurry, and the answer may still come. One of full length, or
        # silence of that length, means that nothing will: brokers answer in order.
        oldest = self._expected[0].sent_at if self._expected else expected.sent_at
        silent = self._loop.time() - max(self._heard_at, oldest)
        if max(expected.timeout, silent) >= self._patience:
            self.close(TimedOut(late))

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._is_encrypted = transport.get_extra_info("ssl_object") is not None
        made = transport.get_extra_info("socket")
        if made is not None:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            send_unpaced(made)
        if not self._is_encrypted:
            self._direct = DirectWrites.beside(made)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; whatever was under way has failed."""
        self._ended.set()
        if isinstance(exc, ssl.SSLError) and not self.is_proven:
            self.close(TlsFailed(tls_problem(self.address, exc)))
            return
        said = f" ({exc})" if exc is not None and str(exc) else ""
        if self._expected:
            said += f" before it answered {self._expected[0].api.name}"
        self.close(Unreachable(f"broker {self.address} closed the connection{said}{self._guess()}"))

    def _guess(self) -> str:
        """What a broker that hangs up on a new connection probably wants."""
        if self.is_proven or not self._expected:
            return ""
        api = self._expected[0].api
        if api is ApiKey.API_VERSIONS and self._is_encrypted:
            return ": does it ask for a certificate of ours (ssl_certfile, ssl_keyfile)?"
        if api is ApiKey.API_VERSIONS:
            return ": does this listener speak TLS (security_protocol SSL or SASL_SSL)?"
        if api in _OPENING:
            return ""
        return ": does this listener ask for SASL (security_protocol SASL_PLAINTEXT or SASL_SSL)?"

    def pause_writing(self) -> None:
        """Hold back: the socket's buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Read into the answer that has begun, or into the scratch buffer between answers."""
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what was read."""
        self._heard_at = self._loop.time()
        try:
            for frame in self._frames.filled(nbytes):
                self._received(frame)
        except ProtocolError as error:
            self.close(error)

    def _received(self, frame: memoryview) -> None:
        if self._failure is not None:
            return
        if not self._expected:
            raise ProtocolError(f"broker {self.address} sent an answer that nobody asked for")
        expected = self._expected[0]
        if (found := _INT32.unpack_from(frame)[0]) != expected.correlation_id:
            raise self._unreadable(expected, f"it is of request {found}, expected {expected.correlation_id}")
        answer = None
        if not expected.answer.done():
            try:
                _, answer = decode_response(expected.api, expected.version, frame)
            except ProtocolError as error:
                raise self._unreadable(expected, error) from error
        self._expected.popleft()
        expected.timer.cancel()
        if not self.is_proven and expected.api not in _OPENING:
            self.is_proven = True
        if answer is None:
            return
        assert isinstance(answer, expected.kind), (expected.kind, answer)
        throttle_ms: int = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttled_until = self._heard_at + throttle_ms / 1000
        expected.answer.set_result(answer)

    def _unreadable(self, expected: _Expected, why: object) -> ProtocolError:
        return ProtocolError(
            f"broker {self.address} sent an answer to {expected.api.name} that cannot be read: {why}"
        )


def _api_of(request: Message) -> ApiKey:
    assert request.KEY is not None, request
    return _APIS[request.KEY]


def _fail(answer: "asyncio.Future[Any]", error: EverlogError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # Whoever waits gets it; if nobody does, the loop need not complain.
