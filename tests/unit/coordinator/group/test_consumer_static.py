"""Static members of consumer groups: away for a while, and back with what they had (C3)."""

from everlog.coordinator.group.consumer_commands import HeartbeatReply
from everlog.coordinator.group.consumer_member import NO_PARTITIONS
from everlog.model.errors import ErrorCode
from tests.unit.coordinator.group.consumer_shard import Client, a_shard, partitions_of, settle
from tests.unit.coordinator.worlds import a_topic


def test_a_static_member_that_comes_back_has_what_it_had_and_nobody_else_moves() -> None:
    shard = a_shard(4)
    first = Client(shard, "a", "t0", instance_id="one").join()
    second = Client(shard, "b", "t0", instance_id="two").join()
    settle(first, second)
    epoch, had = shard.group().epoch, first.owned

    first.leave(-2)
    assert not second.beat()
    back = Client(shard, "c", "t0", instance_id="one").join()

    assert back.owned == had
    assert back.epoch == shard.group().epoch == epoch
    assert not second.beat()
    assert shard.group().members.keys() == {"b", "c"}
    assert shard.reload().groups.get(shard.group().id) is not None


def test_while_a_static_member_is_away_its_partitions_are_kept_for_it() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0", instance_id="one").join()
    first.leave(-2)

    second = Client(shard, "b", "t0").join()

    settle(second)
    assert second.owned == NO_PARTITIONS
    assert second.waits


def test_what_a_static_member_was_giving_up_is_free_when_it_goes() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0", instance_id="one").join()
    second = Client(shard, "b", "t0").join()
    first.send(first.brief())

    first.leave(-2)
    second.beat()

    assert len(second.owned) == 1


def test_a_static_member_that_stays_away_is_let_go_after_its_session() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0", instance_id="one").join()
    second = Client(shard, "b", "t0").join()
    first.leave(-2)
    shard.pass_time(40_000)
    second.beat()
    shard.pass_time(5_000)

    settle(second)

    assert second.owned == partitions_of(a_topic("t0", 2))


def test_an_instance_id_in_use_is_not_given_to_another() -> None:
    shard = a_shard(2)
    Client(shard, "a", "t0", instance_id="one").join()
    other = Client(shard, "b", "t0", instance_id="one")

    assert other.refusal(other.full()) == ErrorCode.UNRELEASED_INSTANCE_ID


def test_the_same_static_member_may_begin_anew() -> None:
    shard = a_shard(2)
    client = Client(shard, "a", "t0", instance_id="one").join()

    client.join()

    assert client.owned == partitions_of(a_topic("t0", 2))


def test_who_was_replaced_is_fenced() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0", instance_id="one").join()
    epoch = first.epoch
    first.leave(-2)
    Client(shard, "b", "t0", instance_id="one").join()
    first.epoch = epoch

    assert first.refusal(first.brief()) == ErrorCode.FENCED_INSTANCE_ID
    first.epoch = -1
    assert first.refusal(first.brief()) == ErrorCode.FENCED_INSTANCE_ID


def test_an_unknown_instance_id_must_join_first() -> None:
    shard = a_shard(2)
    Client(shard, "a", "t0").join()
    stranger = Client(shard, "x", "t0", instance_id="one")
    stranger.epoch = 1

    assert stranger.refusal(stranger.brief()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_leaves_for_good_gives_its_instance_id_back() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0", instance_id="one").join()
    first.leave(-1)

    back = Client(shard, "b", "t0", instance_id="one").join()

    assert back.owned == partitions_of(a_topic("t0", 2))


def test_a_static_member_that_is_away_cannot_just_go_on() -> None:
    shard = a_shard(2)
    first = Client(shard, "a", "t0", instance_id="one").join()
    epoch = first.epoch
    first.leave(-2)
    first.epoch = epoch

    assert not isinstance(shard.send(first.brief()), HeartbeatReply)


def test_a_static_member_comes_back_to_a_full_group() -> None:
    shard = a_shard(2, group_consumer_max_size="1")
    Client(shard, "a", "t0", instance_id="one").join().leave(-2)

    assert Client(shard, "b", "t0", instance_id="one").join().owned


def test_a_static_member_that_is_away_is_away_after_a_restart() -> None:
    shard = a_shard(2)
    Client(shard, "a", "t0", instance_id="one").join().leave(-2)

    shard.restart()

    assert Client(shard, "b", "t0", instance_id="one").join().owned == partitions_of(a_topic("t0", 2))
