"""The producer for asyncio, on a real broker (P1-P4)."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from everlog.client.aio.producer import Producer
from everlog.client.core.errors import Closed, TimedOut
from everlog.client.core.producer.delivery import Delivery, RecordMetadata
from everlog.client.sync.producer import Producer as BlockingProducer
from everlog.model.errors import ErrorCode, EverlogError, Refused
from tests.client.conftest import NewTopic, topic_maker
from tests.client.log_reading import read_log
from tests.conformance.target import Target

PATIENCE_S = 60.0
Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    async def bounded() -> Result:
        async with asyncio.timeout(PATIENCE_S):
            return await work

    return asyncio.run(bounded())


def test_p1_a_record_lies_where_its_delivery_says(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2, retention_ms="-1")

    async def send() -> RecordMetadata:
        async with Producer(bootstrap) as producer:
            delivery = await producer.send(topic, b"v", b"k", partition=1, headers=[("h", b"1")], timestamp=7)
            return await delivery

    assert run(send()) == (topic, 1, 0, 7)
    assert read_log(bootstrap, topic) == [(1, 0, b"k", b"v", (("h", b"1"),), 7, 0)]


def test_leaving_the_block_loses_nothing_though_nothing_was_awaited(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(3)

    async def send() -> None:
        async with Producer(bootstrap, linger_ms=100_000, compression_type="zstd") as producer:
            for number in range(3000):
                await producer.send(topic, b"%d" % number)

    run(send())
    assert sorted(int(record.value or b"") for record in read_log(bootstrap, topic)) == list(range(3000))


def test_tasks_may_send_at_once_and_wait_for_a_topic_once(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(1)

    async def send() -> list[int]:
        async with Producer(bootstrap) as producer:

            async def one(number: int) -> int:
                return (await (await producer.send(topic, b"%d" % number))).offset

            return await asyncio.gather(*[one(number) for number in range(200)])

    assert sorted(run(send())) == list(range(200))


def test_a_loop_that_only_sends_leaves_the_sender_its_turns(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(1)

    async def send() -> int:
        async with Producer(bootstrap, linger_ms=0) as producer:
            await (await producer.send(topic, b"first"))
            for _ in range(200):
                await producer.send(topic, bytes(2000))
            return producer.metrics()["batches_sent"]

    assert run(send()) > 1


def test_p2_a_flush_sends_what_has_not_lingered(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()

    async def send() -> list[bool]:
        async with Producer(bootstrap, linger_ms=100_000) as producer:
            deliveries = [await producer.send(topic, b"x") for _ in range(5)]
            await producer.flush()
            return [delivery.done() for delivery in deliveries]

    assert run(send()) == [True] * 5


def test_callbacks_run_on_the_loop(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    told: list[tuple[RecordMetadata | None, EverlogError | None, int]] = []

    async def send() -> None:
        async with Producer(bootstrap) as producer:
            await producer.send(
                topic,
                b"x",
                timestamp=1,
                on_delivery=lambda found, error: told.append((found, error, threading.get_ident())),
            )

    run(send())
    assert told == [(RecordMetadata(topic, 0, 0, 1), None, threading.get_ident())]


def test_errors_are_raised_where_they_are_awaited(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(1, max_message_bytes="5000")

    async def send() -> None:
        async with Producer(bootstrap) as producer:
            large = await producer.send(topic, bytes(50_000))
            with pytest.raises(Refused) as caught:
                await large
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
            assert (await (await producer.send(topic, b"small"))).offset == 0

    run(send())


def test_an_unknown_topic_is_refused(bootstrap: str, fresh_topic: Callable[[], str]) -> None:
    async def send() -> None:
        async with Producer(bootstrap, allow_auto_create_topics=False) as producer:
            await producer.send(fresh_topic(), b"x")

    with pytest.raises(Refused, match="no such topic"):
        run(send())


def test_a_closed_producer_refuses(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()

    async def send() -> None:
        producer = Producer(bootstrap)
        await producer.send(topic, b"x")
        await producer.close()
        await producer.close()
        await producer.send(topic, b"y")

    with pytest.raises(Closed):
        run(send())
    assert [record.value for record in read_log(bootstrap, topic)] == [b"x"]


def test_the_partitions_of_a_topic_are_told(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(3)

    async def ask() -> list[int]:
        async with Producer(bootstrap) as producer:
            return [partition.index for partition in await producer.partitions_for(topic)]

    assert run(ask()) == [0, 1, 2]


def test_p2_a_full_buffer_holds_up_the_sender_and_then_says_why(
    victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)()

    async def send() -> int:
        async with Producer(victim.bootstrap, buffer_memory=20_000, max_block_ms=300) as producer:
            await (await producer.send(topic, b"x"))
            victim.pause()
            kept: list[Delivery] = []
            with pytest.raises(TimedOut, match="buffer_memory=20000 is full"):
                kept += [await producer.send(topic, bytes(1000)) for _ in range(100)]
            waiting = producer.metrics()["buffer_used_bytes"] // 1000
            victim.resume()
            return waiting

    kept = run(send())
    assert 10 < kept < 20
    assert len(read_log(victim.bootstrap, topic)) == kept + 1


def test_a_blocking_producers_delivery_can_be_awaited(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()

    async def wait(producer: BlockingProducer) -> int:
        return (await producer.send(topic, b"x")).offset

    with BlockingProducer(bootstrap) as producer:
        assert run(wait(producer)) == 0
