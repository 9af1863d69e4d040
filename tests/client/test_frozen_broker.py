"""A broker that is there and says nothing: no call waits longer than its settings say, whichever it is."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

from everlog import Admin, Consumer, EverlogError, Producer, TimedOut, aio
from tests.client.freezing import API_MS, LIMIT_S, REQUEST_MS, Place, calls_of, ends, frozen
from tests.client.polling import poll_records
from tests.conformance.target import Target

# Each is made when the consumer has to ask where the end is, at which it is to read.
ASKS: dict[str, Callable[[Any, Place], object]] = {
    "beginning_offsets": lambda consumer, place: consumer.beginning_offsets(place),
    "commit": lambda consumer, place: consumer.commit({place: 1}),
    "committed": lambda consumer, place: consumer.committed(place),
    "end_offsets": lambda consumer, place: consumer.end_offsets(place),
    "lag": lambda consumer, place: consumer.lag(place),
    "offsets_for_times": lambda consumer, place: consumer.offsets_for_times({place: 0}),
    "partitions_for": lambda consumer, place: consumer.partitions_for(place[0]),
    "position": lambda consumer, place: consumer.position(place),
    "topics": lambda consumer, place: consumer.topics(),
}
POLLS: dict[str, Callable[[Any], object]] = {
    "poll": lambda consumer: consumer.poll(0.2),
    "poll_arrow": lambda consumer: consumer.poll_arrow(0.2),
    "take_chunks": lambda consumer: consumer.take_chunks(0.2),
}
PARTS: dict[str, Callable[[Any], object]] = {
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "close": lambda consumer: consumer.close(),
}
# One after the other, of a consumer that was assigned the partition.
ASKS_NOBODY: dict[str, Callable[[Any, Place], object]] = {
    "assignment": lambda consumer, place: consumer.assignment(),
    "commit_async": lambda consumer, place: consumer.commit_async({place: 1}),
    "group_metadata": lambda consumer, place: consumer.group_metadata(),
    "metrics": lambda consumer, place: consumer.metrics(),
    "pause": lambda consumer, place: consumer.pause(place),
    "paused": lambda consumer, place: consumer.paused(),
    "resume": lambda consumer, place: consumer.resume(place),
    "seek": lambda consumer, place: consumer.seek(place, 1),
    "seek_to_beginning": lambda consumer, place: consumer.seek_to_beginning(place),
    "seek_to_end": lambda consumer, place: consumer.seek_to_end(place),
    "seek_to_time": lambda consumer, place: consumer.seek_to_time(0, place),
    "subscription": lambda consumer, place: consumer.subscription(),
    "wakeup": lambda consumer, place: consumer.wakeup(),
    "assign": lambda consumer, place: consumer.assign([]),
    "subscribe": lambda consumer, place: consumer.subscribe([place[0]]),
}


@pytest.mark.parametrize("kind", [Consumer, aio.Consumer])
def test_every_call_of_a_consumer_has_its_entry(kind: type) -> None:
    of_the_other_face = {"take_in"}
    entered = [*ASKS, *POLLS, *PARTS, *ASKS_NOBODY]
    assert calls_of(kind) - of_the_other_face == set(entered) - {"close"}
    assert len(entered) == len(set(entered))


@pytest.mark.parametrize(
    ("name", "protocol"),
    [*((name, "classic") for name in ASKS), ("commit", "consumer"), ("committed", "consumer")],
)
def test_a_call_of_a_consumer_ends_in_its_time_with_one_of_our_errors(
    sleeper: Target, place: Place, name: str, protocol: Any
) -> None:
    with member(sleeper, place, protocol) as consumer:

        def work() -> None:
            consumer.seek_to_end(place)
            ASKS[name](consumer, place)

        error = ends(sleeper, work)
        assert error is not None
        assert error.retriable


def test_a_call_of_a_consumer_that_asks_nobody_just_returns(sleeper: Target, place: Place) -> None:
    with consumer_of(sleeper.bootstrap, group_id=f"group-{time.monotonic_ns()}") as consumer:
        consumer.assign([place])
        poll_records(consumer, 10)
        assert ends(sleeper, lambda: [call(consumer, place) for call in ASKS_NOBODY.values()]) is None


def test_a_commit_that_was_not_answered_is_counted(sleeper: Target, place: Place) -> None:
    with member(sleeper, place, "classic", enable_auto_commit=False) as consumer:
        made = consumer.metrics()["commits"]
        assert isinstance(ends(sleeper, consumer.commit), TimedOut)
        assert consumer.metrics()["commit_failures"] == 1
        assert consumer.metrics()["commits"] == made


def test_the_list_of_topics_has_the_time_of_a_call_and_not_of_a_request(
    sleeper: Target, place: Place
) -> None:
    patient: dict[str, Any] = {"request_timeout_ms": 30_000}
    with (
        Consumer(sleeper.bootstrap, default_api_timeout_ms=API_MS, **patient) as hurried,
        Consumer(sleeper.bootstrap, **patient) as given,
    ):
        assert place[0] in hurried.topics()
        assert place[0] in given.topics()
        assert isinstance(ends(sleeper, hurried.topics), TimedOut)
        assert isinstance(ends(sleeper, lambda: given.topics(timeout=API_MS / 1000)), TimedOut)


@pytest.mark.parametrize("name", POLLS)
def test_a_poll_of_either_kind_ends_in_its_time(sleeper: Target, place: Place, name: str) -> None:
    with member(sleeper, place, "classic") as consumer:
        assert ends(sleeper, lambda: POLLS[name](consumer)) is None


@pytest.mark.parametrize("name", [*ASKS, *POLLS, *PARTS])
def test_a_call_on_a_loop_ends_in_its_time_with_one_of_our_errors(
    sleeper: Target, place: Place, name: str
) -> None:
    async def work() -> None:
        consumer = on_a_loop(sleeper, topics=[place[0]])
        while not await consumer.poll(1.0):
            pass
        with frozen(sleeper):
            async with asyncio.timeout(LIMIT_S):
                await consumer.seek_to_end(place)
                if name in ASKS:
                    with pytest.raises(EverlogError) as caught:
                        await awaited(ASKS[name](consumer, place))
                    assert caught.value.retriable
                elif name in POLLS:
                    found = await awaited(POLLS[name](consumer))
                    assert len(found) == 0
                else:
                    await awaited(PARTS[name](consumer))
        await consumer.close()

    asyncio.run(work())


def test_a_call_on_a_loop_that_asks_nobody_just_returns(sleeper: Target, place: Place) -> None:
    async def work() -> None:
        async with on_a_loop(sleeper) as consumer:
            await consumer.assign([place])
            while not await consumer.poll(1.0):
                pass
            with frozen(sleeper):
                async with asyncio.timeout(LIMIT_S):
                    for call in ASKS_NOBODY.values():
                        await awaited(call(consumer, place))

    asyncio.run(work())


async def awaited(outcome: object) -> Any:
    """What a call gives on either face."""
    return await outcome if inspect.isawaitable(outcome) else outcome


def on_a_loop(target: Target, **options: Any) -> aio.Consumer:
    return aio.Consumer(
        target.bootstrap,
        group_id=f"group-{time.monotonic_ns()}",
        auto_offset_reset="earliest",
        default_api_timeout_ms=API_MS,
        request_timeout_ms=REQUEST_MS,
        **options,
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "does not commit"])
def test_a_member_parts_with_its_group_in_its_time(
    sleeper: Target, place: Place, protocol: Any, commits: bool
) -> None:
    leaving, closing = (member(sleeper, place, protocol, enable_auto_commit=commits) for _ in range(2))
    ends(sleeper, leaving.unsubscribe)
    assert leaving.assignment() == set()
    ends(sleeper, closing.close)
    assert ends(sleeper, leaving.close) is None


def test_a_consumer_without_a_group_closes_at_once(sleeper: Target, place: Place) -> None:
    consumer = Consumer(sleeper.bootstrap, auto_offset_reset="earliest")
    consumer.assign([place])
    poll_records(consumer, 10)
    assert ends(sleeper, consumer.close) is None


AT_FIRST: dict[str, Callable[[str], object]] = {
    "Consumer": lambda bootstrap: consumer_of(bootstrap).topics(),
    "Producer": lambda bootstrap: Producer(bootstrap, max_block_ms=API_MS).send("any", b"x"),
    "Admin": lambda bootstrap: Admin(
        bootstrap, request_timeout_ms=REQUEST_MS, default_api_timeout_ms=API_MS
    ).list_topics(),
}


@pytest.mark.parametrize("name", AT_FIRST)
def test_the_first_call_of_a_client_ends_in_its_time(sleeper: Target, name: str) -> None:
    assert ends(sleeper, lambda: AT_FIRST[name](sleeper.bootstrap)) is not None


def member(target: Target, place: Place, protocol: Any, **options: Any) -> Consumer:
    """A member of a group of its own that has read all there is."""
    consumer = consumer_of(
        target.bootstrap,
        group_id=f"group-{protocol}-{time.monotonic_ns()}",
        group_protocol=protocol,
        topics=[place[0]],
        **options,
    )
    poll_records(consumer, 10)
    return consumer


def consumer_of(bootstrap: str, **options: Any) -> Consumer:
    return Consumer(
        bootstrap,
        auto_offset_reset="earliest",
        default_api_timeout_ms=API_MS,
        request_timeout_ms=REQUEST_MS,
        **options,
    )
