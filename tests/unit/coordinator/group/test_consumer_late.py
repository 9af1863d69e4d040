"""Heartbeats that were overtaken: what lies on a connection that was given up is of the past (C16)."""

from dataclasses import replace

from everlog.coordinator.group.consumer_commands import ConsumerHeartbeat
from everlog.coordinator.group.consumer_member import NO_PARTITIONS
from everlog.model.errors import ErrorCode
from tests.unit.coordinator.group.consumer_shard import (
    REBALANCE_MS,
    Client,
    ConsumerShard,
    a_shard,
    partitions_of,
)
from tests.unit.coordinator.worlds import a_topic

OLD, NEW = 7, 8
"""Two connections of one member, in the order in which they were made."""


def on(connection: int, command: ConsumerHeartbeat) -> ConsumerHeartbeat:
    return replace(command, connection=connection)


def a_member_that_moved(shard: ConsumerShard) -> tuple[Client, ConsumerHeartbeat]:
    """A member with two partitions on its new connection; on its old one it says yet that it has none."""
    member = Client(shard, "a", "t0")
    joining = on(OLD, member.full())
    member.take(member.send(on(NEW, member.full())))
    assert member.owned == partitions_of(a_topic("t0", 2))
    return member, joining


def test_what_a_member_said_before_it_got_a_partition_does_not_free_it() -> None:
    shard = a_shard(2)
    member, late = a_member_that_moved(shard)
    # From now on it is to have one of its two only.
    other = Client(shard, "b", "t0").join()

    assert member.refusal(late) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    other.beat()
    assert other.owned == NO_PARTITIONS
    member.take(member.send(on(NEW, member.brief())))
    member.take(member.send(on(NEW, member.brief(member.owned))))
    assert other.beat()
    assert len(member.owned) == len(other.owned) == 1


def test_a_late_heartbeat_changes_no_subscription_and_lets_nobody_go() -> None:
    shard = a_shard(2, 1)
    member, late = a_member_that_moved(shard)
    before = shard.group().value()

    assert member.refusal(replace(late, topics=frozenset({"t1"}))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.refusal(replace(late, connection=OLD - 1, epoch=-1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert shard.group().value() == before


def test_who_goes_on_speaking_on_an_older_connection_is_heard() -> None:
    shard = a_shard(2)
    member, _ = a_member_that_moved(shard)

    assert member.refusal(on(OLD, member.brief())) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    # It has read that, so it is there.
    member.take(member.send(on(OLD, member.brief())))
    member.take(member.send(on(OLD, member.brief())))
    member.take(member.send(on(NEW, member.brief())))
    assert member.refusal(on(OLD, member.brief())) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_two_connections_that_were_given_up_are_both_of_the_past() -> None:
    shard = a_shard(2)
    member, late = a_member_that_moved(shard)

    for connection in (OLD - 1, OLD):
        assert member.refusal(on(connection, late)) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_heartbeat_that_was_refused_tells_where_its_member_speaks_from_too() -> None:
    shard = a_shard(2)
    member, _ = a_member_that_moved(shard)
    assert member.refusal(replace(on(NEW + 1, member.full()), epoch=99)) is ErrorCode.FENCED_MEMBER_EPOCH

    assert member.refusal(on(NEW, member.brief())) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_member_that_was_let_go_may_come_again_from_anywhere() -> None:
    shard = a_shard(2)
    member, _ = a_member_that_moved(shard)
    member.send(on(NEW, replace(member.brief(), epoch=-1)))
    member.epoch, member.owned = 0, NO_PARTITIONS
    member.take(member.send(on(OLD, member.full())))

    shard.pass_time(2 * REBALANCE_MS)
    assert not shard.group().members

    member.epoch, member.owned = 0, NO_PARTITIONS
    member.take(member.send(on(OLD - 1, member.full())))
    assert member.owned == partitions_of(a_topic("t0", 2))


def test_a_static_member_that_another_took_over_from_is_forgotten_with_its_session() -> None:
    shard = a_shard(2)
    before = Client(shard, "a", "t0", instance_id="i")
    before.take(before.send(on(NEW, before.full())))
    before.send(on(NEW, replace(before.brief(), epoch=-2)))
    Client(shard, "b", "t0", instance_id="i").join()

    shard.pass_time(2 * REBALANCE_MS)

    anew = Client(shard, "a", "t0")
    anew.take(anew.send(on(OLD, anew.full())))
    assert anew.owned == partitions_of(a_topic("t0", 2))
