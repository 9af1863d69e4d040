"""How a connection comes about: the host's addresses in turn, TLS, versions, SASL, all by one deadline."""

import asyncio
import ipaddress
import socket
import ssl

from everlog import __version__
from everlog.client.core.errors import TimedOut, TlsFailed, Unreachable
from everlog.client.core.settings import ConnectionSettings
from everlog.client.core.versions import FIRST_TRY_VERSION, BrokerVersions
from everlog.client.drive.authentication import Authentication
from everlog.client.drive.connection import Connection
from everlog.client.drive.tls import TlsContexts, tls_problem
from everlog.model.errors import ErrorCode
from everlog.wire.apis import ApiKey
from everlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class Opening:
    """Opens connections as the settings ask for; ConfigError at once if their files cannot be used."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self._contexts = TlsContexts(settings)

    async def open(self, host: str, port: int) -> Connection:
        """Connect, agree on versions and authenticate, within `socket_connection_setup_timeout_ms`.

        Unreachable and TimedOut if it may work later, AuthenticationFailed and ProtocolError if not.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        limit = self.settings.socket_connection_setup_timeout_ms / 1000
        connection: Connection | None = None
        try:
            async with asyncio.timeout(limit) as deadline:
                when = deadline.when()
                assert when is not None
                connection = await self._connect(host, port, address, when)
                await _agree_on_versions(connection, limit)
                if self.settings.uses_sasl:
                    await Authentication(connection, self.settings, limit).run()
                return connection
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, TimeoutError):
                stage = "take a connection" if connection is None else "finish the opening of a connection"
                raise TimedOut(f"broker {address} did not {stage} within {limit:g} s") from None
            raise

    async def _connect(self, host: str, port: int, address: str, deadline: float) -> Connection:
        loop = asyncio.get_running_loop()
        context = self._contexts.current()
        patience = self.settings.request_timeout_ms / 1000
        places = await _resolve(host, port, loop)
        failures: list[str] = []
        for index, place in enumerate(places):
            # A host with several addresses is reached if one of them is: none may use up all the time.
            share = (deadline - loop.time()) / (len(places) - index)
            try:
                async with asyncio.timeout(share):
                    transport, connection = await loop.create_connection(
                        lambda: Connection(address, self.settings.client_id, loop, patience),
                        place,
                        port,
                        ssl=context,
                        server_hostname=host if context is not None else None,
                    )
                self._size_buffers(transport)
                return connection
            except TimeoutError:
                failures.append(f"{place}: no answer within {share:.3g} s")
            except ssl.SSLEOFError as error:
                raise Unreachable(tls_problem(address, ConnectionResetError(str(error)))) from None
            except ssl.SSLError as error:
                raise TlsFailed(tls_problem(address, error)) from None
            except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError) as error:
                if context is not None:
                    raise Unreachable(tls_problem(address, error)) from None
                failures.append(f"{place}: {error}")
            except ConnectionRefusedError:
                failures.append(f"{place} refused the connection: is it running there?")
            except OSError as error:
                failures.append(f"{place}: {error.strerror or error}")
        raise Unreachable(_all_failed(address, host, failures))

    def _size_buffers(self, transport: asyncio.BaseTransport) -> None:
        made = transport.get_extra_info("socket")
        wanted = (
            (socket.SO_SNDBUF, self.settings.send_buffer_bytes),
            (socket.SO_RCVBUF, self.settings.receive_buffer_bytes),
        )
        for option, size in wanted:
            if made is not None and size >= 0:
                made.setsockopt(socket.SOL_SOCKET, option, size)


async def _agree_on_versions(connection: Connection, timeout: float) -> None:
    """Ask which versions the broker serves; before it nothing else can be sent."""
    request = ApiVersionsRequest(client_software_name="everlog", client_software_version=__version__)
    response = await connection.send_version(request, ApiVersionsResponse, FIRST_TRY_VERSION, timeout)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        offered = [entry.max_version for entry in response.api_keys if entry.api_key == ApiKey.API_VERSIONS]
        version = min([FIRST_TRY_VERSION - 1, *offered])
        response = await connection.send_version(request, ApiVersionsResponse, version, timeout)
    connection.versions_agreed(BrokerVersions.from_response(response, connection.address))


async def _resolve(host: str, port: int, loop: asyncio.AbstractEventLoop) -> list[str]:
    """All addresses of a host, in the resolver's order."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return [host]
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise Unreachable(f"broker {host}:{port}: host {host!r} cannot be found ({error.strerror})") from None
    except UnicodeError:
        raise Unreachable(f"broker {host}:{port}: {host!r} cannot be the name of a host") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _all_failed(address: str, host: str, failures: list[str]) -> str:
    said = "; ".join(failure.removeprefix(f"{host} ").removeprefix(f"{host}: ") for failure in failures)
    return f"broker {address} cannot be reached: {said}"
