"""Brokers on a loopback socket that answer as a test tells them, well or badly, on the test's own loop."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from everlog.client.core.settings import ConnectionSettings, read_settings
from everlog.client.drive.connection import Connection
from everlog.client.drive.opening import Opening
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.codec import RequestHeader, decode_request, encode_response, read_request_header
from everlog.wire.message import Message
from everlog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from everlog.wire.messages.metadata import MetadataRequest, MetadataResponse

LIMIT_S = 30.0
"""No test takes as long: whatever is still waiting then hangs."""

Result = TypeVar("Result")


class Peer:
    """The broker's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def request(self) -> RequestHeader:
        """The next request's header."""
        return read_request_header(await self.frame())

    async def read(self) -> tuple[RequestHeader, Message]:
        """The next request, header and body."""
        frame = await self.frame()
        header = read_request_header(frame)
        return header, decode_request(header, frame)

    async def frame(self) -> bytes:
        """The next request."""
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(size)

    async def answer(self, header: RequestHeader, message: Message) -> None:
        """Answer a request as it should be."""
        await self.raw(encode_response(message, header.api_version, header.correlation_id))

    async def raw(self, data: bytes) -> None:
        """Send any bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def greet(self) -> None:
        """Answer ApiVersions."""
        header = await self.request()
        assert header.api_key == ApiKey.API_VERSIONS, header
        await self.answer(header, versions())

    async def serve(self) -> None:
        """Answer metadata requests with their correlation ids until the client hangs up."""
        while True:
            header = await self.request()
            await self.answer(header, named(header))

    async def hang(self) -> None:
        """Say nothing until the client hangs up."""
        await self._reader.read(-1)


Behaviour = Callable[[Peer], Awaitable[None]]


class UnrulyBroker:
    """Listens on a free port; `connections` counts those that came."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections = 0

    @property
    def address(self) -> str:
        """Bootstrap servers that lead here."""
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def broker(
    behave: Behaviour, *, port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncGenerator[UnrulyBroker]:
    """A broker that behaves like this on each connection; a behaviour that returns hangs up."""

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await behave(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # The client hung up, which is its right, or the test is over.
        finally:
            serving.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)
    made = UnrulyBroker(server.sockets[0].getsockname()[1])
    try:
        yield made
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving)


async def connect(address: str, **options: object) -> Connection:
    """Open one connection as a client would."""
    host, _, port = address.rpartition(":")
    return await Opening(settings_of(**options)).open(host, int(port))


def settings_of(**options: object) -> ConnectionSettings:
    """Settings, checked as a client's are."""
    return read_settings(ConnectionSettings, options)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a test's coroutine; what the loop complains of, as of an exception nobody took, fails it."""
    complaints: list[dict[str, Any]] = []

    async def bounded() -> Result:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(LIMIT_S):
            return await work

    result = asyncio.run(bounded())
    assert not complaints, complaints
    return result


def ask(connection: Connection, timeout: float = LIMIT_S) -> "asyncio.Future[MetadataResponse]":
    """Send a request."""
    return connection.send(MetadataRequest(topics=[]), MetadataResponse, timeout)


def named(header: RequestHeader) -> MetadataResponse:
    """An answer that tells which request it is for."""
    return MetadataResponse(cluster_id=f"answer-{header.correlation_id}")


def versions() -> ApiVersionsResponse:
    """All that we know."""
    keys = [
        ApiVersion(api_key=key, min_version=api.min_version, max_version=api.max_version)
        for key, api in APIS.items()
    ]
    return ApiVersionsResponse(api_keys=keys)
