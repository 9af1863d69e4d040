"""Transactions by the real program: listed, described, aborted, found hanging (P5, C6, O1)."""

import asyncio
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from everlog.client.core.settings import ConnectionSettings
from everlog.client.drive.link import ClusterLink
from everlog.model.topics import TopicPartition
from everlog.records.builder import NewRecord, build_batch
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests import brokers
from tests.e2e.clients import TIMEOUT_S
from tests.e2e.groups import open_transaction
from tests.e2e.program import everlog

pytestmark = pytest.mark.e2e

FreshTopic = Callable[[], str]


@pytest.fixture
def topic(everlog_bootstrap: str, fresh_topic: FreshTopic) -> str:
    """A topic with one record in its one partition."""
    name = fresh_topic()
    made = everlog("topic", "create", name, bootstrap=everlog_bootstrap)
    assert made.code == 0, made.err
    assert everlog("produce", name, stdin="plain\n", bootstrap=everlog_bootstrap).code == 0
    return name


def listed(bootstrap: str, *arguments: str) -> dict[str, Any]:
    ran = everlog("txn", "list", *arguments, "--json", bootstrap=bootstrap)
    assert ran.code == 0, ran.err
    return {entry["transactional_id"]: entry for entry in ran.json["transactions"]}


def described(bootstrap: str, transactional_id: str) -> Any:
    ran = everlog("txn", "describe", transactional_id, "--json", bootstrap=bootstrap)
    assert ran.code == 0, ran.err
    return ran.json


def committed_values(bootstrap: str, topic: str) -> list[str]:
    ran = everlog("consume", topic, "--exit-at-end", "--isolation", "read_committed", bootstrap=bootstrap)
    assert ran.code == 0, ran.err
    return ran.out.splitlines()


def test_an_open_transaction_is_listed_described_and_aborted_and_its_producer_fenced(
    everlog_bootstrap: str, topic: str
) -> None:
    name = f"txn-{topic}"
    with open_transaction(everlog_bootstrap, name, topic) as producer:
        assert listed(everlog_bootstrap)[name]["state"] == "Ongoing"
        assert name in listed(everlog_bootstrap, "--state", "ongoing", "--running-longer-than", "1ms")
        assert name not in listed(everlog_bootstrap, "--state", "CompleteCommit")
        assert name not in listed(everlog_bootstrap, "--running-longer-than", "1h")

        shown = described(everlog_bootstrap, name)
        assert (shown["state"], shown["timeout_ms"]) == ("Ongoing", 60_000)
        assert shown["partitions"] == [{"topic": topic, "partition": 0}]
        assert 0 < shown["running_seconds"] < 60
        assert abs(shown["started_at"] - time.time() * 1000) < 60_000
        text = everlog("txn", "describe", name, bootstrap=everlog_bootstrap)
        assert (text.code, "Ongoing" in text.out, topic in text.out) == (0, True, True)

        alive = everlog(
            "txn",
            "find-hanging",
            "--topic",
            topic,
            "--max-transaction-timeout",
            "0s",
            bootstrap=everlog_bootstrap,
        )
        assert (alive.code, alive.out) == (0, "no hanging transactions\n")

        tried = everlog("txn", "abort", name, "--dry-run", bootstrap=everlog_bootstrap)
        assert (tried.code, tried.out) == (0, f"would abort the transaction of {name} in {topic}-0\n")
        assert described(everlog_bootstrap, name)["state"] == "Ongoing"

        aborted = everlog("txn", "abort", name, "--json", bootstrap=everlog_bootstrap)
        assert (aborted.code, aborted.json["aborted"]) == (0, True)
        assert aborted.json["producer_epoch"] > shown["producer_epoch"]
        assert described(everlog_bootstrap, name)["state"] != "Ongoing"

        with pytest.raises(KafkaException, match="fenced"):
            producer.commit_transaction(TIMEOUT_S)
    assert committed_values(everlog_bootstrap, topic) == ["plain"]
    again = everlog("txn", "abort", name, bootstrap=everlog_bootstrap)
    assert again.code == 1
    assert "there is nothing to abort" in again.err


def test_a_transaction_that_was_committed_is_left_alone(everlog_bootstrap: str, topic: str) -> None:
    name = f"txn-{topic}"
    with open_transaction(everlog_bootstrap, name, topic, count=2) as producer:
        producer.commit_transaction(TIMEOUT_S)

    ran = everlog("txn", "abort", name, bootstrap=everlog_bootstrap)

    assert ran.code == 1
    assert "INVALID_TXN_STATE" in ran.err
    assert len(committed_values(everlog_bootstrap, topic)) == 3


def test_what_does_not_exist_is_named(everlog_bootstrap: str, topic: str) -> None:
    for words in (["describe", "nobody"], ["abort", "nobody"]):
        ran = everlog("txn", *words, "--json", bootstrap=everlog_bootstrap)
        assert (ran.code, ran.json["error"]["code"]) == (1, "TRANSACTIONAL_ID_NOT_FOUND")
        assert "transactional id 'nobody'" in ran.err
    place = ["--partition", "0", "--start-offset", "5"]
    none = everlog("txn", "abort", "--topic", topic, *place, bootstrap=everlog_bootstrap)
    assert (none.code, none.err) == (
        1,
        f"error: transaction in {topic}-0 from offset 5: INVALID_TXN_STATE: none is open there\n",
    )
    missing = everlog("txn", "abort", "--topic", f"{topic}x", *place, bootstrap=everlog_bootstrap)
    assert missing.code == 1
    assert "no such topic" in missing.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["abort"], "which transaction is not clear"),
        (["abort", "x", "--topic", "t", "--partition", "0", "--start-offset", "1"], "is not clear"),
        (["abort", "--topic", "t"], "--topic, --partition and --start-offset together"),
        (["list", "--state", "Open"], "'Open' is not one of"),
        (["list", "--running-longer-than", "long"], "--running-longer-than 'long' cannot be read"),
        (["find-hanging", "--max-transaction-timeout", "x"], "--max-transaction-timeout 'x' cannot be read"),
        (["find-hanging", "--topic", "t:x"], "topic 't:x' cannot be read"),
    ],
)
def test_what_is_not_clear_is_wrong_usage(arguments: list[str], words: str) -> None:
    ran = everlog("txn", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


@pytest.fixture
def lenient_bootstrap(tmp_path: Path) -> Generator[str]:
    """A broker that does not ask the coordinator before a transaction begins in a partition (KIP-890)."""
    broker = brokers.start_up(
        tmp_path / "data",
        tmp_path / "stderr",
        "--override",
        "transaction.partition.verification.enable=false",
    )
    try:
        yield broker.bootstrap
    finally:
        broker.stop()


def write_and_forget(bootstrap: str, topic: str) -> int:
    """Write in a transaction that no coordinator knows of, and return the producer's id."""
    return asyncio.run(_write_and_forget(bootstrap, topic))


async def _write_and_forget(bootstrap: str, topic: str) -> int:
    link = ClusterLink(ConnectionSettings(bootstrap_servers=bootstrap))
    try:
        (described,) = await link.topics([topic])
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        identity = await link.call(request, InitProducerIdResponse)
        batch = build_batch(
            [NewRecord(None, b"hanging", (), int(time.time() * 1000))],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        produce = ProduceRequest(
            transactional_id="forgotten",
            acks=-1,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=described.topic_id,
                    partition_data=[PartitionProduceData(index=0, records=memoryview(batch))],
                )
            ],
        )
        leader = link.view.leader_of(TopicPartition(topic, 0))
        assert leader is not None
        # From version 12 on writing itself would tell the coordinator.
        answer = await link.call_node(leader.node_id, produce, ProduceResponse, at_most=11)
        assert answer.responses[0].partition_responses[0].error_code == 0
        return identity.producer_id
    finally:
        await link.close()


def test_a_transaction_that_nobody_will_end_is_found_and_ended(lenient_bootstrap: str) -> None:
    bootstrap = lenient_bootstrap
    everlog("topic", "create", "orders", "-p", "2", bootstrap=bootstrap)
    everlog("produce", "orders", "--partition", "0", stdin="first\n", bootstrap=bootstrap)
    producer_id = write_and_forget(bootstrap, "orders")
    everlog("produce", "orders", "--partition", "0", stdin="second\n", bootstrap=bootstrap)
    assert committed_values(bootstrap, "orders") == ["first"]

    search = ["txn", "find-hanging", "--json", "--max-transaction-timeout"]
    found = everlog(*search, "1ms", bootstrap=bootstrap)
    young = everlog(*search, "1h", bootstrap=bootstrap)

    (entry,) = found.json["hanging"]
    assert (entry["topic"], entry["partition"], entry["start_offset"]) == ("orders", 0, 1)
    assert entry["producer_id"] == producer_id
    assert young.json["hanging"] == []
    place = ["--topic", "orders", "--partition", "0", "--start-offset"]
    other = everlog("txn", "abort", *place, "0", bootstrap=bootstrap)
    assert other.code == 1
    assert "open ones start at 1" in other.err

    ended = everlog("txn", "abort", *place, "1", bootstrap=bootstrap)

    assert (ended.code, ended.out) == (
        0,
        f"aborted the transaction of producer {producer_id} in orders-0 from offset 1\n",
    )
    assert committed_values(bootstrap, "orders") == ["first", "second"]
    assert everlog(*search, "1ms", bootstrap=bootstrap).json["hanging"] == []
