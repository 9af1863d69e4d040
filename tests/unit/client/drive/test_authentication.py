"""SASL over a loopback socket: who is let in, who is refused, and again before the session ends (KIP-368)."""

import asyncio

import pytest

from everlog.client.core.errors import AuthenticationFailed, TimedOut, Unsupported
from everlog.model.errors import ErrorCode, EverlogError
from everlog.wire.apis import ApiKey
from everlog.wire.messages.api_versions import ApiVersionsResponse
from everlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from everlog.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.unit.client.drive.unruly import Peer, ask, broker, connect, named, run, versions

SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "secret",
}


_WELCOME = (b"\0alice\0secret", b"n,,\x01auth=Bearer token\x01\x01")


class Doorkeeper:
    """A broker that lets alice in for a while, and serves metadata to whoever is in."""

    def __init__(self, session_ms: int = 0) -> None:
        self.session_ms = session_ms
        self.is_open = True
        self.admissions = 0
        self.asked: list[ApiKey] = []

    async def behave(self, peer: Peer) -> None:
        await peer.greet()
        while True:
            header, request = await peer.read()
            self.asked.append(header.api_key)
            if header.api_key == ApiKey.SASL_HANDSHAKE:
                await peer.answer(header, SaslHandshakeResponse(mechanisms=["PLAIN"]))
            elif isinstance(request, SaslAuthenticateRequest):
                await peer.answer(header, self._judge(request))
            else:
                await peer.answer(header, named(header))

    def _judge(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        if not self.is_open or bytes(request.auth_bytes) not in _WELCOME:
            return SaslAuthenticateResponse(error_code=58, error_message="no such luck")
        self.admissions += 1
        return SaslAuthenticateResponse(session_lifetime_ms=self.session_ms)


def opening_error(doorkeeper: Doorkeeper, **options: object) -> EverlogError:
    async def work() -> EverlogError:
        async with broker(doorkeeper.behave) as guarded:
            with pytest.raises(EverlogError) as caught:
                await connect(guarded.address, **{**SASL, **options})
            return caught.value

    return run(work())


def test_the_right_password_opens() -> None:
    async def work() -> None:
        doorkeeper = Doorkeeper()
        async with broker(doorkeeper.behave) as guarded:
            connection = await connect(guarded.address, **SASL)
            await ask(connection)
            assert doorkeeper.asked == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA]
            connection.close()

    run(work())


def test_a_wrong_password_is_refused_in_the_brokers_words() -> None:
    error = opening_error(Doorkeeper(), sasl_password="wrong")

    assert isinstance(error, AuthenticationFailed)
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "no such luck" in str(error)
    assert not error.retriable


def test_a_session_is_renewed_before_it_ends_and_requests_wait_for_that() -> None:
    async def work() -> None:
        doorkeeper = Doorkeeper(session_ms=100)
        async with broker(doorkeeper.behave) as guarded:
            connection = await connect(guarded.address, **SASL)
            while doorkeeper.admissions < 4:
                await asyncio.gather(*(ask(connection) for _ in range(3)))
            connection.close()
            # Between a handshake and its exchange nothing else is sent: brokers would hang up.
            after = [
                doorkeeper.asked[at + 1]
                for at, api in enumerate(doorkeeper.asked[:-1])
                if api == ApiKey.SASL_HANDSHAKE
            ]
            assert set(after) == {ApiKey.SASL_AUTHENTICATE}

    run(work())


def test_a_session_that_is_not_renewed_ends_the_connection_and_says_why() -> None:
    async def work() -> None:
        doorkeeper = Doorkeeper(session_ms=100)
        async with broker(doorkeeper.behave) as guarded:
            connection = await connect(guarded.address, **SASL)
            ended = asyncio.Event()
            connection.when_closed(lambda _: ended.set())
            doorkeeper.is_open = False
            await ended.wait()
            with pytest.raises(AuthenticationFailed, match="no such luck"):
                await ask(connection)

    run(work())


def test_no_token_is_asked_for_once_the_connection_is_closed() -> None:
    async def work() -> None:
        asked: list[str] = []

        async def provider() -> str:
            asked.append("token")
            return "token"

        doorkeeper = Doorkeeper(session_ms=50)
        options = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": provider,
        }
        async with broker(doorkeeper.behave) as guarded:
            connection = await connect(guarded.address, **options)
            connection.close()
            await asyncio.sleep(0.15)
            assert len(asked) == 1

    run(work())


def test_a_broker_that_only_knows_the_old_handshake_is_named() -> None:
    async def work() -> None:
        async def behave(peer: Peer) -> None:
            header = await peer.request()
            old = versions()
            for entry in old.api_keys:
                if entry.api_key == ApiKey.SASL_HANDSHAKE:
                    entry.max_version = 0
            await peer.answer(header, ApiVersionsResponse(api_keys=old.api_keys))
            await peer.hang()

        async with broker(behave) as ancient:
            with pytest.raises(Unsupported, match="SASL_HANDSHAKE"):
                await connect(ancient.address, **SASL)

    run(work())


def test_a_token_provider_that_hangs_is_given_up() -> None:
    async def work() -> None:
        async def provider() -> str:
            await asyncio.Event().wait()
            raise AssertionError("never")

        options = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": provider,
            "socket_connection_setup_timeout_ms": 100,
        }
        async with broker(Doorkeeper().behave) as guarded:
            with pytest.raises(TimedOut, match="finish the opening"):
                await connect(guarded.address, **options)

    run(work())
