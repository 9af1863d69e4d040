"""P5, C6: transactions of the public producers on a real broker, in both versions of the protocol."""

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from everlog.client.aio.producer import Producer as AioProducer
from everlog.client.core.errors import (
    Fenced,
    TimedOut,
    TransactionAborted,
    TransactionFailed,
    TransactionMisused,
)
from everlog.client.core.group_types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.transactions import Transactions
from everlog.client.sync.producer import Producer
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.model.topics import TopicPartition
from tests.brokers import free_port
from tests.client.conftest import NewTopic, topic_maker
from tests.client.log_reading import committed_offset, read_log
from tests.conformance.target import Target

PATIENCE_S = 60.0


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The protocol that producers speak: that of the cluster, or 1 as clients do that know no other."""
    if request.param == 1:
        monkeypatch.setattr(Transactions, "learn_level", _learn_nothing)
    return int(request.param)


def _learn_nothing(_core: Transactions, _level: int) -> None:
    """Stay with version 1."""


@pytest.fixture
def new_id(fresh_topic: Callable[[], str]) -> Callable[[], str]:
    """Transactional ids that no other test uses."""
    return lambda: fresh_topic().replace("t-", "id-")


Open = Callable[..., Producer]


@pytest.fixture
def opened(bootstrap: str, new_id: Callable[[], str]) -> Generator[Open]:
    """Make producers that are initialized; they are closed with the test."""
    made: list[Producer] = []

    def make(transactional_id: str | None = None, **options: Any) -> Producer:
        producer = Producer(bootstrap, transactional_id=transactional_id or new_id(), **options)
        made.append(producer)
        producer.init_transactions(PATIENCE_S)
        return producer

    yield make
    for producer in made:
        producer.close(PATIENCE_S)


def values(bootstrap: str, topic: str, *, committed: bool = True) -> list[bytes]:
    return sorted(record.value or b"" for record in read_log(bootstrap, topic, committed=committed))


def spoken(producer: Producer) -> int:
    """The version of transactions that a producer speaks."""
    session = producer._inner.session  # pyright: ignore[reportPrivateUsage]
    assert session is not None
    return session.core.version


# Atomic, and seen when it should be.


def test_p5_a_transaction_over_several_partitions_is_seen_as_a_whole(
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, other = new_topic(3), new_topic(1)
    producer = opened()
    producer.begin_transaction()
    sent = [producer.send(topic, b"%d" % number, partition=number % 3) for number in range(30)]
    producer.send(other, b"other")
    producer.flush(PATIENCE_S)

    assert spoken(producer) == version
    assert all(delivery.done() for delivery in sent)
    assert values(bootstrap, topic) == []
    assert len(values(bootstrap, topic, committed=False)) == 30

    producer.commit_transaction(PATIENCE_S)

    assert values(bootstrap, topic) == sorted(b"%d" % number for number in range(30))
    assert values(bootstrap, other) == [b"other"]


def test_p5_an_aborted_transaction_is_never_seen(
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
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
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
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
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
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


# The context manager.


def test_p5_a_block_commits_at_its_end_and_aborts_when_it_fails(
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
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
    version: int, bootstrap: str, new_topic: NewTopic, new_id: Callable[[], str]
) -> None:
    topic = new_topic(2)

    async def fail(producer: AioProducer) -> None:
        async with producer.transaction():
            delivery = await producer.send(topic, b"not kept")
            await producer.flush(PATIENCE_S)
            assert (await delivery).topic == topic
            raise LookupError("no such thing")

    async def work() -> None:
        async with AioProducer(bootstrap, transactional_id=new_id()) as producer:
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
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
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
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
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
    opened: Open, bootstrap: str, new_topic: NewTopic
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
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic, new_id: Callable[[], str]
) -> None:
    topic, name = new_topic(2), new_id()
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
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic, new_id: Callable[[], str]
) -> None:
    topic, name = new_topic(), new_id()
    zombie = opened(name)
    zombie.begin_transaction()
    zombie.send(topic, b"of the zombie").result(PATIENCE_S)
    opened(name)

    with pytest.raises(Fenced):
        zombie.commit_transaction(PATIENCE_S)
    assert values(bootstrap, topic) == []


def test_p5_a_transaction_that_takes_too_long_is_aborted(
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic, new_id: Callable[[], str]
) -> None:
    topic, name = new_topic(), new_id()
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
        assert version == 2
        try:
            slow.abort_transaction(PATIENCE_S)
        except Fenced:
            pass
        else:
            with slow.transaction():
                slow.send(topic, b"behind")
    assert set(values(bootstrap, topic)) == {b"behind"}


# Offsets.


@pytest.mark.parametrize("commit", [True, False])
def test_p5_offsets_count_with_the_transaction(
    version: int, commit: bool, opened: Open, bootstrap: str, new_topic: NewTopic
) -> None:
    source, target, group = new_topic(2), new_topic(), f"g-{time.time_ns()}"
    place = TopicPartition(source, 1)
    producer = opened()
    producer.begin_transaction()
    producer.send(target, b"made of it")
    producer.send_offsets_to_transaction({place: OffsetAndMetadata(5, "so far")}, GroupMetadata(group))
    producer.send_offsets_to_transaction({place: OffsetAndMetadata(7)}, GroupMetadata(group))
    if commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)

    assert committed_offset(bootstrap, group, source, 1) == (7 if commit else None)
    assert values(bootstrap, target) == ([b"made of it"] if commit else [])


def test_p5_offsets_of_a_member_that_is_none_fail_the_transaction(
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
) -> None:
    source, group = new_topic(), f"g-{time.time_ns()}"
    offsets = {TopicPartition(source, 0): OffsetAndMetadata(5)}
    producer = opened()
    producer.begin_transaction()
    producer.send(source, b"x").result(PATIENCE_S)

    with pytest.raises(TransactionFailed) as raised:
        producer.send_offsets_to_transaction(offsets, GroupMetadata(group, 3, "nobody"))
    assert isinstance(raised.value.__cause__, Refused)
    assert raised.value.__cause__.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    with pytest.raises(TransactionFailed):
        producer.commit_transaction(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)
    assert committed_offset(bootstrap, group, source, 0) is None


def test_p5_offsets_of_no_partitions_are_nothing(opened: Open) -> None:
    producer = opened()
    with producer.transaction():
        producer.send_offsets_to_transaction({}, GroupMetadata("g"))


# Time-outs, restarts, the end.


def test_p5_a_commit_that_timed_out_may_be_called_again(
    version: int, victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(2)
    with Producer(victim.bootstrap, transactional_id="till", request_timeout_ms=2000) as producer:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.send(topic, b"kept").result(PATIENCE_S)
        victim.pause()
        with pytest.raises(TimedOut):
            producer.commit_transaction(0.5)
        with pytest.raises(TransactionMisused, match="call commit_transaction again"):
            producer.abort_transaction(0.5)
        with pytest.raises(TimedOut):
            producer.commit_transaction(3)
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
    version: int, victim: Target, fresh_topic: Callable[[], str]
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
    version: int, victim: Target, fresh_topic: Callable[[], str]
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
    version: int, opened: Open, bootstrap: str, new_topic: NewTopic
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


# Misuse.


def test_p5_calls_that_do_not_fit_are_refused(bootstrap: str, opened: Open, new_topic: NewTopic) -> None:
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


def test_p5_a_time_out_that_no_broker_allows_is_refused(bootstrap: str, new_id: Callable[[], str]) -> None:
    with Producer(bootstrap, transactional_id=new_id(), transaction_timeout_ms=2**31 - 1) as producer:
        with pytest.raises(Refused) as raised:
            producer.init_transactions(PATIENCE_S)
        assert raised.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
