"""Connections over real sockets: versions, order, time-outs, and what is said when they fail."""

import socket
import time

import pytest

from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.connection import Connection
from everlog.model.errors import ProtocolError
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.client.sync.scripted import ScriptedBroker


def connect(port: int, timeout: float = 5.0) -> Connection:
    return Connection("127.0.0.1", port, client_id="test", timeout=timeout)


def named(header: RequestHeader, _request: Message) -> MetadataResponse:
    return MetadataResponse(cluster_id=f"answer-{header.correlation_id}")


def closing(_header: RequestHeader, _request: Message) -> None:
    return None


def test_requests_may_be_sent_ahead_and_answers_come_in_their_order() -> None:
    with ScriptedBroker(named) as broker, connect(broker.port) as connection:
        for _ in range(3):
            connection.send(MetadataRequest(topics=[]), 5.0)
        assert connection.in_flight == 3

        answers = [connection.receive(MetadataResponse, 5.0).cluster_id for _ in range(3)]

    assert answers == ["answer-2", "answer-3", "answer-4"]


def test_a_broker_with_older_api_versions_is_asked_again_in_its_own() -> None:
    with ScriptedBroker(named, max_api_versions=2) as broker, connect(broker.port) as connection:
        assert connection.call(MetadataRequest(topics=[]), MetadataResponse, 5.0).cluster_id

    assert [header.api_version for header in broker.seen[:2]] == [4, 2]


def test_a_broker_that_does_not_answer_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(TimedOut, match="did not answer in time"):
            connect(silent.getsockname()[1], timeout=0.2)

    assert time.monotonic() - began < 2


def test_nobody_listening_is_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(Unreachable, match=f"broker 127.0.0.1:{port} refused the connection: is it running"):
        connect(port)


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(Unreachable, match=r"host 'no-such-host\.invalid' cannot be found"):
        Connection("no-such-host.invalid", 9092, client_id="test", timeout=5.0)


def test_a_broker_that_closes_is_unreachable_and_the_connection_is_closed_too() -> None:
    with ScriptedBroker(closing) as broker, connect(broker.port) as connection:
        with pytest.raises(Unreachable, match="closed the connection before it answered"):
            connection.call(MetadataRequest(topics=[]), MetadataResponse, 5.0)

        assert not connection.is_open
        with pytest.raises(Unreachable, match="the connection is closed"):
            connection.send(MetadataRequest(topics=[]), 5.0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is it a Kafka listener"),
        (b"\xff\xff\xff\xff" + bytes(20), "-1 bytes"),
        (b"\0\0\0\x06\0\0\0\x63\0\0", "answer that cannot be read|answered request"),
        (b"\0\0\0\x04\0\0\0\x02", "cannot be read"),
    ],
)
def test_what_is_not_the_protocol_is_told_and_ends_the_connection(answer: bytes, words: str) -> None:
    with (
        ScriptedBroker(lambda _header, _request: answer) as broker,
        connect(broker.port) as connection,
    ):
        with pytest.raises(ProtocolError, match=words):
            connection.call(MetadataRequest(topics=[]), MetadataResponse, 5.0)

        assert not connection.is_open


def test_a_greeting_that_is_not_the_protocol_is_told() -> None:
    with (
        ScriptedBroker(lambda _header, _request: b"SSH-2.0-OpenSSH_9.9\r\n", greets=False) as broker,
        pytest.raises(ProtocolError, match="is it a Kafka listener"),
    ):
        connect(broker.port)


def test_the_bootstrap_addresses_are_tried_in_turn_and_all_failures_are_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        dead = taken.getsockname()[1]
    with (
        ScriptedBroker(named) as broker,
        Cluster(f"127.0.0.1:{dead},127.0.0.1:{broker.port}", timeout=5.0) as cluster,
    ):
        assert cluster.refresh([]).cluster_id

    with (
        Cluster(f"127.0.0.1:{dead},localhost:{dead}", timeout=5.0) as cluster,
        pytest.raises(Unreachable, match=f"127.0.0.1:{dead} refused.*; broker localhost:{dead} refused"),
    ):
        cluster.refresh([])
