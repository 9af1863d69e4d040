"""Members and the broker's coordinator, whatever happens in whatever order (C2-C4).

While members live and say so, no partition ever has two readers; when all is quiet, each has one.
"""

from typing import Any

import pytest

from everlog.model.topics import TopicPartition
from everlog.wire.apis import ApiKey
from tests.unit.client.core.group_world import HEARTBEAT_MS, SESSION_MS, Actor, GroupWorld

KINDS: dict[str, dict[str, Any]] = {
    "range": {"partition_assignment_strategy": "range"},
    "sticky": {"partition_assignment_strategy": "sticky"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "upgrade": {},
    "consumer": {"group_protocol": "consumer"},
}
TOPICS = ("t0", "t1")
OLD = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
)


def chaos(world: GroupWorld, options: dict[str, Any], steps: int) -> None:
    """Do anything at all, many times."""
    chance = world.chance
    for _ in range(steps):
        at = chance.random()
        actors = world.alive
        if at < 0.04 and len(actors) < 5:
            chosen = chance.choice([TOPICS, TOPICS, ("t0",), ("t1",)])
            # During an upgrade some members are cooperative already, and the others have both assignors.
            mine = KINDS["cooperative"] if not options and chance.random() < 0.5 else options
            world.join(chosen, **mine)
        elif at < 0.055 and actors:
            chance.choice(actors).die()
        elif at < 0.07 and actors:
            chance.choice(actors).leave()
        elif at < 0.08 and actors:
            chance.choice(actors).member.subscribe(chance.choice([TOPICS, ("t0",)]))
        elif at < 0.085 and world.topics["t1"] < 8:
            world.grow("t1", world.topics["t1"] + 1)
        elif at < 0.1 and actors:
            chance.choice(actors).member.described(world.describe())
        elif at < 0.13 and actors:
            chance.choice(actors).lose_connection()
        elif at < 0.16 and world.late:
            world.late.pop(chance.randrange(len(world.late)))()
        elif at < 0.17 and actors and chance.random() < 0.25:
            chance.choice(actors).member.step_aside()
        elif at < 0.22:
            world.pass_time(chance.randrange(1, 3 * HEARTBEAT_MS))
        elif actors:
            actor = chance.choice(actors)
            actor.turn() if chance.random() < 0.6 else actor.poll()
        world.check()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_no_partition_has_two_readers_and_in_the_end_each_has_one(kind: str, seed: int) -> None:
    world = GroupWorld(seed, {"t0": 3, "t1": 4}, oldest=OLD if seed % 4 == 3 and kind != "consumer" else ())
    world.join(TOPICS, **KINDS[kind])

    chaos(world, KINDS[kind], 250)

    world.join(TOPICS, **KINDS[kind])
    for actor in world.alive:
        actor.member.described(world.describe())
    world.settle(world.all_read)
    for actor in world.alive:
        assert actor.telling is None


@pytest.mark.parametrize("kind", KINDS)
def test_members_with_the_same_topics_end_up_with_even_shares(kind: str) -> None:
    world = GroupWorld(1, {"t0": 3, "t1": 4})
    for _ in range(3):
        world.join(TOPICS, **KINDS[kind])
        world.settle(world.all_read)
    world.settle(lambda: world.all_read() and even(world.alive))


def even(actors: list[Actor]) -> bool:
    sizes = [len(actor.reads) for actor in actors]
    # Range is even for each topic, so with two topics it may differ by two.
    return max(sizes) - min(sizes) <= 2 and min(sizes) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_member_is_missed_when_its_session_runs_out(kind: str) -> None:
    world = GroupWorld(1, {"t0": 4})
    first, second = world.join(["t0"], **KINDS[kind]), world.join(["t0"], **KINDS[kind])
    world.settle(lambda: world.all_read() and len(first.reads) == len(second.reads) == 2)

    second.die()
    world.settle(lambda: len(first.reads) == 4, 2 * SESSION_MS)


@pytest.mark.parametrize("kind", ["cooperative", "consumer"])
def test_what_stays_is_read_all_along(kind: str) -> None:
    world = GroupWorld(1, {"t0": 4})
    first = world.join(["t0"], **KINDS[kind])
    world.settle(world.all_read)

    second = world.join(["t0"], **KINDS[kind])
    world.settle(lambda: world.all_read() and len(second.reads) == 2)

    kept = first.reads
    revoked = [place for tell in first.history if tell.change.value == "revoked" for place in tell.places]
    assert len(kept) == 2
    assert set(revoked) == {TopicPartition("t0", index) for index in range(4)} - kept
