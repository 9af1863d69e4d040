"""How members of a classic group go: by silence, by leaving, and what that means for the others (C3, C4)."""

import pytest

from everlog.coordinator.group.classic_commands import Leaver
from everlog.coordinator.group.classic_group import State
from everlog.coordinator.group.classic_rebalance import NEW_MEMBER_TIMEOUT_MS
from everlog.model.errors import ErrorCode
from tests.unit.coordinator.group.classic_shard import INITIAL_DELAY_MS, SESSION_MS, ClassicShard


def test_a_member_that_is_not_heard_from_in_time_is_out_and_the_others_rebalance() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    shard.pass_time(SESSION_MS - 1)
    shard.heartbeat(first, 1)
    assert second in shard.group.members

    shard.pass_time(1)

    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert [one.member_id for one in shard.join(first).answer.members] == [first]


def test_each_heartbeat_begins_the_session_anew() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()

    for _ in range(5):
        shard.pass_time(SESSION_MS - 1)
        assert shard.heartbeat(member, 1) is ErrorCode.NONE


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID])
def test_a_heartbeat_that_is_refused_does_not_keep_a_member_alive(code: ErrorCode) -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.pass_time(SESSION_MS - 1)

    if code is ErrorCode.ILLEGAL_GENERATION:
        assert shard.heartbeat(member, 0) is code
    else:
        shard.join(instance_id="i", needs_member_id=True)
        assert shard.heartbeat(member, 1, instance_id="i") is code
    shard.pass_time(1)

    assert member not in shard.group.members


def test_a_commit_counts_as_a_heartbeat() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.pass_time(SESSION_MS - 1)

    shard.group.heard_from(member)
    shard.group.heard_from("stranger")
    shard.pass_time(SESSION_MS - 1)

    assert shard.heartbeat(member, 1) is ErrorCode.NONE


def test_who_waits_in_a_join_need_not_send_heartbeats() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    rejoin = shard.join(first)

    for _ in range(4):
        shard.heartbeat(second, 1)
        shard.pass_time(SESSION_MS - 1)

    assert rejoin.is_open
    assert first in shard.group.members


def test_a_newcomer_does_not_wait_for_ever_for_its_first_generation() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.join(member, rebalance_ms=10**9)
    shard.settle([member], 2)
    waiting = shard.join(needs_member_id=False)

    passed = 0
    while waiting.is_open:
        # It is asked to join again and does not, but it is alive.
        assert shard.heartbeat(member, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        shard.pass_time(SESSION_MS - 1)
        passed += SESSION_MS - 1

    assert waiting.answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert NEW_MEMBER_TIMEOUT_MS <= passed < NEW_MEMBER_TIMEOUT_MS + SESSION_MS


def test_when_all_fall_silent_the_group_is_empty_in_the_next_generation() -> None:
    shard = ClassicShard()
    shard.stable(2)

    shard.pass_time(10 * SESSION_MS)

    assert (shard.group.state, shard.group.generation) == (State.EMPTY, 2)
    assert shard.group.empty_since is not None
    assert shard.shard.classic.deadline() is None


def test_a_member_that_leaves_is_missed_at_once() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)

    assert shard.left(second) == [ErrorCode.NONE]

    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.join(first).answer.generation == 2


def test_a_leader_that_leaves_is_followed_by_another() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    shard.leave(first)

    rejoin = shard.join(second)

    assert rejoin.answer.leader == second


def test_many_leave_in_one_request_and_each_has_its_outcome() -> None:
    shard = ClassicShard()
    static = shard.join(instance_id="i", session_ms=100_000)
    first, second = shard.preparing(2)
    shard.pass_time(2 * INITIAL_DELAY_MS)
    shard.settle([static.answer.member_id, first, second], 1)
    pending = shard.take_id()

    outcomes = shard.left(
        Leaver(first, None, "done"), "stranger", pending, Leaver("", "i"), Leaver("", "no such"), Leaver("")
    )

    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert outcomes == [ErrorCode.NONE, unknown, ErrorCode.NONE, ErrorCode.NONE, unknown, unknown]
    assert [one.id for one in shard.group.members] == [second]
    assert shard.group.generation == 1
    assert shard.join(second).answer.generation == 2


def test_a_static_member_does_not_leave_under_an_id_that_is_not_its_own() -> None:
    shard = ClassicShard()
    static = shard.join(instance_id="i")
    shard.pass_time(INITIAL_DELAY_MS)
    member_id = static.answer.member_id

    assert shard.left(Leaver("old", "i")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert shard.left(Leaver(member_id, "other")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert shard.left(Leaver(member_id, "i")) == [ErrorCode.NONE]


def test_giving_an_id_back_disturbs_nobody() -> None:
    shard = ClassicShard()
    shard.stable()
    pending = shard.take_id()

    assert shard.left(pending) == [ErrorCode.NONE]

    assert shard.group.state is State.STABLE
    assert shard.join(pending).answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_no_longer_waits_for_an_id_that_was_given_back() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    pending = shard.take_id()
    rejoin = shard.join(member)
    assert rejoin.is_open

    shard.leave(pending)

    assert rejoin.answer.generation == 2


def test_who_leaves_is_told_so_in_what_it_waits_for() -> None:
    shard = ClassicShard()
    _, second = shard.completing(2)
    waiting = shard.sync(second, 1)

    shard.leave(second)

    assert waiting.answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_departure_is_answered_once_the_empty_group_is_committed() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.journal.holds = True

    asked = shard.leave(member)
    assert asked.is_open
    shard.journal.commit()

    assert [one.error for one in asked.answer.departures] == [ErrorCode.NONE]


def test_a_group_becomes_empty_even_if_that_cannot_be_written() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.journal.fails = True

    assert shard.left(member) == [ErrorCode.NONE]

    assert shard.group.state is State.EMPTY


def test_a_group_of_which_nothing_could_be_written_is_forgotten_when_it_is_empty() -> None:
    shard = ClassicShard()
    shard.journal.fails = True
    (member,) = shard.completing()

    shard.leave(member)

    assert shard.found() is None


def test_a_rebalance_time_out_of_nothing_does_not_make_the_coordinator_spin() -> None:
    shard = ClassicShard(group_initial_rebalance_delay_ms="0")
    static = shard.join(instance_id="i", rebalance_ms=0).answer.member_id
    shard.sync(static, 1, (static, b"all"), instance_id="i")
    dynamic = shard.join(needs_member_id=False, rebalance_ms=0)
    assert shard.heartbeat(static, 1, "i") is ErrorCode.REBALANCE_IN_PROGRESS

    shard.pass_time(1)
    assert dynamic.answer.generation == 2
    shard.leave(dynamic.answer.member_id)
    shard.pass_time(10 * SESSION_MS)

    assert shard.group.state is State.EMPTY


def test_a_coordinator_does_not_spin_over_static_members_that_allow_no_time_to_join() -> None:
    shard = ClassicShard(group_initial_rebalance_delay_ms="0")
    static = shard.join(instance_id="i", rebalance_ms=0).answer.member_id
    shard.sync(static, 1, (static, b"all"), instance_id="i")
    newcomer = shard.take_id()
    shard.join(newcomer, rebalance_ms=0)
    shard.leave(newcomer)

    shard.pass_time(SESSION_MS - 1)
    assert shard.group.state is State.PREPARING
    shard.pass_time(1)

    assert shard.group.is_empty
