"""What goes wrong in groups: slow members, listeners that raise, brokers that do not answer (C2-C5)."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from everlog import (
    ConfigError,
    EverlogError,
    Misused,
    OffsetAndMetadata,
    Refused,
    TimedOut,
    TopicPartition,
    Unreachable,
)
from everlog.aio import Consumer
from everlog.client.core.coordinators import CoordinatorKind
from everlog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.client.conftest import NewTopic, topic_maker
from tests.client.group_members import WAYS, Reader, a_group, members, on_a_loop, shared, until
from tests.client.log_writing import write
from tests.conformance.target import Target

every_way = pytest.mark.parametrize("way", WAYS)


@on_a_loop
async def test_c5_offsets_are_to_be_had_while_a_join_waits_for_a_slow_member(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        quick, slow = await group.join(topic, **WAYS["range"]), await group.join(topic, **WAYS["range"])
        await until(lambda: shared(4, quick, slow), quick, slow)
        had = quick.has
        await slow.idle()
        third = await group.join(topic, **WAYS["range"])
        await until(lambda: quick.events[-1] == ("revoked", had), quick)

        # The coordinator answers nothing on the connection on which `quick` waits to have joined.
        place = TopicPartition(topic, 0)
        assert place in await quick.consumer.committed(place, timeout=20)
        await quick.consumer.commit({place: OffsetAndMetadata(0, "mine")}, timeout=20)

        slow.go_on()
        await until(lambda: shared(4, quick, slow, third), quick, slow, third)


@on_a_loop
async def test_c4_a_member_that_the_broker_forgot_finds_its_offsets_and_joins_again(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    async with members(bootstrap) as group:
        reader = await group.join(topic, **WAYS["consumer"])
        await until(lambda: shared(2, reader), reader)
        consumer = reader.consumer

        # As if its session had run out: somebody says in its name that it leaves.
        leave = ConsumerGroupHeartbeatRequest(
            group_id=group.group, member_id=consumer.group_metadata().member_id, member_epoch=-1
        )
        left = await consumer.reading.link.call_coordinator(
            CoordinatorKind.GROUP, group.group, leave, ConsumerGroupHeartbeatResponse
        )
        assert left.error_code == 0
        found = await consumer.committed(TopicPartition(topic, 0))

        assert found == {TopicPartition(topic, 0): None}
        await until(lambda: reader.events[-1] == ("assigned", frozenset({0, 1})), reader)
        assert ("lost", frozenset({0, 1})) in reader.events


@every_way
@on_a_loop
async def test_c3_offsets_are_committed_before_partitions_go_to_another(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic(2)
    for partition in range(2):
        write(bootstrap, topic, [b"%d" % number for number in range(50)], partition=partition)
    async with members(bootstrap) as group:
        options: dict[str, Any] = {"auto_commit_interval_ms": 3_600_000, **WAYS[way]}
        first = await group.join(topic, **options)
        await until(lambda: len(first.values) == 100, first)

        second = await group.join(topic, **options)
        await until(lambda: shared(2, first, second), first, second)
        for partition in range(2):
            await asyncio.to_thread(write, bootstrap, topic, [b"new"], partition=partition)
        await until(lambda: len(first.values) + len(second.values) >= 102, first, second)

        assert second.values == [b"new"], "what the first has read is not read again"


class Failing(Reader):
    """Its listener raises when it is told what is revoked."""

    def on_revoked(self, places: Sequence[TopicPartition]) -> None:
        super().on_revoked(places)
        raise RuntimeError("the application's own mistake")


@every_way
@on_a_loop
async def test_c3_a_listener_that_raises_is_heard_of_and_the_group_goes_on(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic(2)
    async with members(bootstrap) as group:
        first = Failing(bootstrap, group.group, [topic], **WAYS[way])
        await first.consumer.subscribe([topic], listener=first)
        while not shared(2, first):
            await first.consumer.poll(0.1)
        second = await group.join(topic, **WAYS[way])

        with pytest.raises(RuntimeError, match="own mistake"):
            await poll_for_ever(first.consumer)

        async with asyncio.timeout(60):
            while not shared(2, first, second):
                await first.consumer.poll(0.1)
        first.consumer.reading.subscribe([topic], None, None)
        await first.stop()


@every_way
@on_a_loop
async def test_c2_a_group_that_cannot_be_reached_is_told_of_and_tried_again(
    victim: Target, fresh_topic: Callable[[], str], way: str
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)()
    await asyncio.to_thread(victim.kill)
    options: dict[str, Any] = {
        "default_api_timeout_ms": 1_000,
        "request_timeout_ms": 1_000,
        "auto_offset_reset": "earliest",
        **WAYS[way],
    }
    async with Consumer(victim.bootstrap, group_id=a_group(), topics=[topic], **options) as consumer:
        with pytest.raises(EverlogError) as told:
            await poll_for_ever(consumer)
        assert told.value.retriable

        await asyncio.to_thread(victim.start)
        await asyncio.to_thread(write, victim.bootstrap, topic, [b"x"])
        found: list[bytes] = []
        async with asyncio.timeout(60):
            while not found:
                with suppress(Unreachable, TimedOut):
                    found = [record.value for record in await consumer.poll(0.5)]
        assert found == [b"x"]


@pytest.mark.parametrize("given", ["no-such", ["range", "range"], []])
def test_c3_an_assignor_that_does_not_exist_is_refused_when_a_consumer_is_made(given: Any) -> None:
    with pytest.raises(ConfigError, match="partition_assignment_strategy"):
        Consumer("127.0.0.1:1", group_id="g", partition_assignment_strategy=given)


@on_a_loop
async def test_c2_a_pattern_that_the_broker_cannot_read_is_refused(bootstrap: str) -> None:
    """RE2, by which the broker matches, has no lookahead."""
    async with Consumer(bootstrap, group_id=a_group(), group_protocol="consumer") as consumer:
        await consumer.subscribe(pattern="(?=a).*")

        with pytest.raises(Refused, match="INVALID_REGULAR_EXPRESSION"):
            await poll_for_ever(consumer)


@on_a_loop
async def test_c2_a_pattern_that_only_the_broker_can_read_is_its_to_match(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    pattern = rf"\pL\Q{topic[1:]}\E"
    async with Consumer(bootstrap, group_id=a_group(), group_protocol="consumer") as consumer:
        await consumer.subscribe(pattern=pattern)
        async with asyncio.timeout(60):
            while not consumer.assignment():
                await consumer.poll(0.1)
        assert consumer.subscription() == {topic}
    async with Consumer(bootstrap, group_id=a_group()) as classic:
        with pytest.raises(Misused, match="is not a regular expression"):
            await classic.subscribe(pattern=pattern)


async def poll_for_ever(consumer: Consumer) -> None:
    """Poll until it raises."""
    async with asyncio.timeout(60):
        while True:
            await consumer.poll(0.1)
