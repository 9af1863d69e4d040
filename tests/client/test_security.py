"""TLS and SASL against Apache Kafka: what gets in, and what is said to whoever does not."""

import asyncio
import importlib.util
import ssl
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, TypeVar

import pytest

from everlog.client.core.errors import AuthenticationFailed, TlsFailed, Unreachable
from everlog.client.core.security.sasl import unsecured_token
from everlog.client.core.settings import ConnectionSettings, read_settings
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import ErrorCode, EverlogError
from everlog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.client.secured_kafka import ODD_USER, PASSWORD, SESSION_MS, USER, SecuredKafka

pytestmark = pytest.mark.xdist_group("secured")  # One broker of Apache Kafka with TLS does for all.

LIMIT_S = 60.0

Options = Mapping[str, Any]
Result = TypeVar("Result")

LOOPS = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]
_loop = LOOPS[0]


@pytest.fixture(params=LOOPS, autouse=True)
def loop_kind(request: pytest.FixtureRequest) -> Generator[str]:
    """Everything on each event loop: they have TLS code of their own, which fails in its own ways."""
    global _loop
    _loop = request.param
    yield _loop
    _loop = LOOPS[0]


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the loop that is the test's turn."""
    if _loop == "asyncio":
        return asyncio.run(work)
    import uvloop

    result: Result = uvloop.run(work)
    return result


@pytest.fixture(name="kafka")
def _kafka(secured_kafka: SecuredKafka) -> SecuredKafka:
    return secured_kafka


def settings_of(options: Options) -> ConnectionSettings:
    return read_settings(ConnectionSettings, {"retry_backoff_ms": 20, **options})


def reach(options: Options) -> str:
    """Find the cluster, then ask the broker at the address that it advertises; return the cluster's id."""

    async def find() -> str:
        link = ClusterLink(settings_of(options))
        try:
            async with asyncio.timeout(LIMIT_S):
                view = await link.refresh([])
                node = next(iter(view.brokers))
                answer = await link.call_node(node, DescribeClusterRequest(), DescribeClusterResponse)
                return answer.cluster_id
        finally:
            await link.close()

    return run(find())


def failure(options: Options) -> EverlogError:
    with pytest.raises(EverlogError) as caught:
        reach(options)
    return caught.value


MECHANISMS = pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])


def test_tls_with_the_brokers_authority(kafka: SecuredKafka) -> None:
    assert reach(kafka.tls("TLS"))


def test_tls_with_a_context_of_ones_own(kafka: SecuredKafka) -> None:
    context = ssl.create_default_context(cafile=str(kafka.authority.file))

    assert reach(
        {"bootstrap_servers": kafka.address("TLS"), "security_protocol": "SSL", "ssl_context": context}
    )


def test_a_certificate_of_our_own_lets_us_in_where_one_is_required(kafka: SecuredKafka) -> None:
    ours = {"ssl_certfile": kafka.client.certificate, "ssl_keyfile": kafka.client.key}

    assert reach(kafka.tls("MUTUAL", **ours))


def test_a_key_may_be_encrypted_and_in_one_file_with_its_certificate(kafka: SecuredKafka) -> None:
    ours = {"ssl_certfile": kafka.locked_client.both, "ssl_key_password": PASSWORD}

    assert reach(kafka.tls("MUTUAL", **ours))


def test_no_certificate_where_one_is_required_is_said(kafka: SecuredKafka) -> None:
    error = failure(kafka.tls("MUTUAL"))

    # The broker may hang up before its words about it are read.
    assert isinstance(error, TlsFailed | Unreachable)
    assert "ssl_certfile" in str(error)


def test_a_certificate_of_another_authority_is_refused_by_the_broker(kafka: SecuredKafka) -> None:
    ours = {"ssl_certfile": kafka.stranger.certificate, "ssl_keyfile": kafka.stranger.key}

    error = failure(kafka.tls("MUTUAL", **ours))

    assert "no TLS connection" in str(error)


def test_a_broker_of_an_authority_we_do_not_trust(kafka: SecuredKafka) -> None:
    error = failure({**kafka.tls("TLS"), "ssl_cafile": kafka.other_authority.file})

    assert isinstance(error, TlsFailed)
    assert "authority we do not trust" in str(error)
    assert not error.retriable


def test_a_broker_whose_certificate_is_for_another_host(kafka: SecuredKafka) -> None:
    elsewhere = kafka.address("TLS").replace("localhost", "127.0.0.1")

    error = failure(kafka.tls("TLS", bootstrap_servers=elsewhere))

    assert isinstance(error, TlsFailed)
    assert "for another host" in str(error)
    assert "127.0.0.1" in str(error)


@pytest.mark.parametrize(
    "off", [{"ssl_check_hostname": False}, {"ssl_endpoint_identification_algorithm": ""}], ids=str
)
def test_the_host_is_not_looked_at_if_so_asked(kafka: SecuredKafka, off: Options) -> None:
    elsewhere = kafka.address("TLS").replace("localhost", "127.0.0.1")

    assert reach(kafka.tls("TLS", bootstrap_servers=elsewhere, **off))


def test_a_broker_whose_certificate_has_expired(kafka: SecuredKafka) -> None:
    error = failure(kafka.tls("EXPIRED"))

    assert isinstance(error, TlsFailed)
    assert "expired" in str(error)


def test_tls_to_a_plaintext_listener(kafka: SecuredKafka) -> None:
    error = failure(kafka.tls("PLAINTEXT"))

    assert "is it a plaintext listener" in str(error)


def test_plaintext_to_a_tls_listener(kafka: SecuredKafka) -> None:
    error = failure({"bootstrap_servers": kafka.address("TLS")})

    assert "TLS" in str(error)
    assert "security_protocol" in str(error)


def test_plaintext_to_a_sasl_listener(kafka: SecuredKafka) -> None:
    error = failure({"bootstrap_servers": kafka.address("SASL")})

    assert isinstance(error, Unreachable)
    assert "does this listener ask for SASL" in str(error)


def test_sasl_to_a_plaintext_listener(kafka: SecuredKafka) -> None:
    error = failure(kafka.sasl("PLAIN", "PLAINTEXT"))

    assert isinstance(error, AuthenticationFailed)
    assert "listener without SASL" in str(error)


@MECHANISMS
def test_sasl_without_tls(kafka: SecuredKafka, mechanism: str) -> None:
    assert reach(kafka.sasl(mechanism))


@MECHANISMS
def test_sasl_over_tls(kafka: SecuredKafka, mechanism: str) -> None:
    assert reach(kafka.sasl(mechanism, "SASLTLS") | kafka.tls("SASLTLS"))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_with_a_name_that_must_be_escaped(kafka: SecuredKafka, mechanism: str) -> None:
    assert reach(kafka.sasl(mechanism, sasl_username=ODD_USER))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("wrong", [{"sasl_password": "not it"}, {"sasl_username": "nobody"}], ids=str)
def test_wrong_names_and_passwords_are_refused_in_the_brokers_words(
    kafka: SecuredKafka, mechanism: str, wrong: Options
) -> None:
    error = failure(kafka.sasl(mechanism, **wrong))

    assert isinstance(error, AuthenticationFailed)
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Authentication failed" in str(error)
    assert "not it" not in str(error)
    assert not error.retriable


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        (lambda: unsecured_token(USER, time.time() - 7200), "OAUTHBEARER"),
        (lambda: "not.a.token", "OAUTHBEARER"),
        (lambda: "two words", "not a bearer token"),
        (lambda: b"bytes", "returned bytes, expected str"),
    ],
    ids=["expired", "garbage", "unsendable", "wrong type"],
)
def test_tokens_that_are_not_accepted(kafka: SecuredKafka, provider: Callable[[], Any], said: str) -> None:
    error = failure(kafka.sasl("OAUTHBEARER", sasl_oauth_token_provider=provider))

    assert isinstance(error, AuthenticationFailed)
    assert said in str(error)


def test_a_token_provider_that_fails_is_named_and_may_work_later(kafka: SecuredKafka) -> None:
    def provider() -> str:
        raise OSError("the token server is down")

    error = failure(kafka.sasl("OAUTHBEARER", sasl_oauth_token_provider=provider))

    assert "the token server is down" in str(error)
    assert error.retriable


def test_a_token_provider_may_be_a_coroutine_function(kafka: SecuredKafka) -> None:
    async def provider() -> str:
        await asyncio.sleep(0)
        return unsecured_token(USER, time.time())

    assert reach(kafka.sasl("OAUTHBEARER", sasl_oauth_token_provider=provider))


def test_a_mechanism_that_the_broker_does_not_offer_is_named_with_those_it_does(kafka: SecuredKafka) -> None:
    error = failure(kafka.sasl("SCRAM-SHA-256", "PLAINONLY"))

    assert isinstance(error, AuthenticationFailed)
    assert error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "it offers PLAIN" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_connection_authenticates_again_before_its_session_ends(
    kafka: SecuredKafka, mechanism: str
) -> None:
    """The broker closes a connection that goes on after its session without having done so (KIP-368)."""

    async def use() -> int:
        link = ClusterLink(settings_of(kafka.sasl(mechanism, "SHORT")))
        loop = asyncio.get_running_loop()
        connection = await link.any_broker()
        end = loop.time() + SESSION_MS / 1000 * 1.5
        answered = 0
        while loop.time() < end:
            burst = [
                connection.send(DescribeClusterRequest(), DescribeClusterResponse, 30.0) for _ in range(5)
            ]
            answered += len(await asyncio.gather(*burst))
            await asyncio.sleep(0.01)
        assert connection.is_open
        await link.close()
        return answered

    assert run(use()) > 5
