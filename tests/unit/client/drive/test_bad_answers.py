"""Brokers that answer what they should not, over real sockets: the right error, in bounded time."""

import pytest

from everlog.client.core.answer_frames import MAX_ANSWER_BYTES
from everlog.client.core.errors import TimedOut, Unreachable
from everlog.model.errors import EverlogError, ProtocolError
from everlog.wire.codec import encode_response
from tests.unit.client.drive.unruly import Behaviour, Peer, ask, broker, connect, named, run


def opening_error(behave: Behaviour, **options: object) -> EverlogError:
    """What a client is told that connects to such a broker."""

    async def work() -> EverlogError:
        async with broker(behave) as unruly:
            with pytest.raises(EverlogError) as caught:
                await connect(unruly.address, **options)
            return caught.value

    return run(work())


def request_error(behave: Behaviour, *, timeout: float = 10.0) -> EverlogError:
    """What a client is told that asks such a broker, which greets well."""

    async def work() -> EverlogError:
        async def greet_then_behave(peer: Peer) -> None:
            await peer.greet()
            await behave(peer)

        async with broker(greet_then_behave) as unruly:
            connection = await connect(unruly.address)
            with pytest.raises(EverlogError) as caught:
                await ask(connection, timeout)
            connection.close()
            return caught.value

    return run(work())


async def silent(peer: Peer) -> None:
    await peer.hang()


async def hang_up(peer: Peer) -> None:
    await peer.request()


async def hang_up_at_once(_peer: Peer) -> None:
    pass


async def answer_in_http(peer: Peer) -> None:
    await peer.request()
    await peer.raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await peer.hang()


async def answer_in_tls(peer: Peer) -> None:
    await peer.request()
    await peer.raw(b"\x15\x03\x03\x00\x02\x02\x46")
    await peer.hang()


async def answer_too_much(peer: Peer) -> None:
    await peer.request()
    await peer.raw((MAX_ANSWER_BYTES + 1).to_bytes(4, "big"))
    await peer.hang()


async def answer_less_than_nothing(peer: Peer) -> None:
    await peer.request()
    await peer.raw(b"\xff\xff\xff\xff")
    await peer.hang()


async def answer_another(peer: Peer) -> None:
    header = await peer.request()
    await peer.answer(header._replace(correlation_id=header.correlation_id + 7), named(header))
    await peer.hang()


async def answer_half(peer: Peer) -> None:
    header = await peer.request()
    whole = encode_response(named(header), header.api_version, header.correlation_id)
    await peer.raw(whole[: len(whole) // 2])


async def answer_garbage(peer: Peer) -> None:
    header = await peer.request()
    await peer.raw((40).to_bytes(4, "big") + header.correlation_id.to_bytes(4, "big") + b"\xee" * 36)
    await peer.hang()


@pytest.mark.parametrize(
    ("behave", "kind", "said"),
    [
        (hang_up_at_once, Unreachable, "closed the connection"),
        (hang_up, Unreachable, "before it answered METADATA"),
        (answer_half, Unreachable, "before it answered METADATA"),
        (answer_in_http, ProtocolError, "answered in HTTP"),
        (answer_too_much, ProtocolError, "expected 4 to"),
        (answer_less_than_nothing, ProtocolError, "answer of -1 bytes"),
        (answer_another, ProtocolError, "expected 2"),
        (answer_garbage, ProtocolError, "cannot be read"),
    ],
)
def test_a_bad_answer_ends_in_the_right_error(behave: Behaviour, kind: type[EverlogError], said: str) -> None:
    error = request_error(behave)

    assert isinstance(error, kind), error
    assert said in str(error)
    assert "127.0.0.1:" in str(error)


@pytest.mark.parametrize(
    ("behave", "kind", "said"),
    [
        (hang_up_at_once, Unreachable, "closed the connection"),
        (hang_up, Unreachable, "does this listener speak TLS"),
        (answer_half, Unreachable, "before it answered API_VERSIONS"),
        (answer_in_http, ProtocolError, "not a Kafka listener"),
        (answer_in_tls, ProtocolError, "security_protocol"),
        (answer_too_much, ProtocolError, "expected 4 to"),
        (answer_another, ProtocolError, "expected 1"),
        (answer_garbage, ProtocolError, "cannot be read"),
    ],
)
def test_a_bad_greeting_ends_in_the_right_error(
    behave: Behaviour, kind: type[EverlogError], said: str
) -> None:
    error = opening_error(behave)

    assert isinstance(error, kind), error
    assert said in str(error)


def test_a_broker_that_never_greets_is_given_up_in_time() -> None:
    error = opening_error(silent, socket_connection_setup_timeout_ms=100)

    assert isinstance(error, TimedOut)
    assert "within 0.1 s" in str(error)
    assert error.retriable
