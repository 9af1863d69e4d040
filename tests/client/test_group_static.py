"""Static members: a restart within the session disturbs nobody, and a name has one bearer (C3)."""

import asyncio

import pytest

from everlog import ErrorCode, Refused
from everlog.aio import Consumer
from tests.client.conftest import NewTopic
from tests.client.group_members import WAYS, members, on_a_loop, shared, until

every_way = pytest.mark.parametrize("way", WAYS)


@every_way
@on_a_loop
async def test_c3_a_static_member_that_is_back_in_time_disturbs_nobody(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        stays = await group.join(topic, group_instance_id="a", **WAYS[way])
        restarts = await group.join(topic, group_instance_id="b", **WAYS[way])
        await until(lambda: shared(4, stays, restarts), stays, restarts)
        had, seen = restarts.has, list(stays.events)

        await restarts.stop()
        again = await group.join(topic, group_instance_id="b", **WAYS[way])

        await until(lambda: again.has == had, again, stays)
        # What the other heard of a rebalance, if anything, took nothing from it.
        assert [event for event in stays.events[len(seen) :] if event[1]] == []
        assert shared(4, stays, again)


@pytest.mark.parametrize("way", ["range", "cooperative"])
@on_a_loop
async def test_c3_a_second_member_of_the_same_name_fences_the_first(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic(2)
    async with members(bootstrap) as group:
        first = await group.join(topic, group_instance_id="a", **WAYS[way])
        await until(lambda: shared(2, first), first)

        second = await group.join(topic, group_instance_id="a", **WAYS[way])

        await until(lambda: first.error is not None)
        assert isinstance(first.error, Refused)
        assert first.error.code is ErrorCode.FENCED_INSTANCE_ID
        await until(lambda: shared(2, second), second)
        # It does not take the name back, however often it is polled.
        for _ in range(3):
            with pytest.raises(Refused, match="instance id 'a'"):
                await poll_for_ever(first.consumer)
        assert second.error is None
        assert shared(2, second)


async def poll_for_ever(consumer: Consumer) -> None:
    """Poll until it raises."""
    async with asyncio.timeout(60):
        while True:
            await consumer.poll(0.1)


@on_a_loop
async def test_c3_a_name_in_use_is_refused_by_the_consumer_protocol(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    async with members(bootstrap) as group:
        first = await group.join(topic, group_instance_id="a", **WAYS["consumer"])
        await until(lambda: shared(2, first), first)

        second = await group.join(topic, group_instance_id="a", **WAYS["consumer"])

        await until(lambda: second.error is not None, first)
        assert isinstance(second.error, Refused)
        assert second.error.code is ErrorCode.UNRELEASED_INSTANCE_ID
        assert shared(2, first)


@on_a_loop
async def test_c3_an_assignor_that_the_broker_does_not_have_is_refused(
    bootstrap: str, new_topic: NewTopic
) -> None:
    async with members(bootstrap) as group:
        reader = await group.join(new_topic(), group_remote_assignor="no-such", **WAYS["consumer"])

        await until(lambda: reader.error is not None)
        assert isinstance(reader.error, Refused)
        assert reader.error.code is ErrorCode.UNSUPPORTED_ASSIGNOR


@on_a_loop
async def test_c3_the_broker_shares_out_in_ranges_if_asked(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        readers = [
            await group.join(topic, group_remote_assignor="range", **WAYS["consumer"]) for _ in range(2)
        ]

        await until(
            lambda: {each.has for each in readers} == {frozenset({0, 1}), frozenset({2, 3})}, *readers
        )


@on_a_loop
async def test_c3_members_without_a_common_assignor_do_not_mix(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    async with members(bootstrap) as group:
        first = await group.join(topic, partition_assignment_strategy="range")
        await until(lambda: shared(2, first), first)

        second = await group.join(topic, partition_assignment_strategy="roundrobin")

        await until(lambda: second.error is not None, first)
        assert isinstance(second.error, Refused)
        assert second.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert "'roundrobin'" in str(second.error)


@on_a_loop
async def test_c3_a_group_moves_from_eager_to_cooperative_one_member_at_a_time(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(4)
    both = ["range", "cooperative-sticky"]
    async with members(bootstrap) as group:
        readers = [await group.join(topic, partition_assignment_strategy="range") for _ in range(2)]
        await until(lambda: shared(4, *readers), *readers)
        for strategy in (both, both, "cooperative-sticky", "cooperative-sticky"):
            old = readers.pop(0)
            await old.stop()
            readers.append(await group.join(topic, partition_assignment_strategy=strategy))
            await until(lambda: shared(4, *readers), *readers)

        one, other = readers
        kept = one.has
        await other.stop()
        await until(lambda: shared(4, one), one)
        assert not any(kind == "revoked" and places & kept for kind, places in one.events[-2:])
