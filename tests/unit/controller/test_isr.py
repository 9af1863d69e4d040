"""Which ISR a leader may have (KIP-497, KIP-841, KIP-903)."""

from dataclasses import replace

import pytest

from everlog.controller.heartbeats import Beat
from everlog.controller.isr import AlterPartitions, IsrMember, IsrProposal
from everlog.controller.partition_changes import PartitionRef
from everlog.metadata.image import PartitionImage
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, LeaderEpoch, Uuid
from tests.unit.controller.clusters import Cluster, check_invariants, epochs, shape


def a_cluster(isr: tuple[int, ...] = (1, 2)) -> Cluster:
    """Partition orders-0 on brokers 1, 2, 3 with epochs that are not zero."""
    cluster = Cluster(4)
    cluster.create("orders", (1, 2, 3))
    cluster.put(isr=isr, leader_epoch=LeaderEpoch(5), partition_epoch=9)
    return cluster


def proposed(cluster: Cluster, *brokers: int, name: str = "orders", number: int = 0) -> IsrProposal:
    topic = cluster.image.topics[name]
    partition = topic.partitions[number]
    return IsrProposal(
        PartitionRef(topic.id, number),
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(IsrMember(BrokerId(one), cluster.epoch(one)) for one in brokers),
    )


def asked(cluster: Cluster, proposal: IsrProposal, broker: int = 1) -> PartitionImage | ErrorCode:
    (reply,) = cluster.do(AlterPartitions(BrokerId(broker), cluster.epoch(broker), (proposal,)))
    return reply


def test_a_leader_takes_a_replica_into_the_isr_and_is_told_the_new_state() -> None:
    cluster = a_cluster()

    reply = asked(cluster, proposed(cluster, 1, 2, 3))

    assert isinstance(reply, PartitionImage)
    assert reply == cluster.partition()
    assert (reply.isr, epochs(reply)) == ((1, 2, 3), (5, 10))
    check_invariants(cluster)


def test_who_is_put_out_while_too_few_are_left_is_eligible_until_enough_are_back() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3), min_insync_replicas="2")
    asked(cluster, proposed(cluster, 1, 2))
    assert shape(cluster.partition()) == (1, (1, 2), ()), "3 left while enough were in sync"
    asked(cluster, proposed(cluster, 1))
    assert shape(cluster.partition()) == (1, (1,), (2,))

    asked(cluster, proposed(cluster, 1, 3))

    assert shape(cluster.partition()) == (1, (1, 3), ())


def test_what_holds_already_is_told_and_not_written() -> None:
    cluster = a_cluster()

    decision = cluster.decide(AlterPartitions(BrokerId(1), cluster.epoch(1), (proposed(cluster, 1, 2),)))

    assert (decision.records, decision.reply) == ((), [cluster.partition()])


def test_a_leader_of_an_earlier_epoch_is_refused() -> None:
    cluster = a_cluster()
    before = cluster.image

    assert (
        asked(cluster, replace(proposed(cluster, 1, 2, 3), leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    )
    assert cluster.image.topics == before.topics


def test_a_proposal_against_an_earlier_state_is_refused() -> None:
    cluster = a_cluster()
    stale = replace(proposed(cluster, 1, 2, 3), partition_epoch=8)

    assert asked(cluster, stale) is ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.partition().isr == (1, 2)


@pytest.mark.parametrize("ahead", [{"leader_epoch": 6}, {"partition_epoch": 10}])
def test_a_leader_that_knows_more_than_we_is_sent_to_another_controller(ahead: dict[str, int]) -> None:
    cluster = a_cluster()

    assert asked(cluster, replace(proposed(cluster, 1, 2, 3), **ahead)) is ErrorCode.NOT_CONTROLLER  # type: ignore[arg-type]


def test_only_the_leader_may_ask() -> None:
    cluster = a_cluster()

    assert asked(cluster, proposed(cluster, 1, 2, 3), broker=2) is ErrorCode.INVALID_REQUEST


def test_a_leader_of_an_earlier_life_is_refused_as_a_whole() -> None:
    cluster = a_cluster()

    with pytest.raises(Refused) as raised:
        cluster.do(AlterPartitions(BrokerId(1), cluster.epoch(1) - 1, (proposed(cluster, 1),)))
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("brokers", [(1, 2, 4), (2, 3), (), (1, 2, 2)])
def test_an_isr_of_strangers_or_without_its_leader_is_refused(brokers: tuple[int, ...]) -> None:
    cluster = a_cluster()

    assert asked(cluster, proposed(cluster, *brokers)) is ErrorCode.INVALID_REQUEST


def test_a_member_of_another_life_is_not_let_in() -> None:
    cluster = a_cluster()
    proposal = proposed(cluster, 1, 2, 3)
    cluster.join(3)

    assert asked(cluster, proposal) is ErrorCode.INELIGIBLE_REPLICA
    assert cluster.partition().isr == (1, 2)


def test_a_member_that_is_fenced_is_not_let_in() -> None:
    cluster = a_cluster()
    cluster.fence(3)

    assert asked(cluster, proposed(cluster, 1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA


def test_a_member_on_its_way_out_is_not_let_in() -> None:
    cluster = a_cluster()
    cluster.create("payments", (3, 2))
    cluster.do(Beat(BrokerId(3), cluster.epoch(3), 100, want_shut_down=True))
    assert cluster.image.brokers[BrokerId(3)].in_controlled_shutdown

    assert asked(cluster, proposed(cluster, 1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA


def test_a_member_whose_life_the_leader_cannot_tell_is_taken_at_its_word() -> None:
    cluster = a_cluster()
    plain = replace(proposed(cluster), isr=tuple(IsrMember(BrokerId(one)) for one in (1, 2, 3)))

    assert isinstance(asked(cluster, plain), PartitionImage)


def test_a_leader_that_recovers_is_alone_until_it_is_whole() -> None:
    cluster = a_cluster(isr=(1,))
    cluster.put(recovering=True)

    with_others = replace(proposed(cluster, 1, 2), recovering=True)
    assert asked(cluster, with_others) is ErrorCode.INVALID_REQUEST
    assert isinstance(asked(cluster, proposed(cluster, 1, 2)), PartitionImage)
    assert not cluster.partition().recovering
    back = replace(proposed(cluster, 1), recovering=True)
    assert asked(cluster, back) is ErrorCode.INVALID_REQUEST


def test_the_second_of_two_proposals_for_one_partition_is_against_an_earlier_state() -> None:
    cluster = a_cluster()
    twice = (proposed(cluster, 1, 2, 3), proposed(cluster, 1))

    replies = cluster.do(AlterPartitions(BrokerId(1), cluster.epoch(1), twice))

    assert replies == [cluster.partition(), ErrorCode.INVALID_UPDATE_VERSION]
    assert cluster.partition().isr == (1, 2, 3)


def test_partitions_that_are_not_there_are_told_apart_and_harm_no_other() -> None:
    cluster = a_cluster()
    good = proposed(cluster, 1, 2, 3)
    topic = good.partition.topic_id
    proposals = (
        replace(good, partition=PartitionRef(Uuid(bytes(16)), 0)),
        replace(good, partition=PartitionRef(topic, 1)),
        replace(good, partition=PartitionRef(topic, -1)),
        good,
    )

    replies = cluster.do(AlterPartitions(BrokerId(1), cluster.epoch(1), proposals))

    assert replies == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        cluster.partition(),
    ]


def test_an_isr_with_all_who_are_to_hold_it_completes_a_reassignment() -> None:
    cluster = a_cluster(isr=(1, 2, 3))
    cluster.put(replicas=(1, 2, 4, 3), adding=(4,), removing=(3,), directories=(Uuid(bytes(16)),) * 4)

    reply = asked(cluster, proposed(cluster, 1, 2, 3, 4))

    done = cluster.partition()
    assert reply == done
    assert (done.replicas, done.isr, done.adding, done.removing) == ((1, 2, 4), (1, 2, 4), (), ())
    assert len(done.directories) == 3
    assert epochs(done) == (6, 10), "the leader counts with one less"
    check_invariants(cluster)


def test_a_leader_that_is_moved_away_by_its_own_proposal_is_told_so() -> None:
    cluster = a_cluster(isr=(1, 2, 3))
    cluster.put(replicas=(4, 2, 3, 1), adding=(4,), removing=(1,), directories=(Uuid(bytes(16)),) * 4)

    reply = asked(cluster, proposed(cluster, 1, 2, 3, 4))

    assert reply is ErrorCode.NEW_LEADER_ELECTED
    assert cluster.partition().replicas == (4, 2, 3)
    assert shape(cluster.partition()) == (4, (2, 3, 4), ())
