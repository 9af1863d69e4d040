"""Whose commits a consumer group takes (C15), and how it shows itself."""

import pytest

from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_pace import IDLE_MS, WAITING_MS, heartbeat_interval_ms
from everlog.model.errors import ErrorCode, Refused
from tests.unit.coordinator.group.consumer_shard import Client, a_shard, settle
from tests.unit.coordinator.worlds import a_topic

TOPIC = a_topic("t0", 4)


def commit(
    group: ConsumerGroup, member_id: str, epoch: int, *, version: int = 9, transactional: bool = False
) -> ErrorCode | None:
    """What a commit of partition 0 of t0 is refused with, if it is."""
    try:
        check = group.check_commit(member_id, None, epoch, transactional=transactional, api_version=version)
        if check is not None:
            check(TOPIC.id, 0)
    except Refused as refusal:
        return refusal.code
    return None


def test_a_member_commits_in_its_epoch() -> None:
    shard = a_shard(4)
    Client(shard, "a", "t0").join()
    group = shard.group()

    assert commit(group, "a", 1) is None
    assert commit(group, "a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(group, "x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, "a", 1, version=8) == ErrorCode.UNSUPPORTED_VERSION


def test_a_member_whose_epoch_has_risen_may_commit_what_it_still_has() -> None:
    shard = a_shard(4)
    first = Client(shard, "a", "t0").join()
    second = Client(shard, "b", "t0").join()
    settle(first, second)
    group = shard.group()
    assert first.epoch == 2
    has_first = next(iter(sorted(first.owned))).partition == 0
    owner, other = ("a", "b") if has_first else ("b", "a")

    assert commit(group, owner, 1 if owner == "a" else 2) is None
    assert commit(group, other, 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(group, "b", 1) == ErrorCode.STALE_MEMBER_EPOCH


def test_who_is_no_member_commits_only_to_an_empty_group_or_in_a_transaction() -> None:
    shard = a_shard(4)
    client = Client(shard, "a", "t0").join()

    assert commit(shard.group(), "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(shard.group(), "", -1, transactional=True) is None
    client.leave()
    assert commit(shard.group(), "", -1) is None


def test_a_transaction_of_a_stale_member_is_refused() -> None:
    shard = a_shard(4)
    Client(shard, "a", "t0").join()

    assert commit(shard.group(), "a", 0, transactional=True) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shard.group(), "a", 1, version=4, transactional=True) is None


def test_offsets_are_told_to_members_in_their_epoch_and_to_who_is_none() -> None:
    shard = a_shard(4)
    Client(shard, "a", "t0").join()
    group = shard.group()

    group.check_fetch("a", 1)
    group.check_fetch(None, -1)
    with pytest.raises(Refused) as stale:
        group.check_fetch("a", 2)
    with pytest.raises(Refused) as unknown:
        group.check_fetch("x", 1)

    assert stale.value.code == ErrorCode.STALE_MEMBER_EPOCH
    assert unknown.value.code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_described_with_what_members_have_and_are_to_have() -> None:
    shard = a_shard(2)
    Client(shard, "a", "t0").join()
    Client(shard, "b", "t0", instance_id="one", rack_id="r").join()

    shown = shard.shard.consumer.describe(shard.group().id)

    assert (shown.group_state, shown.group_epoch, shown.assignment_epoch) == ("Reconciling", 2, 2)
    first, second = shown.members
    assert [one.partitions for one in first.assignment.topic_partitions] == [[0, 1]]
    assert [one.topic_name for one in second.target_assignment.topic_partitions] == ["t0"]
    assert second.assignment.topic_partitions == []
    assert (second.instance_id, second.rack_id, second.member_type) == ("one", "r", 1)


def test_a_group_that_is_not_there_cannot_be_described() -> None:
    with pytest.raises(Refused) as refused:
        a_shard().shard.consumer.describe("nobody")

    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND


# --- how often members come


def test_few_members_come_often_and_those_who_wait_more_often() -> None:
    assert heartbeat_interval_ms(2, 250, 5000, waits=False) == IDLE_MS
    assert heartbeat_interval_ms(2, 250, 5000, waits=True) == WAITING_MS


@pytest.mark.parametrize("members", [1, 10, 75, 76, 500, 1249])
@pytest.mark.parametrize("waits", [True, False])
def test_all_members_together_keep_to_the_rate(members: int, waits: bool) -> None:
    interval_ms = heartbeat_interval_ms(members, 250, 5000, waits=waits)

    assert members * 1000 / interval_ms <= 250


def test_one_more_member_mostly_changes_no_interval() -> None:
    intervals = {heartbeat_interval_ms(members, 250, 5000, waits=False) for members in range(1, 300)}

    assert intervals == {300, 600, 900, 1200}


def test_the_interval_never_exceeds_the_one_that_is_set() -> None:
    assert heartbeat_interval_ms(1_000_000, 250, 5000, waits=True) == 5000
    assert heartbeat_interval_ms(1, 250, 20, waits=False) == 20


def test_a_rate_of_0_leaves_the_interval_as_it_is_set() -> None:
    assert heartbeat_interval_ms(1, 0, 5000, waits=True) == 5000
