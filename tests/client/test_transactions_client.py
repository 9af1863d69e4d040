"""P5, C6: transactions of the public producers on a real broker, in both versions of the protocol."""

import asyncio
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import everlog.aio
from everlog import (
    ConfigError,
    ErrorCode,
    Fenced,
    GroupMetadata,
    OffsetAndMetadata,
    Producer,
    Refused,
    TopicPartition,
    TransactionAborted,
    TransactionFailed,
    TransactionMisused,
)
from tests.client.conftest import NewTopic, OpenProducer
from tests.client.log_reading import values

pa: Any = import_module("pyarrow")

PATIENCE_S = 60.0


def spoken(producer: Producer) -> int:
    """The version of transactions that a producer speaks."""
    session = producer._inner.session  # pyright: ignore[reportPrivateUsage]
    assert session is not None
    return session.core.version


# Atomic, and seen when it should be.


def test_p5_a_transaction_over_several_partitions_is_seen_as_a_whole(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, other = new_topic(3), new_topic(1)
    producer = opened()
    producer.begin_transaction()
    sent = [producer.send(topic, b"%d" % number, partition=number % 3) for number in range(30)]
    producer.send(other, b"other")
    producer.flush(PATIENCE_S)

    assert spoken(producer) == txn_version
    assert all(delivery.done() for delivery in sent)
    assert values(bootstrap, topic) == []
    assert len(values(bootstrap, topic, committed=False)) == 30

    producer.commit_transaction(PATIENCE_S)

    assert values(bootstrap, topic) == sorted(b"%d" % number for number in range(30))
    assert values(bootstrap, other) == [b"other"]


def test_p5_an_aborted_transaction_is_never_seen(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    producer = opened()
    producer.begin_transaction()
    for number in range(10):
        producer.send(topic, b"%d" % number)
    producer.flush(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)

    assert values(bootstrap, topic) == []
    assert len(values(bootstrap, topic, committed=False)) == 10


def test_p5_transactions_follow_each_other_whatever_became_of_the_last(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    producer = opened()
    kept: list[bytes] = []
    for turn in range(12):
        producer.begin_transaction()
        for number in range(5):
            value = b"%d.%d" % (turn, number)
            producer.send(topic, value, partition=number % 2)
            if turn % 3:
                kept.append(value)
        if turn % 3:
            producer.commit_transaction(PATIENCE_S)
        else:
            # What was not sent yet is dropped, what was sent is aborted; every other time something is.
            if turn % 2:
                producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)

    assert values(bootstrap, topic) == sorted(kept)


def test_p5_a_transaction_without_records_is_none_of_the_brokers_business(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producer = opened()
    for _ in range(3):
        producer.begin_transaction()
        producer.commit_transaction(PATIENCE_S)
        producer.begin_transaction()
        producer.abort_transaction(PATIENCE_S)
    with producer.transaction():
        producer.send(topic, b"at last")

    assert values(bootstrap, topic) == [b"at last"]


def test_p5_columns_are_records_like_others(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    producer = opened()
    producer.begin_transaction()
    producer.send_arrow(topic, pa.table({"value": [b"no %d" % number for number in range(100)]}))
    producer.flush(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)
    with producer.transaction():
        producer.send_arrow(topic, pa.table({"value": [b"%d" % number for number in range(100)]}))
    with pytest.raises(TransactionMisused):
        producer.send_arrow(topic, pa.table({"value": [b"outside"]}))

    assert values(bootstrap, topic) == sorted(b"%d" % number for number in range(100))


# The context manager.


def test_p5_a_block_commits_at_its_end_and_aborts_when_it_fails(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    producer = opened()
    with producer.transaction():
        producer.send(topic, b"kept")

    def fail() -> None:
        with producer.transaction():
            producer.send(topic, b"not kept")
            producer.flush(PATIENCE_S)
            raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        fail()
    with producer.transaction():
        producer.send(topic, b"kept too")

    assert values(bootstrap, topic) == [b"kept", b"kept too"]


def test_p5_the_asyncio_face_does_the_same(
    txn_version: int, bootstrap: str, new_topic: NewTopic, new_txn_id: Callable[[], str]
) -> None:
    topic = new_topic(2)

    async def fail(producer: everlog.aio.Producer) -> None:
        async with producer.transaction():
            delivery = await producer.send(topic, b"not kept")
            await producer.flush(PATIENCE_S)
            assert (await delivery).topic == topic
            raise LookupError("no such thing")

    async def work() -> None:
        async with everlog.aio.Producer(bootstrap, transactional_id=new_txn_id()) as producer:
            await producer.init_transactions(PATIENCE_S)
            async with producer.transaction():
                for number in range(10):
                    await producer.send(topic, b"%d" % number)
            with pytest.raises(LookupError, match="no such thing"):
                await fail(producer)
            await producer.begin_transaction()
            await producer.send(topic, b"nor this")
            await producer.abort_transaction(PATIENCE_S)

    asyncio.run(work())

    assert values(bootstrap, topic) == sorted(b"%d" % number for number in range(10))


# What fails.


def test_p5_an_abort_drops_what_was_not_sent(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producer = opened(linger_ms=60_000)
    producer.begin_transaction()
    delivery = producer.send(topic, b"waits")
    producer.abort_transaction(PATIENCE_S)

    with pytest.raises(TransactionAborted, match="aborted before it was sent"):
        delivery.result(PATIENCE_S)
    assert values(bootstrap, topic, committed=False) == []


def test_p5_a_record_that_fails_fails_the_commit_and_the_producer_goes_on(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, small = new_topic(), new_topic(1, max_message_bytes="1000")
    producer = opened()
    producer.begin_transaction()
    producer.send(topic, b"fine")
    failed = producer.send(small, b"x" * 5000)

    with pytest.raises(TransactionFailed, match="must be aborted") as raised:
        producer.commit_transaction(PATIENCE_S)
    assert isinstance(raised.value.__cause__, Refused)
    assert raised.value.__cause__.code is ErrorCode.MESSAGE_TOO_LARGE
    assert failed.exception(PATIENCE_S) is not None
    for forbidden in (producer.commit_transaction, producer.begin_transaction):
        with pytest.raises(TransactionFailed):
            forbidden()
    with pytest.raises(TransactionFailed):
        producer.send(topic, b"more")
    producer.abort_transaction(PATIENCE_S)

    with producer.transaction():
        producer.send(topic, b"again")
        producer.send(small, b"small")
    assert values(bootstrap, topic) == [b"again"]
    assert values(bootstrap, small) == [b"small"]


def test_p5_a_block_whose_record_fails_raises_that_and_is_aborted(
    opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    small = new_topic(1, max_message_bytes="1000")
    producer = opened()

    def fail() -> None:
        with producer.transaction():
            producer.send(small, b"fine")
            producer.send(small, b"x" * 5000)

    with pytest.raises(TransactionFailed, match="must be aborted"):
        fail()
    with producer.transaction():
        producer.send(small, b"again")

    assert values(bootstrap, small) == [b"again"]


# Fencing.


def test_p5_a_zombie_is_fenced_everywhere(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic, new_txn_id: Callable[[], str]
) -> None:
    topic, name = new_topic(2), new_txn_id()
    zombie = opened(name)
    zombie.begin_transaction()
    zombie.send(topic, b"of the zombie", partition=0).result(PATIENCE_S)

    heir = opened(name)
    with heir.transaction():
        heir.send(topic, b"of the heir", partition=0)
    late = zombie.send(topic, b"too late", partition=1)

    with pytest.raises(Fenced, match=name) as raised:
        zombie.commit_transaction(PATIENCE_S)
    assert not raised.value.retriable
    assert late.exception(PATIENCE_S) is not None
    for call in (zombie.abort_transaction, zombie.begin_transaction, zombie.commit_transaction):
        with pytest.raises(Fenced):
            call()
    with pytest.raises(Fenced):
        zombie.send(topic, b"and again")
    with pytest.raises(Fenced):
        zombie.send_offsets_to_transaction(
            {TopicPartition(topic, 0): OffsetAndMetadata(1)}, GroupMetadata("g")
        )
    assert values(bootstrap, topic) == [b"of the heir"]


def test_p5_a_zombie_that_sent_nothing_since_is_fenced_at_its_commit(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic, new_txn_id: Callable[[], str]
) -> None:
    topic, name = new_topic(), new_txn_id()
    zombie = opened(name)
    zombie.begin_transaction()
    zombie.send(topic, b"of the zombie").result(PATIENCE_S)
    opened(name)

    with pytest.raises(Fenced):
        zombie.commit_transaction(PATIENCE_S)
    assert values(bootstrap, topic) == []


def test_p5_a_transaction_that_takes_too_long_is_aborted(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic, new_txn_id: Callable[[], str]
) -> None:
    topic, name = new_topic(), new_txn_id()
    slow = opened(name, transaction_timeout_ms=1000)
    slow.begin_transaction()
    slow.send(topic, b"slow").result(PATIENCE_S)
    marker = opened()
    deadline = time.monotonic() + PATIENCE_S
    while values(bootstrap, topic) == []:
        # A record behind the open transaction shows as soon as that one is over.
        assert time.monotonic() < deadline
        with marker.transaction():
            marker.send(topic, b"behind")

    # In version 2 a broker may let the producer go on after an abort; else it is fenced.
    with pytest.raises((Fenced, TransactionFailed)) as raised:
        slow.commit_transaction(PATIENCE_S)
    if isinstance(raised.value, Fenced):
        assert "more than 1000 ms" in str(raised.value)
    else:
        assert txn_version == 2
        try:
            slow.abort_transaction(PATIENCE_S)
        except Fenced:
            pass
        else:
            with slow.transaction():
                slow.send(topic, b"behind")
    assert set(values(bootstrap, topic)) == {b"behind"}


# Misuse.


def test_p5_calls_that_do_not_fit_are_refused(
    bootstrap: str, opened: OpenProducer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with Producer(bootstrap) as plain, pytest.raises(TransactionMisused, match="transactional_id"):
        plain.init_transactions()
    producer = opened()
    with pytest.raises(TransactionMisused, match="begin_transaction"):
        producer.send(topic, b"outside")
    with pytest.raises(TransactionMisused, match="begin_transaction"):
        producer.commit_transaction()
    with pytest.raises(TransactionMisused):
        producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(TransactionMisused, match="in a transaction"):
        producer.begin_transaction()
    producer.abort_transaction()


def test_p5_transactions_need_idempotence(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="transactional_id"):
        Producer(bootstrap, transactional_id="till", enable_idempotence=False)


def test_p5_a_time_out_that_no_broker_allows_is_refused(
    bootstrap: str, new_txn_id: Callable[[], str]
) -> None:
    with Producer(bootstrap, transactional_id=new_txn_id(), transaction_timeout_ms=2**31 - 1) as producer:
        with pytest.raises(Refused) as raised:
            producer.init_transactions(PATIENCE_S)
        assert raised.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
