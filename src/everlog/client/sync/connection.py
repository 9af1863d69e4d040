"""One blocking connection to a broker: requests out, answers in, in the same order, each by a deadline."""

import socket
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from everlog import __version__
from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.core.versions import FIRST_TRY_VERSION, BrokerVersions, version_refused
from everlog.model.errors import ProtocolError
from everlog.wire.apis import ApiKey
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message
from everlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Answer = TypeVar("Answer", bound=Message)

MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""Above it the peer does not speak the protocol: an HTTP answer would claim more than a gigabyte."""

_SIZE_BYTES = 4


class _Expected(NamedTuple):
    correlation_id: int
    api: ApiKey
    version: int


class Connection:
    """A connection whose versions are agreed on; requests may be sent ahead of the answers to earlier ones.

    Any failure closes it: after a lost answer the stream cannot be matched to requests any more.
    """

    def __init__(self, host: str, port: int, *, client_id: str, timeout: float) -> None:
        """Connect and agree on versions within `timeout` seconds; Unreachable or TimedOut if that fails."""
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._expected: deque[_Expected] = deque()
        deadline = time.monotonic() + timeout
        self._socket: socket.socket | None = self._connect(host, port, timeout)
        self.versions = self._agree_on_versions(deadline)

    @property
    def in_flight(self) -> int:
        """Requests whose answers have not been received yet."""
        return len(self._expected)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._socket is not None

    def send(
        self, request: Message, timeout: float, *, at_most: int | None = None, silent: bool = False
    ) -> None:
        """Send a request in the newest version both sides speak, `at_most` if given.

        `silent` is for produce requests with acks=0, which are never answered.
        """
        assert request.KEY is not None, request
        api = ApiKey(request.KEY)
        self._send(request, api, self.versions.pick(api, at_most), time.monotonic() + timeout, silent=silent)

    def receive(self, answer_type: type[Answer], timeout: float) -> Answer:
        """Wait for the answer to the oldest request that has none yet."""
        return self._receive(answer_type, time.monotonic() + timeout)

    def call(
        self, request: Message, answer_type: type[Answer], timeout: float, *, at_most: int | None = None
    ) -> Answer:
        """Send a request and wait for its answer; no other may be under way."""
        assert not self._expected, "answers to earlier requests have not been received"
        deadline = time.monotonic() + timeout
        self.send(request, timeout, at_most=at_most)
        return self._receive(answer_type, deadline)

    def close(self) -> None:
        """Close the connection; what was not answered never will be. Closing twice is harmless."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._expected.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self, host: str, port: int, timeout: float) -> socket.socket:
        try:
            made = socket.create_connection((host, port), timeout)
        except TimeoutError:
            raise TimedOut(f"broker {self.address} did not take a connection within {timeout:g} s") from None
        except socket.gaierror as error:
            raise Unreachable(
                f"broker {self.address}: host {host!r} cannot be found ({error.strerror})"
            ) from None
        except ConnectionRefusedError:
            raise Unreachable(f"broker {self.address} refused the connection: is it running there?") from None
        except OSError as error:
            raise Unreachable(f"broker {self.address} cannot be reached: {error.strerror or error}") from None
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def _agree_on_versions(self, deadline: float) -> BrokerVersions:
        request = ApiVersionsRequest(client_software_name="everlog", client_software_version=__version__)
        self._send(request, ApiKey.API_VERSIONS, FIRST_TRY_VERSION, deadline)
        expected = self._expected.popleft()
        frame = self._read_frame(deadline)
        if not version_refused(frame):
            response = self._decode(expected, frame, ApiVersionsResponse)
            return BrokerVersions.from_response(response, self.address)
        refused = self._decode(expected._replace(version=0), frame, ApiVersionsResponse)
        offered = [entry.max_version for entry in refused.api_keys if entry.api_key == ApiKey.API_VERSIONS]
        self._send(request, ApiKey.API_VERSIONS, min([FIRST_TRY_VERSION - 1, *offered]), deadline)
        return BrokerVersions.from_response(self._receive(ApiVersionsResponse, deadline), self.address)

    def _send(
        self, request: Message, api: ApiKey, version: int, deadline: float, *, silent: bool = False
    ) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(request, version, self._correlation_id, self._client_id)
        self._write([frame], deadline)
        if not silent:
            self._expected.append(_Expected(self._correlation_id, api, version))

    def _receive(self, answer_type: type[Answer], deadline: float) -> Answer:
        if not self._expected:
            raise Unreachable(f"broker {self.address}: the connection broke with the request under way")
        expected = self._expected.popleft()
        return self._decode(expected, self._read_frame(deadline), answer_type)

    def _decode(self, expected: _Expected, frame: memoryview, answer_type: type[Answer]) -> Answer:
        try:
            correlation_id, answer = decode_response(expected.api, expected.version, frame)
        except ProtocolError as error:
            self.close()
            raise ProtocolError(
                f"broker {self.address} sent an answer that cannot be read: {error}"
            ) from None
        if correlation_id != expected.correlation_id:
            self.close()
            raise ProtocolError(
                f"broker {self.address} answered request {correlation_id}, expected {expected.correlation_id}"
            )
        assert isinstance(answer, answer_type), (answer_type, answer)
        return answer

    def _write(self, buffers: Sequence[bytes], deadline: float) -> None:
        open_socket = self._open_socket()
        try:
            for buffer in buffers:
                open_socket.settimeout(max(0.001, deadline - time.monotonic()))
                open_socket.sendall(buffer)
        except TimeoutError:
            self.close()
            raise TimedOut(f"broker {self.address} did not take a request in time") from None
        except OSError as error:
            self.close()
            raise self._broken(error) from None

    def _read_frame(self, deadline: float) -> memoryview:
        size = int.from_bytes(self._read(_SIZE_BYTES, deadline), "big", signed=True)
        if not _SIZE_BYTES <= size <= MAX_RESPONSE_BYTES:
            self.close()
            raise ProtocolError(
                f"broker {self.address} sent an answer of {size} bytes, expected 4 to {MAX_RESPONSE_BYTES}: "
                "is it a Kafka listener without TLS?"
            )
        return self._read(size, deadline)

    def _read(self, count: int, deadline: float) -> memoryview:
        open_socket = self._open_socket()
        # A buffer of its own for each answer: record batches are used in place and keep it alive.
        buffer = memoryview(bytearray(count))
        filled = 0
        try:
            while filled < count:
                open_socket.settimeout(max(0.001, deadline - time.monotonic()))
                received = open_socket.recv_into(buffer[filled:])
                if received == 0:
                    self.close()
                    raise Unreachable(f"broker {self.address} closed the connection before it answered")
                filled += received
        except TimeoutError:
            self.close()
            raise TimedOut(f"broker {self.address} did not answer in time") from None
        except OSError as error:
            self.close()
            raise self._broken(error) from None
        return buffer

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise Unreachable(f"broker {self.address}: the connection is closed")
        return self._socket

    def _broken(self, error: OSError) -> Unreachable:
        return Unreachable(f"broker {self.address}: the connection broke ({error.strerror or error})")
