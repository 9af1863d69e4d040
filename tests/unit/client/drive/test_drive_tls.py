"""TLS over a loopback socket: who is trusted, what is said where not, and certificates that are renewed."""

import asyncio
import importlib.util
import shutil
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from everlog.client.core.errors import TlsFailed, Unreachable
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import EverlogError
from tests.client.certificates import Authority, Issued
from tests.unit.client.drive.unruly import Peer, ask, broker, connect, run, settings_of


async def serve(peer: Peer) -> None:
    await peer.greet()
    await peer.serve()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def presenting(issued: Issued, *, trusting: Authority | None = None) -> ssl.SSLContext:
    """The broker's side: its certificate, and whether it wants one of the client's."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.certificate, issued.key)
    if trusting is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusting.file)
    return context


def reach(context: ssl.SSLContext | None, **options: object) -> str | None:
    """Connect with TLS by the name `localhost` and ask once."""

    async def work() -> str | None:
        async with broker(serve, context=context) as secure:
            connection = await connect(f"localhost:{secure.port}", security_protocol="SSL", **options)
            try:
                return (await ask(connection)).cluster_id
            finally:
                await connection.finish(5.0)

    return quietly(work())


def quietly(work: Coroutine[Any, Any, str | None]) -> str | None:
    """Like `run`, but a server of asyncio complains of handshakes that fail, which is not our business."""

    async def bounded() -> str | None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        async with asyncio.timeout(30):
            return await work

    return asyncio.run(bounded())


def failure(context: ssl.SSLContext | None, **options: object) -> EverlogError:
    with pytest.raises(EverlogError) as caught:
        reach(context, **options)
    return caught.value


def test_a_broker_of_the_authority_is_trusted(authority: Authority) -> None:
    context = presenting(authority.issue("broker", hosts=("localhost",)))

    assert reach(context, ssl_cafile=authority.file) == "answer-2"


def test_a_broker_that_wants_a_certificate_gets_ours(authority: Authority) -> None:
    context = presenting(authority.issue("broker", hosts=("localhost",)), trusting=authority)
    ours = authority.issue("me")

    found = reach(context, ssl_cafile=authority.file, ssl_certfile=ours.certificate, ssl_keyfile=ours.key)

    assert found == "answer-2"


def test_a_broker_that_wants_a_certificate_is_said_to(authority: Authority) -> None:
    context = presenting(authority.issue("broker", hosts=("localhost",)), trusting=authority)

    error = failure(context, ssl_cafile=authority.file)

    assert isinstance(error, TlsFailed | Unreachable)
    assert "ssl_certfile" in str(error)


def test_other_authorities_hosts_and_times_are_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    trusting = {"ssl_cafile": authority.file}

    unknown = failure(presenting(other.issue("unknown", hosts=("localhost",))), **trusting)
    elsewhere = failure(presenting(authority.issue("elsewhere", hosts=("example.com",))), **trusting)
    late = failure(presenting(authority.issue("late", hosts=("localhost",), is_expired=True)), **trusting)

    assert [type(error) for error in (unknown, elsewhere, late)] == [TlsFailed] * 3
    assert "authority we do not trust" in str(unknown)
    assert "for another host" in str(elsewhere)
    assert "not valid any more" in str(late)


def test_a_plaintext_broker_is_told_apart(authority: Authority) -> None:
    async def work() -> str | None:
        async def behave(peer: Peer) -> None:
            await peer.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await peer.hang()

        async with broker(behave) as plain:
            with pytest.raises(TlsFailed, match="the answer is not TLS"):
                await connect(plain.address, security_protocol="SSL", ssl_cafile=authority.file)
        return None

    run(work())


def test_a_broker_that_hangs_up_in_the_handshake_may_be_another_time_there(authority: Authority) -> None:
    async def work() -> str | None:
        async def behave(_peer: Peer) -> None:
            pass

        async with broker(behave) as gone:
            with pytest.raises(Unreachable, match="is it a plaintext listener"):
                await connect(gone.address, security_protocol="SSL", ssl_cafile=authority.file)
        return None

    run(work())


def test_a_broker_that_is_silent_in_the_handshake_is_given_up(authority: Authority) -> None:
    async def work() -> str | None:
        async def behave(peer: Peer) -> None:
            await asyncio.Event().wait()

        async with broker(behave) as mute:
            with pytest.raises(EverlogError, match=r"within|no answer") as caught:
                await connect(
                    mute.address,
                    security_protocol="SSL",
                    ssl_cafile=authority.file,
                    socket_connection_setup_timeout_ms=100,
                )
            assert caught.value.retriable
        return None

    run(work())


def test_certificates_that_are_renewed_are_used_for_new_connections(
    authority: Authority, tmp_path: Path
) -> None:
    """The client begins with another authority's file, which is replaced; half a file is passed over."""
    other = Authority(tmp_path, "other")
    place = tmp_path / "trusted.pem"
    shutil.copy(other.file, place)
    context = presenting(authority.issue("broker", hosts=("localhost",)))

    async def work() -> str | None:
        async with broker(serve, context=context) as secure:
            settings = settings_of(
                bootstrap_servers=f"localhost:{secure.port}",
                security_protocol="SSL",
                ssl_cafile=place,
                reconnect_backoff_ms=1,
            )
            link = ClusterLink(settings)
            with pytest.raises(TlsFailed):
                await link.any_broker()
            place.write_text("-----BEGIN CERT")
            with pytest.raises(TlsFailed):
                await link.any_broker()
            shutil.copy(authority.file, place)
            answer = await ask(await link.any_broker())
            await link.close()
            return answer.cluster_id

    assert quietly(work()) == "answer-2"


@pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed")
def test_uvloop_does_the_same(authority: Authority) -> None:
    import uvloop

    context = presenting(authority.issue("broker", hosts=("localhost",)))

    async def work() -> str | None:
        async with broker(serve, context=context) as secure:
            connection = await connect(
                f"localhost:{secure.port}", security_protocol="SSL", ssl_cafile=authority.file
            )
            answer = await ask(connection)
            await connection.finish(5.0)
            return answer.cluster_id

    assert uvloop.run(work()) == "answer-2"
