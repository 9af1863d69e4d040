"""P5: transactions that time out, outlive the death of a broker, or are left open, on a real broker."""

from collections.abc import Callable

import pytest

from everlog import Producer, TimedOut, TransactionMisused
from tests.brokers import free_port
from tests.client.conftest import NewTopic, OpenProducer, topic_maker
from tests.client.log_reading import values
from tests.conformance.target import Target

PATIENCE_S = 60.0


def test_p5_a_commit_that_timed_out_may_be_called_again(
    txn_version: int, victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(2)
    with Producer(victim.bootstrap, transactional_id="till", request_timeout_ms=2000) as producer:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.send(topic, b"kept").result(PATIENCE_S)
        victim.pause()
        with pytest.raises(TimedOut):
            producer.commit_transaction(3)
        with pytest.raises(TransactionMisused, match="call commit_transaction again"):
            producer.abort_transaction(0.5)
        with pytest.raises(TimedOut):
            producer.commit_transaction(0.5)
        victim.resume()
        producer.commit_transaction(PATIENCE_S)
        with producer.transaction():
            producer.send(topic, b"kept too")

    assert values(victim.bootstrap, topic) == [b"kept", b"kept too"]


def test_p5_a_commit_whose_records_are_not_delivered_in_time_leaves_the_transaction_open(
    victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(2)
    with Producer(victim.bootstrap, transactional_id="till") as producer:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.send(topic, b"first").result(PATIENCE_S)
        victim.pause()
        producer.send(topic, b"second")
        with pytest.raises(TimedOut):
            producer.commit_transaction(0.5)
        victim.resume()
        producer.send(topic, b"third")
        producer.commit_transaction(PATIENCE_S)

    assert values(victim.bootstrap, topic) == [b"first", b"second", b"third"]


def test_p5_an_abort_that_timed_out_is_finished_by_the_next_beginning(
    txn_version: int, victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(2)
    with Producer(victim.bootstrap, transactional_id="till", request_timeout_ms=2000) as producer:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.send(topic, b"aborted").result(PATIENCE_S)
        victim.pause()
        with pytest.raises(TimedOut):
            producer.abort_transaction(0.5)
        victim.resume()
        with producer.transaction():
            producer.send(topic, b"kept")

    assert values(victim.bootstrap, topic) == [b"kept"]


def test_p5_a_transaction_outlives_the_death_of_its_broker(
    txn_version: int, victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(2)
    kept: list[bytes] = []
    with Producer(victim.bootstrap, transactional_id="till", max_block_ms=120_000) as producer:
        producer.init_transactions()
        for turn in range(3):
            producer.begin_transaction()
            for half in range(2):
                for number in range(10):
                    kept.append(b"%d.%d.%d" % (turn, half, number))
                    producer.send(topic, kept[-1])
                if half == 0:
                    producer.flush(PATIENCE_S)
                    victim.kill()
                    victim.start()
            producer.commit_transaction()

    assert values(victim.bootstrap, topic) == sorted(kept)


def test_p5_without_a_broker_the_id_is_asked_for_until_the_time_out() -> None:
    with Producer(f"127.0.0.1:{free_port()}", transactional_id="till") as producer:
        with pytest.raises(TimedOut, match="'till'"):
            producer.init_transactions(0.5)
        with pytest.raises(TransactionMisused, match="call init_transactions first"):
            producer.begin_transaction()


def test_p5_closing_aborts_what_is_open(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producer = opened()
    producer.begin_transaction()
    producer.send(topic, b"left open").result(PATIENCE_S)
    dropped = producer.send(topic, b"not even sent")
    producer.close(PATIENCE_S)

    assert dropped.done()
    with Producer(bootstrap) as plain:
        plain.send(topic, b"behind it").result(PATIENCE_S)
    assert values(bootstrap, topic) == [b"behind it"]
