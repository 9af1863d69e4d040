"""Static members of a classic group (C3, KIP-345, KIP-814): they come back to what they had, and fence."""

import pytest

from everlog.coordinator.group.classic_commands import GroupProtocol
from everlog.coordinator.group.classic_group import State
from everlog.model.errors import ErrorCode
from tests.unit.coordinator.group.classic_shard import (
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicShard,
)


def a_static_group(shard: ClassicShard, *instances: str) -> list[str]:
    """A stable group of static members; returns their member ids. The first one leads."""
    parked = [shard.join(instance_id=one) for one in instances]
    shard.pass_time(2 * INITIAL_DELAY_MS)
    return shard.settle([asked.answer.member_id for asked in parked], 1)


def subscription(*topics: str, owned: bytes = b"") -> tuple[GroupProtocol, ...]:
    """What a consumer sends: version 1, the topics, no user data, and the partitions that it has."""
    names = b"".join(len(one).to_bytes(2, "big") + one.encode() for one in topics)
    metadata = b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff" + owned
    return (GroupProtocol("range", metadata),)


def test_a_static_member_needs_no_id_to_join_with() -> None:
    shard = ClassicShard()

    joined = shard.join(instance_id="i")
    shard.pass_time(INITIAL_DELAY_MS)

    assert joined.answer.member_id.startswith("i-")
    assert joined.answer.members[0].instance_id == "i"


def test_a_static_member_that_comes_back_in_time_gets_what_it_had_without_a_rebalance() -> None:
    shard = ClassicShard()
    leader, old = a_static_group(shard, "a", "b")

    joined = shard.join(instance_id="b").answer

    assert joined.error is ErrorCode.NONE
    assert joined.member_id != old
    assert (joined.generation, joined.leader, joined.members) == (1, leader, ())
    assert shard.group.state is State.STABLE
    assert shard.sync(joined.member_id, 1, instance_id="b").answer.assignment == old.encode()
    assert shard.heartbeat(leader, 1, "a") is ErrorCode.NONE


def test_the_new_id_of_a_static_member_is_kept_before_it_hears_of_it() -> None:
    shard = ClassicShard()
    _, old = a_static_group(shard, "a", "b")
    shard.journal.holds = True

    asked = shard.join(instance_id="b")
    assert asked.is_open
    shard.journal.commit()
    new = asked.answer.member_id
    shard.restart()

    assert shard.heartbeat(old, 1, "b") is ErrorCode.FENCED_INSTANCE_ID
    assert shard.heartbeat(new, 1, "b") is ErrorCode.NONE
    assert shard.sync(new, 1, instance_id="b").answer.assignment == old.encode()


def test_if_the_new_id_cannot_be_kept_the_old_one_stays() -> None:
    shard = ClassicShard()
    _, old = a_static_group(shard, "a", "b")
    shard.journal.fails = True

    asked = shard.join(instance_id="b")

    assert asked.answer.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert shard.heartbeat(old, 1, "b") is ErrorCode.NONE
    assert len(shard.group.members) == 2


def test_a_leader_that_comes_back_leads_and_may_skip_the_assignment() -> None:
    shard = ClassicShard()
    _, other = a_static_group(shard, "a", "b")

    joined = shard.join(instance_id="a", can_skip_assignment=True).answer

    assert joined.skip_assignment
    assert joined.leader == joined.member_id == shard.group.members.leader
    assert [one.member_id for one in joined.members] == [joined.member_id, other]


def test_a_leader_that_comes_back_and_cannot_skip_the_assignment_is_told_that_another_leads() -> None:
    shard = ClassicShard()
    old, _ = a_static_group(shard, "a", "b")

    joined = shard.join(instance_id="a", can_skip_assignment=False).answer

    assert not joined.skip_assignment
    assert joined.leader == old != joined.member_id
    assert joined.members == ()
    assert shard.group.members.leader == joined.member_id


def test_a_follower_that_comes_back_has_no_assignment_to_skip() -> None:
    shard = ClassicShard()
    a_static_group(shard, "a", "b")

    assert not shard.join(instance_id="b", can_skip_assignment=True).answer.skip_assignment


def test_the_old_self_of_a_static_member_is_fenced_in_all_that_it_asks() -> None:
    shard = ClassicShard()
    _, old = a_static_group(shard, "a", "b")
    shard.join(instance_id="b")

    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert shard.join(old, instance_id="b").answer.error is fenced
    assert shard.sync(old, 1, instance_id="b").answer.error is fenced
    assert shard.heartbeat(old, 1, "b") is fenced
    # Without its instance id it is nobody.
    assert shard.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_parked_join_of_the_old_self_is_fenced() -> None:
    shard = ClassicShard()
    parked = shard.join(instance_id="a")
    joined = shard.join(instance_id="a")

    assert parked.answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert parked.answer.member_id != ""
    shard.pass_time(INITIAL_DELAY_MS)
    assert joined.answer.leader == joined.answer.member_id
    assert len(shard.group.members) == 1


def test_a_parked_sync_of_the_old_self_is_fenced_and_the_generation_ends() -> None:
    shard = ClassicShard()
    parked = [shard.join(instance_id=one) for one in ("a", "b")]
    shard.pass_time(2 * INITIAL_DELAY_MS)
    leader, old = (asked.answer.member_id for asked in parked)
    waiting = shard.sync(old, 1, instance_id="b")

    rejoin = shard.join(instance_id="b")

    assert waiting.answer.error is ErrorCode.FENCED_INSTANCE_ID
    # The leader knows the old id only, and would leave the new one out.
    assert shard.sync(leader, 1, (old, b"x"), instance_id="a").answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    shard.join(leader, instance_id="a")
    assert rejoin.answer.generation == 2


def test_a_static_member_that_comes_back_while_the_group_prepares_takes_part() -> None:
    shard = ClassicShard()
    leader, _ = a_static_group(shard, "a", "b")
    rejoin = shard.join(leader, instance_id="a")

    back = shard.join(instance_id="b")

    assert back.answer.generation == rejoin.answer.generation == 2
    assert len(rejoin.answer.members) == 2


@pytest.mark.parametrize(
    "protocols",
    [
        (GroupProtocol("range", b"other topics"),),
        (GroupProtocol("sticky", b"topics"), GroupProtocol("range", b"other topics")),
    ],
)
def test_a_static_member_that_comes_back_changed_brings_about_a_rebalance(
    protocols: tuple[GroupProtocol, ...],
) -> None:
    shard = ClassicShard()
    leader, _ = a_static_group(shard, "a", "b")

    back = shard.join(instance_id="b", protocols=protocols)

    assert back.is_open
    assert shard.heartbeat(leader, 1, "a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_that_would_change_the_protocol_brings_about_a_rebalance() -> None:
    shard = ClassicShard()
    both = (GroupProtocol("range", b"t"), GroupProtocol("sticky", b"t"))
    joined = shard.join(instance_id="a", protocols=both)
    shard.pass_time(INITIAL_DELAY_MS)
    shard.settle([joined.answer.member_id], 1)

    back = shard.join(instance_id="a", protocols=both[::-1])

    assert (back.answer.generation, back.answer.protocol) == (2, "sticky")


def test_a_consumer_that_comes_back_has_forgotten_its_partitions_and_still_needs_no_rebalance() -> None:
    shard = ClassicShard()
    joined = shard.join(instance_id="a", protocols=subscription("t", "u", owned=b"many"))
    shard.pass_time(INITIAL_DELAY_MS)
    shard.settle([joined.answer.member_id], 1)

    assert shard.join(instance_id="a", protocols=subscription("u", "t")).answer.generation == 1
    assert shard.join(instance_id="a", protocols=subscription("t")).answer.generation == 2


def test_a_static_member_keeps_its_place_when_it_does_not_join_again_in_time() -> None:
    shard = ClassicShard()
    leader, silent = a_static_group(shard, "a", "b")
    rejoin = shard.join(leader, instance_id="a")

    for _ in range(REBALANCE_MS // 5_000):
        shard.heartbeat(silent, 1, "b")
        shard.pass_time(5_000)

    assert [one.member_id for one in rejoin.answer.members] == [leader, silent]


def test_static_members_of_whom_none_has_joined_again_are_waited_for_while_they_live() -> None:
    shard = ClassicShard()
    static = a_static_group(shard, "a", "b")
    newcomer = shard.take_id()
    shard.join(newcomer)
    shard.leave(newcomer)

    for _ in range(2 * REBALANCE_MS // 5_000):
        for member_id, instance_id in zip(static, "ab", strict=True):
            assert shard.heartbeat(member_id, 1, instance_id) is ErrorCode.REBALANCE_IN_PROGRESS
        shard.pass_time(5_000)
    rejoins = [shard.join(one, instance_id=name) for one, name in zip(static, "ab", strict=True)]

    assert [asked.answer.generation for asked in rejoins] == [2, 2]


def test_a_static_member_that_stays_away_too_long_is_out() -> None:
    shard = ClassicShard()
    leader, gone = a_static_group(shard, "a", "b")

    for _ in range(3):
        shard.heartbeat(leader, 1, "a")
        shard.pass_time(SESSION_MS // 2)

    assert shard.heartbeat(gone, 1, "b") is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(leader, 1, "a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_session_of_a_static_member_that_came_back_begins_anew() -> None:
    shard = ClassicShard()
    leader, _ = a_static_group(shard, "a", "b")
    shard.pass_time(SESSION_MS - 1)
    shard.heartbeat(leader, 1, "a")
    new = shard.join(instance_id="b").answer.member_id

    shard.pass_time(SESSION_MS - 1)
    assert shard.heartbeat(leader, 1, "a") is ErrorCode.NONE
    shard.pass_time(1)

    assert new not in shard.group.members


def test_a_static_member_comes_back_to_a_group_that_is_full() -> None:
    shard = ClassicShard(group_max_size="2")
    a_static_group(shard, "a", "b")

    assert shard.join(instance_id="b").answer.error is ErrorCode.NONE
    assert shard.join(instance_id="c").answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_that_came_back_is_known_with_all_that_it_can_do() -> None:
    shard = ClassicShard()
    both = (GroupProtocol("range", b"t"), GroupProtocol("sticky", b"t"))
    joined = shard.join(instance_id="a", protocols=both)
    shard.pass_time(INITIAL_DELAY_MS)
    shard.settle([joined.answer.member_id], 1)
    assert shard.join(instance_id="a", protocols=both).answer.generation == 1

    newcomer = shard.join(needs_member_id=False, protocols=both[1:])

    assert newcomer.is_open, "they have sticky in common"


def test_a_leader_that_comes_back_while_the_group_prepares_leads_it() -> None:
    shard = ClassicShard()
    _, other = a_static_group(shard, "a", "b")
    shard.join(needs_member_id=False)
    rejoin = shard.join(other, instance_id="b")

    back = shard.join(instance_id="a")

    assert back.answer.leader == back.answer.member_id == rejoin.answer.leader
