"""Joining a classic group: two steps, pending ids, room, protocols, leaders, how long one waits (C2, C3)."""

import pytest

from everlog.coordinator.group import classic_pending
from everlog.coordinator.group.classic_commands import GroupProtocol, JoinedMember
from everlog.coordinator.group.classic_group import State
from everlog.model.errors import ErrorCode
from tests.unit.coordinator.group.classic_shard import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicShard,
)


def protocols(*names: str, metadata: bytes = b"m") -> tuple[GroupProtocol, ...]:
    return tuple(GroupProtocol(name, metadata) for name in names)


# --- two steps


def test_a_newcomer_is_given_an_id_and_joins_with_it() -> None:
    shard = ClassicShard()

    member_id = shard.take_id("app")
    assert member_id.startswith("app-")
    assert len(member_id) == len("app-") + 36
    joined = shard.join(member_id)
    shard.pass_time(INITIAL_DELAY_MS)

    assert joined.answer.error is ErrorCode.NONE
    assert joined.answer.member_id == member_id == joined.answer.leader
    assert joined.answer.generation == 1
    assert (joined.answer.protocol_type, joined.answer.protocol) == ("consumer", "range")
    assert joined.answer.members == (JoinedMember(member_id, None, b"topics"),)


def test_a_newcomer_of_an_old_version_joins_in_one_step() -> None:
    shard = ClassicShard()

    joined = shard.join(needs_member_id=False)
    shard.pass_time(INITIAL_DELAY_MS)

    assert joined.answer.error is ErrorCode.NONE
    assert joined.answer.member_id in shard.group.members


def test_an_id_can_be_used_until_its_session_is_over() -> None:
    shard = ClassicShard()
    in_time, late = shard.take_id(), shard.take_id()

    shard.pass_time(SESSION_MS - 1)
    assert shard.join(in_time).is_open
    shard.pass_time(1)

    assert shard.join(late).answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_belongs_to_its_group_and_to_no_static_member() -> None:
    shard = ClassicShard()
    member_id = shard.take_id()

    assert shard.join(member_id, group_id="other").answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.join(member_id, instance_id="i").answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.join(member_id).is_open


def test_a_rebalance_waits_for_ids_that_were_given_out() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    newcomer = shard.take_id()
    rejoin = shard.join(member)
    assert rejoin.is_open

    joined = shard.join(newcomer)

    assert rejoin.answer.generation == joined.answer.generation == 2


def test_a_rebalance_goes_on_when_an_id_was_not_used_in_time() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.take_id(session_ms=5_000)
    rejoin = shard.join(member)

    shard.pass_time(4_999)
    assert rejoin.is_open
    shard.pass_time(1)

    assert rejoin.answer.generation == 2


def test_a_group_of_which_only_ids_were_given_out_is_forgotten_with_them() -> None:
    shard = ClassicShard()
    shard.take_id()
    assert not shard.group.is_empty

    shard.pass_time(SESSION_MS)

    assert shard.found() is None
    assert shard.journal.records == []


def test_a_refused_join_leaves_no_group_behind() -> None:
    shard = ClassicShard()

    assert shard.join(protocols=()).answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    assert shard.found() is None


def test_a_flood_of_joins_takes_a_bounded_amount_of_memory() -> None:
    shard = ClassicShard()
    most = classic_pending.BUDGET_BYTES // 1_024

    for at in range(2 * most):
        shard.take_id(group_id=f"group-{at % 50}", session_ms=1_800_000)

    pending = sum(len(group.pending) for group in shard.shard.classic.groups())
    assert most // 2 < pending <= most
    assert len(shard.shard.classic.rebalancer.timers) == pending


def test_the_size_of_a_name_counts_in_a_flood_of_joins() -> None:
    shard = ClassicShard()
    name = "n" * 32_000

    for at in range(1_000):
        shard.take_id(client_id=name, group_id=f"group-{at}")

    kept = [group for group in shard.shard.classic.groups() if group.pending]
    assert sum(len(one) for group in kept for one in group.pending) <= classic_pending.BUDGET_BYTES
    assert len(shard.shard.groups) == len(kept)


def test_in_a_flood_of_joins_the_newest_id_can_be_used() -> None:
    shard = ClassicShard()
    first = shard.take_id(group_id="first")
    for at in range(classic_pending.BUDGET_BYTES // 1_024 + 1):
        shard.take_id(group_id=f"flood-{at}")
    last = shard.take_id()

    assert shard.join(last).is_open
    assert shard.join(first, group_id="first").answer.error is ErrorCode.UNKNOWN_MEMBER_ID


# --- the first rebalance waits for more members


def test_a_group_that_begins_waits_for_more_members() -> None:
    shard = ClassicShard()
    (member,) = shard.preparing()

    shard.pass_time(INITIAL_DELAY_MS - 1)
    assert shard.parked[0].is_open
    shard.pass_time(1)

    assert shard.parked[0].answer.member_id == member


def test_the_wait_for_more_begins_anew_with_each_member_that_comes() -> None:
    shard = ClassicShard()
    first = shard.join(shard.take_id())
    shard.pass_time(INITIAL_DELAY_MS - 1)
    second = shard.join(shard.take_id())

    shard.pass_time(INITIAL_DELAY_MS)
    assert first.is_open
    assert second.is_open
    shard.pass_time(1)

    assert first.answer.generation == second.answer.generation == 1


def test_the_wait_for_more_ends_with_the_rebalance_time_out() -> None:
    shard = ClassicShard()
    parked = [shard.join(shard.take_id(), rebalance_ms=7_000)]
    for _ in range(6):
        shard.pass_time(1_000)
        parked.append(shard.join(shard.take_id(), rebalance_ms=7_000))
    assert all(asked.is_open for asked in parked)

    shard.pass_time(1_000)

    assert {asked.answer.generation for asked in parked} == {1}


def test_without_a_delay_the_first_generation_begins_at_once() -> None:
    shard = ClassicShard(group_initial_rebalance_delay_ms="0")

    assert shard.join(shard.take_id()).answer.generation == 1


def test_an_empty_group_waits_for_more_members_too_and_keeps_its_generation() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.leave(member)
    assert (shard.group.state, shard.group.generation) == (State.EMPTY, 2)

    joined = shard.join(shard.take_id())
    shard.pass_time(INITIAL_DELAY_MS)

    assert joined.answer.generation == 3


# --- room


def test_a_group_takes_no_more_members_than_it_may_have() -> None:
    shard = ClassicShard(group_max_size="2")
    shard.stable(2)
    newcomer = shard.join(needs_member_id=False)

    assert newcomer.answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert newcomer.answer.member_id == ""
    assert shard.group.state is State.STABLE


def test_while_a_group_prepares_those_who_join_first_have_room() -> None:
    shard = ClassicShard(group_max_size="1")
    first, second = shard.take_id(), shard.take_id()

    assert shard.join(first).is_open
    assert shard.join(second).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.join(second).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.join(first).is_open, "it has joined already"


def test_a_member_that_finds_no_room_is_waited_for_no_longer() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    shard.restart(group_max_size="1")
    assert shard.group.state is State.PREPARING
    rejoin = shard.join(first)
    assert rejoin.is_open

    assert shard.join(second).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED

    assert rejoin.answer.generation == 2
    assert second not in shard.group.members


# --- what is asked for


@pytest.mark.parametrize("session_ms", [5_999, 30_001])
def test_a_session_time_out_outside_the_bounds_is_refused(session_ms: int) -> None:
    shard = ClassicShard(group_min_session_timeout_ms="6000", group_max_session_timeout_ms="30000")

    assert shard.join(session_ms=session_ms).answer.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert shard.join(session_ms=6_000).answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert shard.join(session_ms=30_000).answer.error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(
    ("protocol_type", "names"), [("connect", ("range",)), ("consumer", ("sticky",)), ("consumer", ())]
)
def test_a_member_that_has_no_protocol_in_common_is_refused(
    protocol_type: str, names: tuple[str, ...]
) -> None:
    shard = ClassicShard()
    shard.stable()

    joined = shard.join(protocol_type=protocol_type, protocols=protocols(*names))

    assert joined.answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_become_one_of_another_type() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.leave(member)

    joined = shard.join(needs_member_id=False, protocol_type="connect", protocols=protocols("default"))
    shard.pass_time(INITIAL_DELAY_MS)

    assert (joined.answer.protocol_type, joined.answer.protocol) == ("connect", "default")


def test_the_protocol_is_one_that_all_know_and_most_like_best() -> None:
    shard = ClassicShard()
    liked = [("a", "c", "b"), ("b", "c", "x"), ("c", "b"), ("b", "c")]
    parked = [shard.join(needs_member_id=False, protocols=protocols(*names)) for names in liked]

    shard.pass_time(2 * INITIAL_DELAY_MS)

    # All know b and c. The first two votes are split, as a is not a candidate: c, b, c, b; c was first.
    assert {asked.answer.protocol for asked in parked} == {"c"}


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    shard = ClassicShard()
    twice = (GroupProtocol("range", b"first"), GroupProtocol("range", b"second"))
    joined = shard.join(needs_member_id=False, protocols=twice)
    other = shard.join(needs_member_id=False, protocols=protocols("sticky"))
    assert other.answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    shard.pass_time(INITIAL_DELAY_MS)

    assert joined.answer.members[0].metadata == b"first"


# --- the leader and the others


def test_the_leader_hears_of_all_members_and_the_others_only_who_leads() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)

    leader, other = (asked.answer for asked in shard.parked)

    assert [one.member_id for one in leader.members] == [first, second]
    assert other.members == ()
    assert leader.leader == other.leader == first
    assert leader.generation == other.generation == 1


def test_a_member_that_joins_again_unchanged_hears_of_the_generation_that_it_is_in() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)

    assert shard.join(first).answer == shard.parked[0].answer
    assert shard.join(second).answer == shard.parked[1].answer
    shard.settle([first, second], 1)

    assert shard.join(second).answer == shard.parked[1].answer


def test_a_member_that_changed_brings_about_a_rebalance() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)

    changed = shard.join(second, protocols=protocols("range", metadata=b"other topics"))
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = shard.join(first)

    assert changed.answer.generation == 2
    assert [one.metadata for one in rejoin.answer.members] == [b"topics", b"other topics"]


def test_a_member_that_changes_while_the_leader_assigns_ends_the_generation() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    waiting = shard.sync(second, 1)

    changed = shard.join(first, protocols=protocols("range", metadata=b"other topics"))

    assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert changed.is_open


def test_if_the_leader_does_not_join_again_another_leads() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    rejoin = shard.join(second, protocols=protocols("range", metadata=b"changed"))

    while rejoin.is_open:
        shard.heartbeat(first, 1)
        shard.pass_time(SESSION_MS // 2)

    assert rejoin.answer.leader == second
    assert [one.member_id for one in rejoin.answer.members] == [second]


def test_members_that_do_not_join_again_in_time_are_out_and_the_group_goes_on() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    rejoin = shard.join(first)

    for _ in range(REBALANCE_MS // 5_000):
        assert rejoin.is_open
        assert shard.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        shard.pass_time(5_000)

    assert rejoin.answer.generation == 2
    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_says_how_long_a_rebalance_may_take() -> None:
    shard = ClassicShard()
    quick = shard.join(shard.take_id(), rebalance_ms=20_000)
    slow = shard.join(shard.take_id(), rebalance_ms=40_000, session_ms=100_000)
    shard.pass_time(2 * INITIAL_DELAY_MS)
    quick_id, slow_id = quick.answer.member_id, slow.answer.member_id
    shard.settle([quick_id, slow_id], 1)

    rejoin = shard.join(quick_id, rebalance_ms=20_000)
    shard.pass_time(39_999)
    assert rejoin.is_open
    shard.pass_time(1)

    assert rejoin.answer.generation == 2


def test_a_join_that_is_sent_twice_is_answered_twice() -> None:
    shard = ClassicShard()
    member_id = shard.take_id()
    first = shard.join(member_id)

    second = shard.join(member_id)

    assert first.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    shard.pass_time(INITIAL_DELAY_MS)
    assert second.answer.generation == 1


def test_a_member_leaves_at_once_while_the_first_generation_is_awaited() -> None:
    shard = ClassicShard()
    first, second = shard.preparing(2)

    assert shard.left(first) == [ErrorCode.NONE]

    assert shard.parked[0].answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    shard.pass_time(2 * INITIAL_DELAY_MS)
    assert shard.parked[1].answer.leader == second


def test_groups_do_not_know_of_each_other() -> None:
    shard = ClassicShard()
    here, there = shard.take_id(), shard.take_id(group_id="other")
    parked = [shard.join(here), shard.join(there, group_id="other")]
    shard.pass_time(INITIAL_DELAY_MS)

    assert [asked.answer.leader for asked in parked] == [here, there]
    assert {group.id for group in shard.shard.groups} == {GROUP, "other"}
