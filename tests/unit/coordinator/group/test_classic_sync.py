"""Assignments of a classic group: kept before anybody hears of them, and what happens if not (C2)."""

import pytest

from everlog.coordinator.group.classic_group import State
from everlog.model.errors import ErrorCode, StorageError
from tests.unit.coordinator.group.classic_shard import REBALANCE_MS, SESSION_MS, ClassicShard


def test_members_wait_for_the_leader_and_each_gets_its_own_assignment() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    waiting = shard.sync(second, 1)
    assert waiting.is_open

    leader = shard.sync(first, 1, (first, b"one"), (second, b"two"))

    assert leader.answer.assignment == b"one"
    assert waiting.answer.assignment == b"two"
    assert (waiting.answer.protocol_type, waiting.answer.protocol) == ("consumer", "range")
    assert shard.sync(second, 1).answer.assignment == b"two"


def test_a_member_that_the_leader_left_out_gets_an_empty_assignment() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)

    shard.sync(first, 1, (first, b"one"), ("stranger", b"lost"))

    assert shard.sync(second, 1).answer.assignment == b""
    assert "stranger" not in shard.group.members


def test_nobody_hears_of_an_assignment_before_it_is_committed() -> None:
    shard = ClassicShard()
    first, second, third = shard.completing(3)
    shard.journal.holds = True

    asked = [shard.sync(second, 1), shard.sync(first, 1, (first, b"1"), (second, b"2"), (third, b"3"))]
    asked.append(shard.sync(third, 1))
    assert all(one.is_open for one in asked)
    assert len(shard.journal.records) == 1
    shard.journal.commit()

    assert [one.answer.assignment for one in asked] == [b"2", b"1", b"3"]


def test_if_the_assignment_cannot_be_written_all_are_told_and_join_again() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    waiting = shard.sync(second, 1)
    shard.journal.fails = True

    leader = shard.sync(first, 1, (first, b"one"))

    assert leader.answer.error is waiting.answer.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert shard.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.journal.fails = False
    rejoins = [shard.join(first), shard.join(second)]
    assert [one.answer.generation for one in rejoins] == [2, 2]
    shard.settle([first, second], 2)


def test_if_the_assignment_is_never_committed_all_are_told_and_join_again() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    waiting = shard.sync(second, 1)
    shard.journal.holds = True
    leader = shard.sync(first, 1, (first, b"one"))

    shard.journal.commit(StorageError("the disk broke"))

    assert leader.answer.error is waiting.answer.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert shard.group.state is State.PREPARING


def test_a_write_that_fails_late_does_not_disturb_the_generation_after_it() -> None:
    shard = ClassicShard()
    (first,) = shard.completing()
    shard.journal.holds = True
    synced = shard.sync(first, 1, (first, b"one"))
    rejoin = shard.join(first)
    assert (shard.group.state, shard.group.generation) == (State.COMPLETING, 2)

    shard.journal.commit(StorageError("the disk broke"))

    # The answer to the second join rests on what was not committed, and is not heard either.
    assert synced.answer.error is rejoin.answer.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (shard.group.state, shard.group.generation) == (State.COMPLETING, 2)


def test_a_rebalance_that_begins_before_the_commit_loses_no_answer() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    shard.journal.holds = True
    waiting = shard.sync(second, 1)
    shard.sync(first, 1, (first, b"one"), (second, b"two"))
    newcomer = shard.join(needs_member_id=False)
    assert shard.group.state is State.PREPARING

    shard.journal.commit()

    assert waiting.answer.assignment == b"two"
    assert newcomer.is_open
    assert shard.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "error"),
    [
        ("consumer", "range", ErrorCode.NONE),
        (None, None, ErrorCode.NONE),
        ("connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_member_that_takes_the_group_for_another_is_refused(
    protocol_type: str | None, protocol: str | None, error: ErrorCode
) -> None:
    shard = ClassicShard()
    (member,) = shard.completing()

    asked = shard.sync(member, 1, protocol_type=protocol_type, protocol=protocol)

    assert asked.answer.error is error


def test_members_that_never_ask_for_their_assignment_are_out() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    shard.sync(first, 1, (first, b"one"), (second, b"two"))

    for _ in range(REBALANCE_MS // 5_000):
        assert shard.heartbeat(first, 1) is ErrorCode.NONE
        assert shard.heartbeat(second, 1) is ErrorCode.NONE
        shard.pass_time(5_000)

    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.join(first).answer.generation == 2


def test_a_leader_that_never_brings_the_assignment_is_out_and_another_leads() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    waiting = shard.sync(second, 1)

    for _ in range(REBALANCE_MS // 5_000):
        assert waiting.is_open
        shard.heartbeat(first, 1)
        shard.pass_time(5_000)

    assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.heartbeat(first, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.join(second).answer.leader == second


def test_once_all_have_asked_nobody_is_put_out() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)

    for _ in range(2 * REBALANCE_MS // 5_000):
        assert [shard.heartbeat(one, 1) for one in (first, second)] == [ErrorCode.NONE] * 2
        shard.pass_time(5_000)

    assert shard.group.state is State.STABLE


def test_a_sync_that_is_sent_twice_is_answered_twice() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    once, again = shard.sync(second, 1), shard.sync(second, 1)

    assert once.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    shard.sync(first, 1, (second, b"two"))
    assert again.answer.assignment == b"two"


def test_who_waits_for_its_assignment_need_not_send_heartbeats() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    waiting = shard.sync(second, 1)

    for _ in range(4):
        shard.heartbeat(first, 1)
        shard.pass_time(SESSION_MS - 1)
    shard.sync(first, 1, (second, b"two"))

    assert waiting.answer.assignment == b"two"
    shard.pass_time(SESSION_MS - 1)
    assert shard.heartbeat(second, 1) is ErrorCode.NONE
    shard.pass_time(SESSION_MS)
    assert second not in shard.group.members


def test_the_session_of_one_who_waited_for_the_disk_begins_with_the_answer() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    shard.sync(second, 1)
    shard.heartbeat(first, 1)
    shard.pass_time(SESSION_MS - 1)
    shard.journal.holds = True
    shard.sync(first, 1, (second, b"two"))
    shard.journal.commit()
    shard.journal.holds = False

    shard.pass_time(SESSION_MS - 1)

    assert [shard.heartbeat(one, 1) for one in (first, second)] == [ErrorCode.NONE] * 2
