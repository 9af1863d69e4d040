"""P5, KIP-939: transactions that their producers leave to somebody else to end."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog import Admin, ErrorCode, Fenced, ItemsRefused, Producer, Unsupported, aio
from everlog.client.core.txn.prepared import PreparedTransaction
from tests import brokers
from tests.client.conftest import NewTopic, OpenProducer, topic_maker
from tests.client.log_reading import values

PATIENCE_S = 60.0


def left_open(producer: Producer, topic: str, *contents: bytes) -> PreparedTransaction:
    producer.begin_transaction()
    for content in contents:
        producer.send(topic, content)
    made = producer.prepare_transaction(PATIENCE_S)
    assert made is not None
    return made


def test_others_end_what_a_producer_has_prepared(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    first, second = opened(), opened()
    kept, dropped = left_open(first, topic, b"kept"), left_open(second, topic, b"dropped")
    assert kept.version == txn_version
    first.close()
    second.close()
    assert values(bootstrap, topic) == []

    with Admin(bootstrap) as admin:
        admin.abort_prepared_transactions([dropped])
        for _ in range(2):  # Again, as after an answer that was lost.
            admin.commit_prepared_transactions([kept])
        with pytest.raises(ItemsRefused) as caught:
            admin.commit_prepared_transactions([kept, dropped])

    assert list(caught.value.errors) == [dropped]
    assert values(bootstrap, topic) == [b"kept"]


def test_asyncio_prepares_and_has_others_end_it(
    bootstrap: str, new_topic: NewTopic, new_txn_id: Callable[[], str]
) -> None:
    topic, name = new_topic(), new_txn_id()

    async def work() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            aio.Admin(bootstrap) as admin,
            aio.Producer(bootstrap, transactional_id=name) as producer,
        ):
            await producer.init_transactions()
            await producer.begin_transaction()
            assert await producer.prepare_transaction() is None, "nothing was written"
            await producer.begin_transaction()
            await producer.send(topic, b"one")
            made = await producer.prepare_transaction()
            assert made is not None
            await admin.commit_prepared_transactions([made])

    asyncio.run(work())

    assert values(bootstrap, topic) == [b"one"]


def test_a_producer_goes_on_once_others_have_ended_its_transaction(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, producer = new_topic(), opened()
    with Admin(bootstrap) as admin:
        for content in (b"0", b"1", b"2"):
            stale = left_open(producer, topic, content)
            admin.commit_prepared_transactions([stale])
            producer.init_transactions(PATIENCE_S)

        stale = left_open(producer, topic, b"3")
        admin.commit_prepared_transactions([stale])
        producer.init_transactions(PATIENCE_S)
        last = left_open(producer, topic, b"last")
        # An abort that comes late is about the transaction before, and leaves this one alone.
        admin.abort_prepared_transactions([stale])
        admin.commit_prepared_transactions([last])

    assert values(bootstrap, topic) == [b"0", b"1", b"2", b"3", b"last"]
    assert producer.settings.transactional_id == last.transactional_id
    assert txn_version == last.version


def test_an_abort_shuts_out_a_producer_that_is_still_writing(
    opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, producer = new_topic(), opened()
    made = left_open(producer, topic, b"one")
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.send(topic, b"two").result(PATIENCE_S)
    with Admin(bootstrap) as admin:
        found = admin.describe_transaction(made.transactional_id)
        alive = PreparedTransaction(made.transactional_id, found.producer_id, found.producer_epoch)
        admin.abort_prepared_transactions([alive])
    producer.send(topic, b"three")

    with pytest.raises(Fenced):
        producer.commit_transaction(PATIENCE_S)
    assert values(bootstrap, topic) == []


def test_two_phases_need_a_cluster_that_allows_them(
    opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    made = left_open(opened(), new_topic(), b"one")
    with Admin(bootstrap) as admin, pytest.raises(Unsupported, match=r"two\.phase\.commit\.enable=true"):
        admin.hold_prepared_transactions([made])


def test_a_held_transaction_outlives_its_time_out_and_is_ended_by_its_holder_alone(
    tmp_path: Path, fresh_topic: Callable[[], str]
) -> None:
    broker = brokers.start(
        ["up", "--ephemeral", "--port", "0", "--override", "transaction.two.phase.commit.enable=true"],
        tmp_path / "stderr",
    )
    try:
        topic = topic_maker(broker.bootstrap, fresh_topic)()
        with (
            Producer(broker.bootstrap, transactional_id="held", transaction_timeout_ms=1500) as held,
            Producer(broker.bootstrap, transactional_id="late", transaction_timeout_ms=1500) as late,
            Admin(broker.bootstrap) as admin,
        ):
            held.init_transactions()
            late.init_transactions()
            mine, forgotten = left_open(held, topic, b"held"), left_open(late, topic, b"late")
            again = admin.hold_prepared_transactions([mine])[mine]
            taken = admin.hold_prepared_transactions([mine])[mine]

            # The other one is timed out; then the one that is held would have been as well.
            _wait_until_over(admin, forgotten)
            with pytest.raises(ItemsRefused) as caught:
                admin.hold_prepared_transactions([forgotten])
            assert caught.value.errors[forgotten].code is ErrorCode.INVALID_TXN_STATE

            for stale in (mine, again):
                with pytest.raises(ItemsRefused):
                    admin.commit_prepared_transactions([stale])
            admin.commit_prepared_transactions([taken])
            admin.commit_prepared_transactions([taken])
        assert values(broker.bootstrap, topic) == [b"held"]
    finally:
        broker.stop()


def _wait_until_over(admin: Admin, made: PreparedTransaction) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if admin.describe_transaction(made.transactional_id).state == "CompleteAbort":
            return
    raise AssertionError("the transaction was not timed out")
