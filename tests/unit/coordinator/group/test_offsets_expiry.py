"""Offsets, and groups without any, go when nobody has needed them for long enough (C5)."""

import pytest

from everlog.coordinator.group.shard import GroupShard
from everlog.coordinator.machine import ProducerStamp
from everlog.model.errors import StorageError
from everlog.model.ids import Timestamp, Uuid
from tests.unit.coordinator.group.groups import (
    MadeUpGroup,
    a_shard,
    committed,
    new_offset,
    offset_of,
)
from tests.unit.coordinator.worlds import World, a_topic, an_image

MINUTE = 60_000
CHECK = 10 * MINUTE
WEEK = 7 * 24 * 60 * MINUTE


@pytest.fixture
def world() -> World:
    return World(a_topic("orders", 4), a_topic("refunds", 4))


def wait(world: World, shard: GroupShard, ms: int) -> None:
    """Let time pass, with every tick that the shard asks for on the way."""
    end = world.clock.now() + ms
    while True:
        deadline = shard.deadline()
        if deadline is None or deadline > end:
            break
        world.clock.advance(deadline - world.clock.now())
        shard.tick(world.clock.now())
    world.clock.advance(end - world.clock.now())


def test_an_offset_that_no_member_needs_goes_a_week_after_its_commit(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))

    wait(world, shard, WEEK - CHECK)
    assert offset_of(shard, "g") == 3
    wait(world, shard, 2 * CHECK)

    for one in (shard, a_shard(world)):
        assert offset_of(one, "g") is None
        assert one.group("g") is None


def test_a_commit_begins_the_week_anew(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3), new_offset(world, "orders", 1, 3))
    wait(world, shard, WEEK // 2)
    committed(shard, "g", new_offset(world, "orders", 0, 4))

    wait(world, shard, WEEK // 2 + CHECK)

    assert (offset_of(shard, "g"), offset_of(shard, "g", partition=1)) == (4, None)


def test_the_week_counts_over_a_restart(world: World) -> None:
    committed(a_shard(world), "g", new_offset(world, "orders", 0, 3))
    world.clock.advance(WEEK)

    shard = a_shard(world)
    assert offset_of(shard, "g") == 3
    wait(world, shard, CHECK)

    assert offset_of(shard, "g") is None


def test_an_offset_of_a_topic_that_a_member_reads_stays_for_ever(world: World) -> None:
    shard = a_shard(world)
    shard.groups.put(MadeUpGroup("g", members=("m",), topics=("orders",)))
    committed(shard, "g", new_offset(world, "orders", 0, 3), new_offset(world, "refunds", 0, 4))

    wait(world, shard, 2 * WEEK)

    assert (offset_of(shard, "g"), offset_of(shard, "g", "refunds")) == (3, None)


def test_a_group_that_lost_its_members_keeps_its_offsets_for_a_week_from_then(world: World) -> None:
    shard = a_shard(world)
    group = MadeUpGroup("g", members=("m",), topics=("orders",))
    shard.groups.put(group)
    committed(shard, "g", new_offset(world, "orders", 0, 3))
    wait(world, shard, WEEK)
    group.members, group.empty_since = (), world.clock.wall()

    wait(world, shard, WEEK - CHECK)
    assert offset_of(shard, "g") == 3
    wait(world, shard, 2 * CHECK)

    assert offset_of(shard, "g") is None


def test_an_offset_set_in_a_group_that_is_long_empty_is_kept_for_its_week(world: World) -> None:
    shard = a_shard(world)
    group = MadeUpGroup("g")
    group.empty_since = Timestamp(world.clock.wall() - 2 * WEEK)
    shard.groups.put(group)
    committed(shard, "g", new_offset(world, "orders", 0, 3))

    wait(world, shard, 2 * CHECK)

    assert offset_of(shard, "g") == 3


def test_a_commit_that_says_how_long_it_is_good_for_goes_then(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3), retention_ms=30 * MINUTE)
    shard = a_shard(world)

    wait(world, shard, 29 * MINUTE)
    assert offset_of(shard, "g") == 3
    wait(world, shard, 11 * MINUTE)

    assert offset_of(shard, "g") is None


def test_an_offset_that_a_transaction_is_about_to_change_stays(world: World) -> None:
    shard = a_shard(world)
    producer = ProducerStamp(1, 0)
    committed(shard, "g", new_offset(world, "orders", 0, 3))
    committed(shard, "g", new_offset(world, "orders", 0, 8), producer=producer)

    wait(world, shard, WEEK + CHECK)
    world.journal.mark(shard.machine, producer, commit=False)

    assert offset_of(shard, "g") == 3


def test_an_empty_group_without_offsets_goes_with_a_tombstone(world: World) -> None:
    shard = a_shard(world)
    group = MadeUpGroup("g", members=("m",))
    shard.groups.put(group)

    wait(world, shard, CHECK)
    assert world.journal.record_count == 0
    group.members, group.empty_since = (), world.clock.wall()
    wait(world, shard, CHECK)

    assert [key[:2] for key, _ in world.journal.batches[0].records] == [b"\x00\x02"]


def test_a_group_that_keeps_an_offset_is_kept(world: World) -> None:
    shard = a_shard(world)
    shard.groups.put(MadeUpGroup("g"))
    committed(shard, "g", new_offset(world, "orders", 0, 3))

    wait(world, shard, 3 * CHECK)

    assert world.journal.record_count == 1


def test_the_retention_is_the_setting(world: World) -> None:
    world = World(
        a_topic("orders"), offsets_retention_minutes="5", offsets_retention_check_interval_ms="1000"
    )
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))

    wait(world, shard, 5 * MINUTE - 1)
    assert offset_of(shard, "g") == 3
    wait(world, shard, 1001)

    assert offset_of(shard, "g") is None


def test_an_offset_of_a_topic_that_is_no_more_goes_at_the_next_look(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))
    world.image = an_image(a_topic("orders", 4, Uuid(b"n" * 16)))

    wait(world, shard, CHECK)

    assert not shard.offsets.knows("g")
    assert not a_shard(world).offsets.knows("g")


def test_what_the_disk_refused_goes_at_the_next_look(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))
    world.journal.refusal = StorageError("full")
    wait(world, shard, WEEK + CHECK)
    assert offset_of(shard, "g") == 3

    world.journal.refusal = None
    wait(world, shard, CHECK)

    assert offset_of(shard, "g") is None


def test_many_offsets_are_looked_at_a_few_at_a_time() -> None:
    world = World(a_topic("orders", 100))
    shard = a_shard(world)
    for group in range(20):
        offsets = [new_offset(world, "orders", partition, 1) for partition in range(100)]
        committed(shard, f"g{group}", *offsets)
    world.clock.advance(WEEK + CHECK)
    before = world.journal.record_count

    shard.tick(world.clock.now())

    assert 0 < world.journal.record_count - before <= 600
    assert shard.deadline() == world.clock.now() + 5
    wait(world, shard, 1000)
    assert world.journal.record_count - before == 2000
