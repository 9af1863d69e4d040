"""Groups: members share partitions, and take over from those who go or die (C2-C4)."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

import everlog.aio
from everlog import AssignedMember, ErrorCode, OffsetAndMetadata, RebalanceProtocol, Refused, TopicPartition
from everlog.aio import Consumer
from everlog.client.core.group.assignors import Layout
from tests.client.conftest import NewTopic, topic_maker
from tests.client.group_members import PATIENCE_S, WAYS, a_group, members, on_a_loop, shared, until
from tests.client.log_writing import write
from tests.conformance.target import Target

NUMBERS = [b"%d" % number for number in range(60)]

every_way = pytest.mark.parametrize("way", WAYS)
ASSIGNORS = {
    **WAYS,
    "roundrobin": {"partition_assignment_strategy": "roundrobin"},
    "sticky": {"partition_assignment_strategy": "sticky"},
}


@pytest.mark.parametrize("way", ASSIGNORS)
@on_a_loop
async def test_c2_members_share_partitions_and_every_record_is_read_by_one(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic(6)
    async with members(bootstrap) as group:
        readers = [await group.join(topic, **ASSIGNORS[way]) for _ in range(3)]
        await until(lambda: shared(6, *readers), *readers)

        for partition in range(6):
            values = NUMBERS[partition * 10 : partition * 10 + 10]
            await asyncio.to_thread(write, bootstrap, topic, values, partition=partition)
        await until(lambda: sum(len(each.values) for each in readers) >= 60, *readers)

        assert sorted(value for each in readers for value in each.values) == sorted(NUMBERS)


@every_way
@on_a_loop
async def test_c3_who_leaves_is_replaced_at_once(bootstrap: str, new_topic: NewTopic, way: str) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        stays = await group.join(topic, session_timeout_ms=300_000, **WAYS[way])
        leaves = await group.join(topic, session_timeout_ms=300_000, **WAYS[way])
        await until(lambda: shared(4, stays, leaves), stays, leaves)

        await leaves.stop()

        await until(lambda: shared(4, stays), stays)
        assert leaves.events[-1][0] == "revoked"


@every_way
@on_a_loop
async def test_c4_who_dies_is_replaced_when_its_session_runs_out(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic(4)
    write(bootstrap, topic, NUMBERS[:10], partition=0)
    async with members(bootstrap) as group:
        stays = await group.join(topic, session_timeout_ms=2_000, **WAYS[way])
        dies = await group.join(topic, session_timeout_ms=2_000, **WAYS[way])
        await until(lambda: shared(4, stays, dies), stays, dies)

        await dies.die()

        await until(lambda: shared(4, stays), stays)


@pytest.mark.parametrize("way", ["cooperative", "consumer"])
@on_a_loop
async def test_c3_members_keep_what_stays_theirs(bootstrap: str, new_topic: NewTopic, way: str) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        first = await group.join(topic, **WAYS[way])
        await until(lambda: shared(4, first), first)
        second = await group.join(topic, **WAYS[way])
        await until(lambda: shared(4, first, second), first, second)

        revoked = [places for kind, places in first.events if kind == "revoked"]
        assert revoked == [second.has]
        assert not any(kind == "lost" for kind, _ in first.events + second.events)


@on_a_loop
async def test_c3_sticky_members_get_back_what_they_gave_up(bootstrap: str, new_topic: NewTopic) -> None:
    """Whoever leads has it from the others' own words, and neither range nor roundrobin would do so here."""
    topic = new_topic(6)
    async with members(bootstrap) as group:
        readers = [await group.join(topic, **ASSIGNORS["sticky"]) for _ in range(3)]
        await until(lambda: shared(6, *readers), *readers)
        leaves = next(reader for reader in readers if 0 in reader.has)
        stay = [reader for reader in readers if reader is not leaves]
        had = [reader.has for reader in stay]

        await leaves.stop()

        await until(lambda: shared(6, *stay), *stay)
        assert [reader.has >= before for reader, before in zip(stay, had, strict=True)] == [True, True]
        assert [reader.events[-2] for reader in stay] == [("revoked", before) for before in had]


@on_a_loop
async def test_c3_an_eager_member_gives_up_all_before_it_gets_anything(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        first = await group.join(topic, **WAYS["range"])
        await until(lambda: shared(4, first), first)
        second = await group.join(topic, **WAYS["range"])
        await until(lambda: shared(4, first, second), first, second)

        assert first.events[:2] == [("assigned", frozenset(range(4))), ("revoked", frozenset(range(4)))]
        assert first.events[-1] == ("assigned", first.has)
        assert [kind for kind, _ in second.events] == ["assigned"]


@every_way
@on_a_loop
async def test_c4_an_application_that_does_not_poll_loses_its_partitions_and_comes_back(
    bootstrap: str, new_topic: NewTopic, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        busy = await group.join(topic, max_poll_interval_ms=2_000, enable_auto_commit=False, **WAYS[way])
        other = await group.join(topic, **WAYS[way])
        await until(lambda: shared(4, busy, other), busy, other)

        await busy.idle()
        await until(lambda: shared(4, other), other)

        assert "max_poll_interval_ms=2000" in caplog.text
        with pytest.raises(Refused) as refused:
            await busy.consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        busy.go_on()
        await until(lambda: shared(4, busy, other), busy, other)
        assert "lost" in [kind for kind, _ in busy.events]
        assert "lost" not in [kind for kind, _ in other.events]


@pytest.mark.parametrize("tells_lost", [True, False])
def test_c4_a_blocking_listener_hears_on_the_thread_that_polls_what_was_lost(
    bootstrap: str, new_topic: NewTopic, tells_lost: bool
) -> None:
    """A listener that knows of no losses is told that they are revoked."""
    topic, group = new_topic(), a_group()
    heard: list[tuple[str, int, int]] = []

    def hear(what: str) -> Callable[[Sequence[TopicPartition]], None]:
        return lambda places: heard.append((what, len(places), threading.get_ident()))

    listener = SimpleNamespace(on_assigned=hear("assigned"), on_revoked=hear("revoked"))
    if tells_lost:
        listener.on_lost = hear("lost")
    options: dict[str, Any] = {"max_poll_interval_ms": 1_000, "heartbeat_interval_ms": 200}
    with (
        everlog.Consumer(bootstrap, group_id=group, **options) as consumer,
        everlog.Admin(bootstrap) as admin,
    ):
        consumer.subscribe([topic], listener=cast(everlog.RebalanceListener, listener))
        deadline = time.monotonic() + PATIENCE_S
        while not heard:
            consumer.poll(0.1)
            assert time.monotonic() < deadline
        while admin.describe_groups([group])[group].members:  # It is busy until the group goes on without it.
            assert time.monotonic() < deadline
        while len(heard) < 3:
            consumer.poll(0.1)
            assert time.monotonic() < deadline

    here = threading.get_ident()
    lost = "lost" if tells_lost else "revoked"
    assert heard[:3] == [("assigned", 1, here), (lost, 1, here), ("assigned", 1, here)]


@every_way
@on_a_loop
async def test_c4_a_long_wait_for_records_is_no_sign_of_death(
    bootstrap: str, new_topic: NewTopic, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    async with members(bootstrap) as group:
        reader = await group.join(topic, **WAYS[way])
        await until(lambda: shared(1, reader), reader)
        options: dict[str, Any] = {"max_poll_interval_ms": 2_000, "heartbeat_interval_ms": 200, **WAYS[way]}
        # One partition: the second has nothing to read, and nothing ends its wait.
        async with Consumer(bootstrap, group_id=group.group, topics=[topic], **options) as waits:
            assert await waits.poll(7.0) == []
            await reader.stop()
            async with asyncio.timeout(PATIENCE_S):
                while not waits.assignment():
                    assert await waits.poll(1.0) == []
    assert "max_poll_interval_ms" not in caplog.text


@every_way
def test_c4_heartbeats_go_on_while_the_application_works(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic(2)
    options: dict[str, Any] = {
        "session_timeout_ms": 2_000,
        "heartbeat_interval_ms": 200,
        "auto_offset_reset": "earliest",
        **WAYS[way],
    }
    write(bootstrap, topic, [b"x"])
    with everlog.Consumer(bootstrap, group_id=a_group(), topics=[topic], **options) as consumer:
        deadline = time.monotonic() + 60
        while not consumer.poll(0.5):
            assert time.monotonic() < deadline
        before = consumer.group_metadata()
        threading.Event().wait(5)  # Longer than the session: the application is busy with what it got.
        consumer.poll(0.1)
        consumer.commit()

        assert consumer.group_metadata() == before


@every_way
@on_a_loop
async def test_c2_a_topic_that_grows_is_shared_out_anew(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic(2)
    async with members(bootstrap) as group:
        readers = [await group.join(topic, metadata_max_age_ms=300, **WAYS[way]) for _ in range(2)]
        await until(lambda: shared(2, *readers), *readers)

        async with everlog.aio.Admin(bootstrap) as admin:
            await admin.create_partitions({topic: 4})

        await until(lambda: shared(4, *readers), *readers)


@every_way
@on_a_loop
async def test_c2_a_pattern_finds_topics_that_come_later(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    first = new_topic()
    prefix = first[:8]
    async with members(bootstrap) as group:
        reader = await group.join(pattern=f"{prefix}.*", metadata_max_age_ms=300, **WAYS[way])
        await until(lambda: reader.consumer.subscription() == {first}, reader)

        later = topic_maker(bootstrap, lambda: f"{prefix}-later")()
        await asyncio.to_thread(write, bootstrap, later, [b"x"])

        await until(lambda: reader.consumer.subscription() == {first, later}, reader)
        await until(lambda: reader.values == [b"x"], reader)


@every_way
@on_a_loop
async def test_c2_a_topic_that_does_not_exist_yet_is_read_once_it_does(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    there = new_topic()
    missing = f"{there}-missing"
    async with members(bootstrap) as group:
        reader = await group.join(there, missing, allow_auto_create_topics=False, **WAYS[way])
        await until(lambda: len(reader.consumer.assignment()) == 1, reader)

        topic_maker(bootstrap, lambda: missing)()

        await until(lambda: len(reader.consumer.assignment()) == 2, reader)


@every_way
@on_a_loop
async def test_c2_a_new_subscription_takes_the_place_of_the_old(
    bootstrap: str, new_topic: NewTopic, way: str
) -> None:
    old, new = new_topic(2), new_topic(3)
    async with members(bootstrap) as group:
        reader = await group.join(old, **WAYS[way])
        await until(lambda: shared(2, reader), reader)

        await reader.consumer.subscribe([new], listener=reader)

        await until(lambda: shared(3, reader), reader)
        assert {place.topic for place in reader.consumer.assignment()} == {new}
        assert ("revoked", frozenset({0, 1})) in reader.events


@every_way
@on_a_loop
async def test_c2_who_unsubscribes_can_subscribe_again(bootstrap: str, new_topic: NewTopic, way: str) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        stays, comes_back = await group.join(topic, **WAYS[way]), await group.join(topic, **WAYS[way])
        await until(lambda: shared(4, stays, comes_back), stays, comes_back)

        await comes_back.idle()
        await comes_back.consumer.unsubscribe()
        assert comes_back.has == frozenset()
        await until(lambda: shared(4, stays), stays)
        await comes_back.consumer.subscribe([topic], listener=comes_back)
        comes_back.go_on()

        await until(lambda: shared(4, stays, comes_back), stays, comes_back)


@every_way
@on_a_loop
async def test_c2_a_group_survives_a_restart_of_its_coordinator(
    victim: Target, fresh_topic: Any, way: str
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(4)
    write(victim.bootstrap, topic, NUMBERS[:10], partition=0)
    async with members(victim.bootstrap) as group:
        readers = [await group.join(topic, **WAYS[way]) for _ in range(2)]
        await until(lambda: shared(4, *readers), *readers)
        await until(lambda: sum(len(each.values) for each in readers) >= 10, *readers)

        await asyncio.to_thread(victim.kill)
        await asyncio.to_thread(victim.start)
        await asyncio.to_thread(write, victim.bootstrap, topic, NUMBERS[10:20], partition=1)

        await until(lambda: sum(len(each.values) for each in readers) >= 20, *readers)
        await until(lambda: shared(4, *readers), *readers)
        assert {value for each in readers for value in each.values} == set(NUMBERS[:20])


class EverythingToTheFirst:
    """An assignor of an application's own."""

    name = "everything-to-the-first"
    protocols = (RebalanceProtocol.EAGER,)

    def assign(
        self, members: Mapping[str, AssignedMember], topics: Layout
    ) -> Mapping[str, list[TopicPartition]]:
        places = [TopicPartition(topic, at) for topic, racks in topics.items() for at in range(len(racks))]
        return {min(members): places}


@on_a_loop
async def test_c3_an_application_may_bring_an_assignor_of_its_own(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(4)
    mine = EverythingToTheFirst()
    async with members(bootstrap) as group:
        readers = [await group.join(topic, partition_assignment_strategy=mine) for _ in range(2)]

        await until(lambda: sorted(len(each.has) for each in readers) == [0, 4], *readers)
        await until(lambda: all(("assigned", each.has) in each.events for each in readers), *readers)
