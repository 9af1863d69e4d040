"""Consumer groups: joining, giving up before getting, leaving, fencing (C2, C3, C16)."""

from dataclasses import replace

import pytest

from everlog.coordinator.group.consumer_member import NO_PARTITIONS, MemberState
from everlog.model.errors import ErrorCode
from tests.unit.coordinator.group.consumer_shard import (
    REBALANCE_MS,
    Client,
    a_shard,
    partitions_of,
    settle,
)
from tests.unit.coordinator.worlds import KeptBatch, a_topic


def test_the_first_member_has_all_partitions_at_once() -> None:
    shard = a_shard(3)

    client = Client(shard, "a", "t0").join()

    assert client.owned == partitions_of(a_topic("t0", 3))
    assert client.epoch == shard.group().epoch == shard.group().target_epoch == 1
    assert shard.group().state == "Stable"


def test_a_second_member_gets_partitions_only_after_the_first_has_given_them_up() -> None:
    shard = a_shard(4)
    first = Client(shard, "a", "t0").join()

    second = Client(shard, "b", "t0").join()

    assert second.owned == NO_PARTITIONS
    assert second.waits
    assert shard.group().state == "Reconciling"
    told = first.send(first.brief())
    assert told.assignment is not None
    assert len(told.assignment) == 2
    # It was told, but has not said that it did: the partitions are not free.
    assert not second.beat()
    assert second.owned == NO_PARTITIONS
    first.take(told)
    first.take(first.send(first.brief(first.owned)))
    assert second.beat()
    assert second.owned == partitions_of(a_topic("t0", 4)) - first.owned
    assert len(second.owned) == 2
    assert not second.waits
    assert shard.group().state == "Stable"


def test_a_member_reaches_the_next_epoch_only_when_it_has_given_up_what_it_must() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0").join()
    Client(shard, "b", "t0").join()

    told = first.send(first.brief())

    assert told.epoch == 1
    assert shard.group().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    first.take(told)
    assert first.send(first.brief(first.owned)).epoch == 2


def test_a_heartbeat_that_does_not_say_what_the_member_has_frees_nothing() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0").join()
    second = Client(shard, "b", "t0").join()
    first.take(first.send(first.brief()))

    first.take(first.send(first.brief()))

    assert not second.beat()
    assert second.owned == NO_PARTITIONS


def test_an_unchanged_assignment_is_not_told_again_except_to_one_who_tells_all() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()

    assert client.send(client.brief()).assignment is None
    assert client.send(client.full()).assignment == client.owned


def test_nothing_is_written_for_a_heartbeat_that_changes_nothing() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()
    before = shard.log()

    client.beat()
    client.send(client.full())

    assert shard.log() == before


def test_partitions_of_who_leaves_go_to_the_others() -> None:
    shard = a_shard(4)
    clients = [Client(shard, name, "t0").join() for name in "ab"]
    settle(*clients)

    clients[0].leave()
    settle(clients[1])

    assert clients[1].owned == partitions_of(a_topic("t0", 4))
    assert list(shard.group().members) == ["b"]


def test_a_group_that_everyone_left_is_empty_and_can_be_joined_again() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()

    client.leave()

    assert shard.group().state == "Empty"
    assert shard.group().is_empty
    assert Client(shard, "b", "t0").join().owned == partitions_of(a_topic("t0"))


# --- who may not


def test_an_unknown_member_must_join_first() -> None:
    shard = a_shard(1)
    Client(shard, "a", "t0").join()
    stranger = Client(shard, "x", "t0")
    stranger.epoch = 1

    assert stranger.refusal(stranger.brief()) == ErrorCode.UNKNOWN_MEMBER_ID
    stranger.epoch = -1
    assert stranger.refusal(stranger.brief()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_not_there_is_only_made_by_joining() -> None:
    shard = a_shard(1)
    stranger = Client(shard, "x", "t0")
    stranger.epoch = 1

    assert stranger.refusal(stranger.brief()) == ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.log() == []


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_member_in_another_epoch_is_fenced(epoch: int) -> None:
    shard = a_shard(1, 1)
    client = Client(shard, "a", "t0").join()
    client.topics = frozenset({"t1"})
    client.take(client.send(client.full()))
    client.take(client.send(client.brief(client.owned)))
    assert client.epoch == 2
    client.epoch = epoch

    assert client.refusal(client.brief()) == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_missed_its_new_epoch_may_come_with_the_one_before_and_some_of_its_partitions() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()
    shard.set_topics(a_topic("t0", 2))
    lost = client.send(client.brief())
    assert lost.epoch == 2

    again = client.send(client.brief(client.owned))

    assert again.epoch == 2
    client.owned = partitions_of(a_topic("t0", 3), [2])
    assert client.refusal(client.brief(client.owned)) == ErrorCode.FENCED_MEMBER_EPOCH
    assert client.refusal(client.brief()) == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_begins_anew_is_told_its_whole_assignment() -> None:
    shard = a_shard(2)
    client = Client(shard, "a", "t0").join()
    shard_epoch = shard.group().epoch

    client.join()

    assert client.owned == partitions_of(a_topic("t0", 2))
    assert shard.group().epoch == shard_epoch


def test_a_full_group_takes_no_newcomer_and_keeps_its_members() -> None:
    shard = a_shard(2, group_consumer_max_size="1")
    client = Client(shard, "a", "t0").join()
    late = Client(shard, "b", "t0")

    assert late.refusal(late.full()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    client.beat()
    client.join()


def test_an_assignor_that_is_not_served_is_refused() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0", assignor="sticky")

    assert client.refusal(client.full()) == ErrorCode.UNSUPPORTED_ASSIGNOR


@pytest.mark.parametrize(
    "change",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"epoch": -3},
        {"epoch": -2},
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": partitions_of(a_topic("t0"))},
        {"topics": None},
    ],
    ids=str,
)
def test_a_request_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    client = Client(a_shard(1), "a", "t0")

    command = replace(client.full(), **change)  # type: ignore[arg-type]  # each value fits its field

    assert client.refusal(command) == ErrorCode.INVALID_REQUEST


def test_in_version_0_the_broker_makes_the_member_id() -> None:
    shard = a_shard(1)
    client = Client(shard, "", "t0", api_version=0)

    reply = client.send(client.full())

    assert reply.member_id
    assert list(shard.group().members) == [reply.member_id]


# --- time


def test_a_member_that_is_silent_for_its_session_is_let_go() -> None:
    shard = a_shard(2, group_consumer_session_timeout_ms="45000")
    client = Client(shard, "a", "t0").join()

    shard.pass_time(44_999)
    client.beat()
    shard.pass_time(44_999)
    assert list(shard.group().members) == ["a"]
    shard.pass_time(1)

    assert shard.group().is_empty
    assert client.refusal(client.brief()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refused_heartbeat_does_not_keep_a_member_alive() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()
    client.epoch = 7
    for _ in range(3):
        shard.pass_time(20_000)
        shard.send(client.brief())

    assert shard.group().is_empty


def test_a_member_that_does_not_give_up_in_time_is_let_go_however_alive_it_is() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0").join()
    second = Client(shard, "b", "t0").join()
    first.send(first.brief())
    for _ in range(REBALANCE_MS // 20_000):
        shard.pass_time(19_999)
        first.send(first.brief())
        second.beat()
    assert set(shard.group().members) == {"a", "b"}

    shard.pass_time(3)

    assert set(shard.group().members) == {"b"}
    settle(second)
    assert second.owned == partitions_of(a_topic("t0", 2))


def test_a_member_that_gave_up_in_time_stays() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0").join()
    second = Client(shard, "b", "t0").join()
    first.beat()
    for _ in range(4):
        shard.pass_time(REBALANCE_MS // 2)
        first.beat()
        second.beat()

    assert set(shard.group().members) == {"a", "b"}


def test_members_get_a_whole_session_after_the_coordinator_came_back() -> None:
    shard = a_shard(2)
    client = Client(shard, "a", "t0").join()
    shard.pass_time(40_000)

    shard.restart()
    shard.pass_time(40_000)
    client.beat()
    shard.pass_time(45_000)

    assert shard.group().is_empty


def test_who_is_to_give_up_partitions_is_timed_after_the_coordinator_came_back() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0").join()
    second = Client(shard, "b", "t0").join()
    first.send(first.brief())

    shard.restart()
    for _ in range(4):
        shard.pass_time(REBALANCE_MS // 4)
        shard.send(first.brief())
        shard.send(second.brief())

    assert set(shard.group().members) == {"b"}


# --- what outlives us


def test_members_keep_epochs_and_partitions_over_a_restart() -> None:
    shard = a_shard(4, 2)
    clients = [Client(shard, name, "t0", "t1").join() for name in "abc"]
    clients[0].beat()
    before = shard.group().value()

    shard.restart()

    assert shard.group().value() == before
    settle(*clients)
    assert frozenset().union(*(one.owned for one in clients)) == partitions_of(
        a_topic("t0", 4)
    ) | partitions_of(a_topic("t1", 2))


def test_a_group_whose_tombstones_were_written_is_gone_after_a_restart() -> None:
    shard = a_shard(1)
    Client(shard, "a", "t0").join().leave()
    group = shard.group()
    for record in group.tombstones():
        shard.shard.consumer.apply(record)

    assert shard.shard.groups.get(group.id) is None
    assert shard.shard.consumer.member_count == 0


def test_the_shard_counts_its_members() -> None:
    shard = a_shard(1)
    first = Client(shard, "a", "t0").join()
    Client(shard, "b", "t0", group="other").join()
    assert shard.shard.consumer.member_count == 2

    first.leave()

    assert shard.shard.consumer.member_count == 1
    assert shard.reload().consumer.member_count == 1


def test_a_member_keeps_its_partitions_where_compaction_left_what_it_has_before_what_it_told() -> None:
    shard = a_shard(2)
    client = Client(shard, "a", "t0").join()
    # It tells something else of itself, and so that record is the later one.
    client.send(replace(client.full(), client_host="/192.0.2.7"))
    before = shard.group().value()
    last = {key: (at, value) for at, (key, value) in enumerate(shard.log())}
    kept = sorted((at, key, value) for key, (at, value) in last.items())
    shard.world.journal.batches = [KeptBatch(at, ((key, value),), None) for at, key, value in kept]

    shard.restart()

    assert shard.group().value() == before
    assert not client.beat()
