"""The public clients over TLS and SASL: records get there and back, a wrong password is said (P1, C1)."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.client import (
    Admin,
    AuthenticationFailed,
    Consumer,
    ConsumerRecord,
    EverlogError,
    NewTopic,
    Producer,
)
from everlog.client.aio.consumer import Consumer as AioConsumer
from everlog.client.aio.producer import Producer as AioProducer
from everlog.client.core.security.sasl import unsecured_token
from everlog.client.sync.dead_letters import DeadLetters
from tests.client.secured_kafka import SESSION_MS, USER, SecuredKafka
from tests.e2e.program import everlog

pytestmark = pytest.mark.xdist_group("secured")  # One broker of Apache Kafka with TLS does for all.

LIMIT_S = 60.0
VALUES = [b"%d" % index for index in range(500)] + [bytes(900_000)]


@pytest.fixture
def options(secured_kafka: SecuredKafka) -> dict[str, Any]:
    return secured_kafka.sasl("SCRAM-SHA-512", "SASLTLS") | secured_kafka.tls("SASLTLS")


@pytest.fixture
def topic(options: dict[str, Any], fresh_topic: Callable[[], str]) -> str:
    name = fresh_topic()
    with Admin(**options) as admin:
        admin.create_topics([NewTopic(name, 2)])
    return name


Way = Callable[[SecuredKafka], dict[str, Any]]

WAYS: dict[str, Way] = {
    "SCRAM over TLS": lambda kafka: kafka.sasl("SCRAM-SHA-512", "SASLTLS") | kafka.tls("SASLTLS"),
    "PLAIN": lambda kafka: kafka.sasl("PLAIN"),
    "a token of a function": lambda kafka: kafka.sasl(
        "OAUTHBEARER", sasl_oauth_extensions={"tenant": "kitchen"}
    ),
    "a certificate of one's own": lambda kafka: kafka.tls(
        "MUTUAL",
        ssl_certfile=kafka.client.certificate,
        ssl_keyfile=kafka.client.key,
        ssl_ciphers="ECDHE+AESGCM",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_records_go_there_and_back(secured_kafka: SecuredKafka, topic: str, way: str) -> None:
    options = WAYS[way](secured_kafka)
    with Producer(**options) as producer:
        deliveries = [producer.send(topic, value, key=value[:3]) for value in VALUES]
    assert {delivery.result(LIMIT_S).topic for delivery in deliveries} == {topic}

    got: list[ConsumerRecord] = []
    deadline = time.monotonic() + LIMIT_S
    with Consumer(**options, group_id=topic, topics=[topic], auto_offset_reset="earliest") as consumer:
        while len(got) < len(VALUES) and time.monotonic() < deadline:
            got += consumer.poll(1.0)
        consumer.commit()

    assert sorted(record.value or b"" for record in got) == sorted(VALUES)


@pytest.mark.parametrize("way", ["SCRAM over TLS", "a token of a function"])
def test_the_asyncio_clients_do_the_same(secured_kafka: SecuredKafka, topic: str, way: str) -> None:
    options = WAYS[way](secured_kafka)

    async def work() -> list[bytes]:
        async with asyncio.timeout(LIMIT_S):
            async with AioProducer(**options) as producer:
                for value in VALUES:
                    await producer.send(topic, value)
            got: list[bytes] = []
            async with AioConsumer(
                **options, group_id=topic, topics=[topic], auto_offset_reset="earliest"
            ) as consumer:
                while len(got) < len(VALUES):
                    got += [record.value or b"" for record in await consumer.poll(1.0)]
            return got

    assert sorted(asyncio.run(work())) == sorted(VALUES)


@pytest.mark.slow
def test_clients_that_live_longer_than_their_sessions_notice_nothing(
    secured_kafka: SecuredKafka, topic: str
) -> None:
    """Connections authenticate again meanwhile, with a token that was asked for anew (KIP-368)."""
    tokens = connected_with = 0

    def provide() -> str:
        nonlocal tokens
        tokens += 1
        return unsecured_token(USER, time.time())

    options = secured_kafka.sasl("OAUTHBEARER", "SHORT", sasl_oauth_token_provider=provide)
    sent: list[bytes] = []
    got: list[bytes | None] = []
    with (
        Producer(**options) as producer,
        Consumer(**options, group_id=topic, topics=[topic], auto_offset_reset="earliest") as consumer,
    ):
        end = time.monotonic() + SESSION_MS / 1000 * 1.5
        while time.monotonic() < end:
            sent.append(b"%d" % len(sent))
            producer.send(topic, sent[-1]).result(LIMIT_S)
            got += [record.value for record in consumer.poll(0.05)]
            if got and not connected_with:
                connected_with = tokens
        while len(got) < len(sent) and time.monotonic() < end + LIMIT_S:
            got += [record.value for record in consumer.poll(1.0)]
        failures = consumer.metrics()["fetch_failures"]
        retries = producer.metrics()["retries"]

    assert sorted(value or b"" for value in got) == sorted(sent)
    assert (failures, retries) == (0, 0)
    assert tokens > connected_with > 0


def _send(options: dict[str, Any], topic: str) -> None:
    with Producer(**options) as producer:
        producer.send(topic, b"x").result(LIMIT_S)


def _poll(options: dict[str, Any], topic: str) -> None:
    with Consumer(**options, group_id=topic, topics=[topic]) as consumer:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            consumer.poll(1.0)


def _ask(options: dict[str, Any], _topic: str) -> None:
    with Admin(**options) as admin:
        admin.list_topics()


@pytest.mark.parametrize("use", [_send, _poll, _ask])
def test_a_wrong_password_is_said_by_the_call_that_needs_the_broker(
    options: dict[str, Any], topic: str, use: Callable[[dict[str, Any], str], None]
) -> None:
    """At once, not after a time-out: no retry will help."""
    began = time.monotonic()

    with pytest.raises(EverlogError) as caught:
        use({**options, "sasl_password": "wrong"}, topic)

    causes = [caught.value, caught.value.__cause__]
    assert any(isinstance(cause, AuthenticationFailed) for cause in causes), repr(caught.value)
    assert time.monotonic() - began < 25, "it waited for a time-out"


def test_the_command_line_logs_in_by_its_client_config(
    options: dict[str, Any], topic: str, tmp_path: Path
) -> None:
    """An admin, a producer, a consumer, a member of a group, and dead letters that are sent back."""
    file = tmp_path / "client.properties"
    told = {name.replace("_", "."): value for name, value in options.items() if name != "bootstrap_servers"}
    file.write_text("".join(f"{name}={value}\n" for name, value in told.items()))

    def run(*arguments: str, stdin: str = "") -> str:
        ran = everlog(*arguments, "--client-config", str(file), bootstrap=servers, stdin=stdin)
        assert ran.code == 0, ran.err
        return ran.out

    servers = options["bootstrap_servers"]
    run("topic", "create", f"{topic}.dlq")
    run("produce", topic, "-p", "0", stdin="good\nbad\n")
    assert run("consume", topic, "-o", "start", "--exit-at-end").split() == ["good", "bad"]
    read = run("consume", topic, "--group", f"{topic}-cli", "-o", "start", "-n", "2")
    assert read.split() == ["good", "bad"]
    _bury(options, topic)
    assert "sent 1 record back" in run("dead-letters", "replay", f"{topic}.dlq")
    assert run("consume", topic, "-o", "start", "--exit-at-end").split() == ["good", "bad", "bad"]

    file.write_text(file.read_text().replace("sasl.password=", "sasl.password=not "))
    refused = everlog("topic", "list", "--client-config", str(file), bootstrap=servers)
    assert (refused.code, "SaslAuthenticate" in refused.err or "credentials" in refused.err) == (1, True)
    assert options["sasl_password"] not in refused.err


def _bury(options: dict[str, Any], topic: str) -> None:
    """Let the record `bad` of a topic become a dead letter."""

    def handle(record: ConsumerRecord) -> None:
        if record.value == b"bad":
            raise KeyError("total")

    with (
        Producer(**options) as producer,
        Consumer(
            **options,
            group_id=f"{topic}-buried",
            topics=[topic],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        letters = DeadLetters(consumer, producer, tries=1)
        deadline = time.monotonic() + LIMIT_S
        while not letters.process(consumer.poll(1.0), handle).dead:
            assert time.monotonic() < deadline
