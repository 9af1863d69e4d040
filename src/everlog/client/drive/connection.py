"""One connection to a broker on an event loop: requests out, answers in, in order, each by a deadline."""

import asyncio
import socket
from collections import deque
from dataclasses import dataclass
from typing import TypeVar, cast

from everlog import __version__
from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.core.versions import FIRST_TRY_VERSION, BrokerVersions, version_refused
from everlog.model.errors import EverlogError, ProtocolError
from everlog.wire.apis import ApiKey
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message
from everlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Answer = TypeVar("Answer", bound=Message)

MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""Above it the peer does not speak the protocol: an HTTP answer would claim more than a gigabyte."""

SCRATCH_BYTES = 64 * 1024
_SIZE_BYTES = 4


@dataclass(slots=True)
class _Expected:
    correlation_id: int
    api: ApiKey
    version: int
    answer: "asyncio.Future[memoryview]"


class Connection(asyncio.BufferedProtocol):
    """A connection whose versions are agreed on; requests may be sent ahead of the answers to earlier ones.

    Any failure closes it: after a lost answer the stream cannot be matched to requests any more. Make one
    with `open_connection`.
    """

    def __init__(self, address: str, client_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self.address = address
        self.versions = BrokerVersions({}, address)
        self._client_id = client_id
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0
        self._expected: deque[_Expected] = deque()
        self._failure: EverlogError | None = None
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._held: int = 0
        self._frame: memoryview | None = None
        self._filled: int = 0
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def in_flight(self) -> int:
        """Requests whose answers have not come yet."""
        return len(self._expected)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self._failure is None

    def send(
        self, request: Message, answer_type: type[Answer], timeout: float, *, at_most: int | None = None
    ) -> "asyncio.Task[Answer]":
        """Send a request at once; the task that is returned waits for its answer.

        It ends with TimedOut after `timeout` seconds, with Unreachable if the connection breaks.
        """
        return self._loop.create_task(self.call(request, answer_type, timeout, at_most=at_most))

    async def call(
        self, request: Message, answer_type: type[Answer], timeout: float, *, at_most: int | None = None
    ) -> Answer:
        """Send a request in the newest version both sides speak, `at_most` if given; wait for its answer."""
        assert request.KEY is not None, request
        api = ApiKey(request.KEY)
        return await self._call(request, answer_type, self.versions.pick(api, at_most), timeout)

    def send_silent(self, request: Message, *, at_most: int | None = None) -> None:
        """Send what is never answered: a produce request with acks=0."""
        assert request.KEY is not None, request
        self._write(request, self.versions.pick(ApiKey(request.KEY), at_most))

    async def drained(self) -> None:
        """Wait until the socket takes more; at once if it does."""
        await self._writable.wait()

    def close(self, reason: EverlogError | None = None) -> None:
        """Close the connection; what was not answered fails with `reason`. Closing twice is harmless."""
        if self._failure is None:
            self._failure = reason or Unreachable(f"broker {self.address}: the connection is closed")
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        while self._expected:
            expected = self._expected.popleft()
            if not expected.answer.done():
                expected.answer.set_exception(self._failure)
        self._writable.set()

    async def agree_on_versions(self, timeout: float) -> None:
        """Ask which versions the broker serves; before it nothing else can be sent."""
        request = ApiVersionsRequest(client_software_name="everlog", client_software_version=__version__)
        expected = self._write_expecting(request, FIRST_TRY_VERSION)
        frame = await self._answer(expected, timeout)
        if not version_refused(frame):
            response = self._decode(expected, frame, ApiVersionsResponse)
        else:
            expected.version = 0
            refused = self._decode(expected, frame, ApiVersionsResponse)
            offered = [
                entry.max_version for entry in refused.api_keys if entry.api_key == ApiKey.API_VERSIONS
            ]
            version = min([FIRST_TRY_VERSION - 1, *offered])
            response = await self._call(request, ApiVersionsResponse, version, timeout)
        self.versions = BrokerVersions.from_response(response, self.address)

    async def _call(
        self, request: Message, answer_type: type[Answer], version: int, timeout: float
    ) -> Answer:
        expected = self._write_expecting(request, version)
        return self._decode(expected, await self._answer(expected, timeout), answer_type)

    def _write(self, request: Message, version: int) -> int:
        if self._transport is None or self._failure is not None:
            raise self._failure or Unreachable(f"broker {self.address}: the connection is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._transport.write(encode_request(request, version, self._correlation_id, self._client_id))
        return self._correlation_id

    def _write_expecting(self, request: Message, version: int) -> _Expected:
        assert request.KEY is not None, request
        correlation_id = self._write(request, version)
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        expected = _Expected(correlation_id, ApiKey(request.KEY), version, answer)
        self._expected.append(expected)
        return expected

    async def _answer(self, expected: _Expected, timeout: float) -> memoryview:
        try:
            async with asyncio.timeout(timeout):
                return await expected.answer
        except TimeoutError:
            late = TimedOut(f"broker {self.address} did not answer {expected.api.name} within {timeout:g} s")
            self.close(late)
            raise late from None

    def _decode(self, expected: _Expected, frame: memoryview, answer_type: type[Answer]) -> Answer:
        try:
            correlation_id, answer = decode_response(expected.api, expected.version, frame)
            if correlation_id != expected.correlation_id:
                raise ProtocolError(f"it is of request {correlation_id}, expected {expected.correlation_id}")
        except ProtocolError as error:
            wrong = ProtocolError(f"broker {self.address} sent an answer that cannot be read: {error}")
            self.close(wrong)
            raise wrong from None
        assert isinstance(answer, answer_type), (answer_type, answer)
        return answer

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        made = transport.get_extra_info("socket")
        if made is not None:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; whatever was under way has failed."""
        said = f" ({exc})" if exc is not None else " before it answered" if self._expected else ""
        self.close(Unreachable(f"broker {self.address} closed the connection{said}"))

    def pause_writing(self) -> None:
        """Hold back: the socket's buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Read into the answer that has begun, or into the scratch buffer between answers."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._scratch[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what was read."""
        if self._frame is not None:
            self._filled += nbytes
            if self._filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._received(frame)
            return
        self._held += nbytes
        self._split()

    def _split(self) -> None:
        """Hand out the whole answers in the scratch buffer and keep the begun one."""
        at = 0
        while self._held - at >= _SIZE_BYTES and self._failure is None:
            size = int.from_bytes(self._scratch[at : at + _SIZE_BYTES], "big", signed=True)
            if not _SIZE_BYTES <= size <= MAX_RESPONSE_BYTES:
                self.close(
                    ProtocolError(
                        f"broker {self.address} sent an answer of {size} bytes, expected 4 to "
                        f"{MAX_RESPONSE_BYTES}: is it a Kafka listener without TLS?"
                    )
                )
                return
            at += _SIZE_BYTES
            here = min(size, self._held - at)
            # A buffer of its own for each answer: record batches are used in place and keep it alive.
            frame = memoryview(bytearray(size))
            frame[:here] = self._scratch[at : at + here]
            at += here
            if here < size:
                self._frame, self._filled = frame, here
                break
            self._received(frame)
        rest = self._held - at
        self._scratch[:rest] = self._scratch[at : self._held]
        self._held = rest

    def _received(self, frame: memoryview) -> None:
        if not self._expected:
            self.close(ProtocolError(f"broker {self.address} sent an answer that nobody asked for"))
            return
        answer = self._expected.popleft().answer
        if not answer.done():
            answer.set_result(frame)


async def open_connection(host: str, port: int, *, client_id: str, timeout: float) -> Connection:
    """Connect and agree on versions within `timeout` seconds; Unreachable or TimedOut if that fails."""
    loop = asyncio.get_running_loop()
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    began = loop.time()
    try:
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(
                lambda: Connection(address, client_id, loop), host, port
            )
    except TimeoutError:
        raise TimedOut(f"broker {address} did not take a connection within {timeout:g} s") from None
    except socket.gaierror as error:
        raise Unreachable(f"broker {address}: host {host!r} cannot be found ({error.strerror})") from None
    except ConnectionRefusedError:
        raise Unreachable(f"broker {address} refused the connection: is it running there?") from None
    except OSError as error:
        raise Unreachable(f"broker {address} cannot be reached: {error.strerror or error}") from None
    try:
        await connection.agree_on_versions(max(0.001, timeout - (loop.time() - began)))
    except BaseException:
        connection.close()
        raise
    return connection
