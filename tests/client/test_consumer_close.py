"""Closing a consumer takes no longer than it was given, whatever its other calls are waiting for (C1, C5)."""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from everlog import Admin, Closed, Consumer, EverlogError, RebalanceListener, TopicPartition, aio
from everlog.client.drive.fetcher import GOODBYE_S
from tests.client.conftest import NewTopic, topic_maker
from tests.client.log_writing import write
from tests.client.polling import PATIENCE_S, poll_records
from tests.conformance.target import Target

CLOSE_S = 1.0
LIMIT_S = 4.0
"""For closing in one second: what was asked on its behalf may take some more to be given up."""

Place = tuple[str, int]


@pytest.fixture
def place(victim: Target, fresh_topic: Callable[[], str]) -> Place:
    topic = topic_maker(victim.bootstrap, fresh_topic)()
    write(victim.bootstrap, topic, [b"x"])
    return topic, 0


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def one() -> Generator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def is_in_a_call(consumer: Consumer) -> bool:
    lock = consumer._one_call  # pyright: ignore[reportPrivateUsage]
    if lock.acquire(blocking=False):
        lock.release()
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def closes_in_time(close: Callable[[float], object]) -> None:
    began = time.monotonic()
    close(CLOSE_S)
    took = time.monotonic() - began
    assert took < LIMIT_S, f"{took:.1f} s"


WAITING: dict[str, Callable[[Consumer, Place], object]] = {
    "commit": lambda consumer, place: consumer.commit(timeout=PATIENCE_S),
    "committed": lambda consumer, place: consumer.committed(place, timeout=PATIENCE_S),
    "end_offsets": lambda consumer, place: consumer.end_offsets(place, timeout=PATIENCE_S),
    "partitions_for": lambda consumer, place: consumer.partitions_for(place[0], timeout=PATIENCE_S),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_call_that_waits_on_another_thread_ends_with_closed_and_closing_in_time(
    victim: Target, place: Place, group: str, one: ThreadPoolExecutor, name: str
) -> None:
    consumer = Consumer(victim.bootstrap, group_id=group, topics=[place[0]], auto_offset_reset="earliest")
    poll_records(consumer, 1)
    victim.pause()
    waiting = one.submit(WAITING[name], consumer, place)
    wait_until(lambda: is_in_a_call(consumer))

    closes_in_time(consumer.close)
    assert isinstance(waiting.exception(LIMIT_S), Closed)
    with pytest.raises(Closed):
        consumer.poll(0)


def test_closing_does_not_cut_short_what_another_thread_gets_done(
    bootstrap: str, new_topic: NewTopic, group: str, one: ThreadPoolExecutor
) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"x"])
    reads, may_go_on = threading.Event(), threading.Event()

    def slowly(value: bytes) -> bytes:
        reads.set()
        assert may_go_on.wait(PATIENCE_S)
        return value

    consumer = Consumer(bootstrap, auto_offset_reset="earliest", value_deserializer=slowly)
    consumer.assign([(topic, 0)])
    polling = one.submit(poll_records, consumer, 1)
    assert reads.wait(PATIENCE_S)
    with ThreadPoolExecutor(1) as other:
        closing = other.submit(consumer.close)
        may_go_on.set()
        assert [record.value for record in polling.result(PATIENCE_S)] == [b"x"]
        closing.result(PATIENCE_S)


def test_a_listener_that_does_not_return_holds_up_no_close(
    bootstrap: str, new_topic: NewTopic, group: str, one: ThreadPoolExecutor
) -> None:
    heard, may_return = threading.Event(), threading.Event()

    class Slow(RebalanceListener):
        def on_assigned(self, places: Sequence[TopicPartition]) -> None:
            heard.set()
            assert may_return.wait(PATIENCE_S)

    consumer = Consumer(bootstrap, group_id=group)
    consumer.subscribe([new_topic()], listener=Slow())
    polling = one.submit(consumer.poll, PATIENCE_S)
    assert heard.wait(PATIENCE_S)

    closes_in_time(consumer.close)
    may_return.set()
    assert isinstance(polling.exception(LIMIT_S), Closed)


def test_a_listener_that_is_interrupted_ends_the_poll_and_the_consumer_still_leaves_its_group(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    heard: list[str] = []

    class Interrupted(RebalanceListener):
        def on_assigned(self, places: Sequence[TopicPartition]) -> None:
            raise KeyboardInterrupt

        def on_revoked(self, places: Sequence[TopicPartition]) -> None:
            heard.append("revoked")

    consumer = Consumer(bootstrap, group_id=group)
    consumer.subscribe([new_topic()], listener=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(PATIENCE_S)

    closes_in_time(consumer.close)
    assert heard == ["revoked"]
    with Admin(bootstrap) as admin:
        assert list(admin.describe_group(group).members) == []


class SlowToTake(RebalanceListener):
    """A listener on a loop that does not return from an assignment until it may."""

    def __init__(self) -> None:
        self.heard, self.may_return = asyncio.Event(), asyncio.Event()

    async def on_assigned(self, places: Sequence[TopicPartition]) -> None:
        self.heard.set()
        await self.may_return.wait()


def on_a_loop(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def test_on_a_loop_a_listener_that_does_not_return_holds_up_no_close(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic()

    async def work() -> None:
        slow = SlowToTake()
        consumer = aio.Consumer(bootstrap, group_id=group)
        await consumer.subscribe([topic], listener=slow)
        polling = asyncio.create_task(consumer.poll(PATIENCE_S))
        await slow.heard.wait()
        await asyncio.wait_for(consumer.close(CLOSE_S), LIMIT_S)
        slow.may_return.set()
        with pytest.raises(Closed):
            await polling

    on_a_loop(work())


def test_on_a_loop_calls_that_wait_end_with_closed_and_closing_in_time(
    victim: Target, place: Place, group: str
) -> None:
    async def work() -> None:
        consumer = aio.Consumer(
            victim.bootstrap, group_id=group, topics=[place[0]], auto_offset_reset="earliest"
        )
        while not await consumer.poll(1.0):
            pass
        await consumer.seek_to_end(place)
        victim.pause()
        calls: list[Coroutine[Any, Any, object]] = [
            consumer.commit({place: 1}, timeout=PATIENCE_S),
            consumer.end_offsets(place, timeout=PATIENCE_S),
            consumer.partitions_for(place[0], timeout=PATIENCE_S),
            consumer.position(place, timeout=PATIENCE_S),
        ]
        waiting = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0)
        await asyncio.wait_for(consumer.close(CLOSE_S), LIMIT_S)
        raised = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), LIMIT_S)
        assert [type(error) for error in raised] == [Closed] * len(calls), raised

    on_a_loop(work())


def test_a_commit_that_closing_leaves_unanswered_is_told(victim: Target, place: Place, group: str) -> None:
    told: list[tuple[dict[TopicPartition, int], EverlogError | None]] = []
    consumer = Consumer(
        victim.bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([place])
    poll_records(consumer, 1)
    victim.pause()
    consumer.commit_async(
        callback=lambda made, error: told.append(({at: made[at].offset for at in made}, error))
    )
    assert told == []
    consumer.close(CLOSE_S)

    ((offsets, error),) = told
    assert offsets == {TopicPartition(*place): 1}
    assert isinstance(error, Closed)


def test_on_a_loop_a_commit_that_closing_leaves_unanswered_is_told(
    victim: Target, place: Place, group: str
) -> None:
    told: list[EverlogError | None] = []

    async def work() -> None:
        consumer = aio.Consumer(victim.bootstrap, group_id=group, enable_auto_commit=False)
        await consumer.assign([place])
        await consumer.committed(place)
        victim.pause()
        await consumer.commit_async({place: 1}, lambda _, error: told.append(error))
        await consumer.close(CLOSE_S)
        assert [type(error) for error in told] == [Closed]

    on_a_loop(work())


@pytest.mark.parametrize("is_member", [True, False], ids=["member", "assigned"])
def test_closing_without_time_does_not_wait_for_a_broker_that_says_nothing(
    victim: Target, place: Place, group: str, is_member: bool
) -> None:
    consumer = Consumer(victim.bootstrap, group_id=group if is_member else None, auto_offset_reset="earliest")
    if is_member:
        consumer.subscribe([place[0]])
    else:
        consumer.assign([place])
    poll_records(consumer, 1)
    victim.pause()

    began = time.monotonic()
    consumer.close(0)
    assert time.monotonic() - began < GOODBYE_S


def test_a_close_that_is_cancelled_leaves_nothing_running(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic()

    async def work() -> None:
        slow = SlowToTake()
        before = asyncio.all_tasks()
        consumer = aio.Consumer(bootstrap, group_id=group)
        await consumer.subscribe([topic], listener=slow)
        polling = asyncio.create_task(consumer.poll(PATIENCE_S))
        await slow.heard.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.close(PATIENCE_S), 0.1)
        slow.may_return.set()
        with pytest.raises(Closed):
            await polling
        assert asyncio.all_tasks() == before

    on_a_loop(work())
