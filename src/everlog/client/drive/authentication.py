"""SASL on a connection: who we are, said when it opens and again before the session ends (KIP-368)."""

import asyncio
import inspect
import random
import secrets

from everlog.client.core.errors import AuthenticationFailed, Unsupported, error_code
from everlog.client.core.security.sasl import authentication_problem, carry_on, exchange_of
from everlog.client.core.security.security import SecuritySettings
from everlog.client.drive.connection import Answer, Connection
from everlog.model.errors import ErrorCode, EverlogError
from everlog.wire.apis import ApiKey
from everlog.wire.message import Message
from everlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from everlog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

FIRST_FRAMED_HANDSHAKE = 1
"""Before it, tokens went without request headers."""


class Authentication:
    """Keeps one connection authenticated for as long as it is open."""

    def __init__(self, connection: Connection, settings: SecuritySettings, timeout: float) -> None:
        self._connection = connection
        self._settings = settings
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None
        connection.when_closed(lambda _: self._stop())

    async def run(self) -> None:
        """Authenticate within the time-out, and see to it that it is done again in time."""
        async with asyncio.timeout(self._timeout):
            lifetime_ms = await self._exchange()
        if lifetime_ms > 0 and self._connection.is_open:
            # Early enough for a slow exchange, and not all connections at the same moment.
            wait = lifetime_ms / 1000 * random.uniform(0.75, 0.85)
            self._timer = self._loop.call_later(wait, self._renew)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None and self._renewal is not asyncio.current_task():
            self._renewal.cancel()

    def _renew(self) -> None:
        self._renewal = self._loop.create_task(self._run_again())

    async def _run_again(self) -> None:
        try:
            await self.run()
        except EverlogError as error:
            self._connection.close(error)
        except TimeoutError:
            self._connection.close(
                AuthenticationFailed(
                    f"broker {self._connection.address} did not let us authenticate again "
                    f"within {self._timeout:g} s"
                )
            )

    async def _exchange(self) -> int:
        """Say who we are; return for how many milliseconds that is good, 0 if for ever."""
        mechanism = self._settings.sasl_mechanism
        assert mechanism is not None
        exchange = exchange_of(self._settings, secrets.token_hex(24), await self._token())
        message: bytes | None = next(exchange)
        # From the handshake on the broker takes nothing but this exchange; other requests wait for its end.
        # If it fails they are not sent: the connection is closed.
        self._connection.hold_back()
        handshake = await self._ask(
            SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, FIRST_FRAMED_HANDSHAKE
        )
        if handshake.error_code != ErrorCode.NONE:
            offered = ", ".join(handshake.mechanisms)
            raise self._refused(handshake.error_code, f"it offers {offered}" if offered else None)
        lifetime_ms = 0
        while message is not None:
            answer = await self._ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
            if answer.error_code != ErrorCode.NONE:
                raise self._refused(answer.error_code, answer.error_message)
            lifetime_ms = answer.session_lifetime_ms
            try:
                message = carry_on(exchange, answer.auth_bytes)
            except AuthenticationFailed as error:
                raise AuthenticationFailed(f"broker {self._connection.address}: {error}") from None
        self._connection.go_on()
        return lifetime_ms

    async def _token(self) -> str | None:
        provider = self._settings.sasl_oauth_token_provider
        if provider is None:
            return None
        try:
            if inspect.iscoroutinefunction(provider):
                token: object = await provider()
            else:
                # It may ask a server on the network and take its time.
                token = await asyncio.to_thread(provider)
                if inspect.isawaitable(token):
                    token = await token
        except Exception as error:
            # The user's code may raise anything. What it asks may be down for a moment only.
            failed = AuthenticationFailed(f"OAUTHBEARER: sasl_oauth_token_provider raised {error!r}")
            failed.retriable = True
            raise failed from error
        if not isinstance(token, str):
            raise AuthenticationFailed(
                f"OAUTHBEARER: sasl_oauth_token_provider returned {type(token).__name__}, expected str"
            )
        return token

    async def _ask(self, request: Message, answer_type: type[Answer], least: int = 0) -> Answer:
        assert request.KEY is not None
        version = self._connection.versions.pick(ApiKey(request.KEY))
        if version < least:
            raise Unsupported(
                f"broker {self._connection.address} serves {ApiKey(request.KEY).name} up to version "
                f"{version}, expected {least}"
            )
        return await self._connection.send_version(request, answer_type, version, self._timeout, ahead=True)

    def _refused(self, number: int, message: str | None) -> AuthenticationFailed:
        code = error_code(number)
        mechanism = self._settings.sasl_mechanism
        assert mechanism is not None
        problem = authentication_problem(code, message, mechanism, self._connection.address)
        return AuthenticationFailed(problem, code)
