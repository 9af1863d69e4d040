"""Partitions that move between brokers (KIP-455, KIP-860)."""

import pytest

from everlog.controller.decisions import Refusal
from everlog.controller.isr import AlterPartitions, IsrMember, IsrProposal
from everlog.controller.partition_changes import PartitionRef
from everlog.controller.reassignment import AlterReassignments, Move, reassignments
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId
from tests.unit.controller.clusters import Cluster, check_invariants, directory_of, epochs, shape


def moved(cluster: Cluster, *replicas: int, name: str = "orders", number: int = 0) -> Refusal | None:
    (reply,) = cluster.do(AlterReassignments((Move(name, number, replicas),)))
    return reply


def cancelled(cluster: Cluster) -> Refusal | None:
    (reply,) = cluster.do(AlterReassignments((Move("orders", 0, None),)))
    return reply


def in_sync(cluster: Cluster, *brokers: int) -> None:
    """Let the leader of orders-0 propose this ISR."""
    topic = cluster.image.topics["orders"]
    partition = topic.partitions[0]
    cluster.do(
        AlterPartitions(
            BrokerId(partition.leader),
            cluster.epoch(partition.leader),
            (
                IsrProposal(
                    PartitionRef(topic.id, 0),
                    partition.leader_epoch,
                    partition.partition_epoch,
                    tuple(IsrMember(BrokerId(one)) for one in brokers),
                ),
            ),
        )
    )


def places(cluster: Cluster) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = cluster.partition()
    return partition.replicas, partition.adding, partition.removing


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(6)
    cluster.create("orders", (1, 2, 3))
    return cluster


def test_a_move_adds_first_and_removes_when_all_are_in_sync(cluster: Cluster) -> None:
    assert moved(cluster, 2, 3, 4) is None

    assert places(cluster) == ((2, 3, 4, 1), (4,), (1,))
    assert shape(cluster.partition()) == (1, (1, 2, 3), ())
    assert cluster.partition().directories == tuple(map(directory_of, (2, 3, 4, 1)))
    assert epochs(cluster.partition()) == (0, 1), "who leads goes on"
    check_invariants(cluster)

    in_sync(cluster, 1, 2, 3, 4)

    assert places(cluster) == ((2, 3, 4), (), ())
    assert shape(cluster.partition()) == (2, (2, 3, 4), ())
    assert cluster.partition().directories == tuple(map(directory_of, (2, 3, 4)))
    check_invariants(cluster)


def test_a_move_is_not_done_while_one_of_the_new_is_behind(cluster: Cluster) -> None:
    moved(cluster, 4, 5)

    in_sync(cluster, 1, 2, 3, 4)

    assert places(cluster) == ((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))


def test_another_order_is_done_at_once(cluster: Cluster) -> None:
    assert moved(cluster, 3, 1, 2) is None

    assert places(cluster) == ((3, 1, 2), (), ())
    assert cluster.partition().leader == 1, "who leads goes on until somebody elects another"
    assert cluster.partition().directories == tuple(map(directory_of, (3, 1, 2)))


def test_fewer_replicas_that_are_in_sync_are_done_at_once_under_a_new_leader_epoch(cluster: Cluster) -> None:
    assert moved(cluster, 1, 2) is None

    assert places(cluster) == ((1, 2), (), ())
    assert shape(cluster.partition()) == (1, (1, 2), ())
    assert epochs(cluster.partition()) == (1, 1)
    check_invariants(cluster)


def test_fewer_replicas_that_lag_wait_for_them(cluster: Cluster) -> None:
    cluster.put(isr=(1, 3))

    moved(cluster, 1, 2)
    assert places(cluster) == ((1, 2, 3), (), (3,))

    in_sync(cluster, 1, 2, 3)
    assert places(cluster) == ((1, 2), (), ())


def test_cancelling_goes_back_to_who_held_it(cluster: Cluster) -> None:
    moved(cluster, 4, 5, 6)
    in_sync(cluster, 1, 2, 3, 4)

    assert cancelled(cluster) is None

    assert places(cluster) == ((1, 2, 3), (), ())
    assert shape(cluster.partition()) == (1, (1, 2, 3), ())
    check_invariants(cluster)


def test_cancelling_what_is_not_moved_is_refused(cluster: Cluster) -> None:
    refusal = cancelled(cluster)

    assert refusal is not None
    assert refusal.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_cancelling_is_refused_where_only_the_new_have_all_records(cluster: Cluster) -> None:
    moved(cluster, 4)
    cluster.put(isr=(4,), leader=4)

    refusal = cancelled(cluster)

    assert refusal is not None
    assert refusal.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert places(cluster) == ((4, 1, 2, 3), (4,), (1, 2, 3))


def test_a_second_move_takes_the_place_of_the_first(cluster: Cluster) -> None:
    moved(cluster, 1, 2, 4)
    in_sync(cluster, 1, 2, 3)

    moved(cluster, 1, 2, 5)

    # 4 was only being added and is not wanted any more; 3 held it before, and cancelling would keep it.
    assert places(cluster) == ((1, 2, 5, 3), (5,), (3,))
    assert cancelled(cluster) is None
    assert places(cluster) == ((1, 2, 3), (), ())
    check_invariants(cluster)


def test_a_second_move_keeps_what_the_first_has_added(cluster: Cluster) -> None:
    moved(cluster, 4, 5, 6)
    in_sync(cluster, 1, 2, 3, 4)

    moved(cluster, 4, 1)

    assert places(cluster) == ((4, 1), (), ()), "both are in sync"
    assert shape(cluster.partition()) == (1, (1, 4), ())


def test_moving_back_is_cancelling(cluster: Cluster) -> None:
    moved(cluster, 4, 5, 6)

    assert moved(cluster, 1, 2, 3) is None

    assert places(cluster) == ((1, 2, 3), (), ())


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_placement_that_cannot_be_is_refused(
    cluster: Cluster, replicas: tuple[int, ...], code: ErrorCode
) -> None:
    refusal = moved(cluster, *replicas)

    assert refusal is not None
    assert refusal.code is code
    assert places(cluster) == ((1, 2, 3), (), ())


def test_partitions_that_are_not_there_harm_no_other(cluster: Cluster) -> None:
    replies = cluster.do(
        AlterReassignments(
            (
                Move("nothing", 0, (1,)),
                Move("orders", 1, (1,)),
                Move("orders", 0, (1, 2, 4)),
                Move("orders", 0, None),
            )
        )
    )

    codes = [None if reply is None else reply.code for reply in replies]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [unknown, unknown, None, ErrorCode.INVALID_REQUEST]
    assert places(cluster) == ((1, 2, 4, 3), (4,), (3,))


def test_the_replication_factor_stays_where_somebody_insists(cluster: Cluster) -> None:
    def insisted(*replicas: int) -> ErrorCode | None:
        (reply,) = cluster.do(AlterReassignments((Move("orders", 0, replicas),), allow_factor_change=False))
        return None if reply is None else reply.code

    assert insisted(1, 2) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert insisted(1, 2, 4) is None
    assert insisted(1, 2, 5, 6) is ErrorCode.INVALID_REPLICATION_FACTOR, "it is to have three, not four"


def test_a_fenced_broker_that_is_removed_does_not_hold_up_a_move(cluster: Cluster) -> None:
    moved(cluster, 4, 2, 3)
    cluster.fence(1)
    assert cluster.partition().leader == 2

    in_sync(cluster, 2, 3, 4)

    assert places(cluster) == ((4, 2, 3), (), ())
    check_invariants(cluster)


def test_what_is_being_moved_is_listed(cluster: Cluster) -> None:
    cluster.create("payments", (1, 2), (2, 3))
    moved(cluster, 4, 2, 3)
    moved(cluster, 5, name="payments", number=1)

    everything = [(name, number) for name, number, _ in reassignments(cluster.image, None)]
    some = [
        (name, number)
        for name, number, _ in reassignments(cluster.image, [("payments", [0, 1, 1, 7, -1]), ("none", [0])])
    ]

    assert everything == [("orders", 0), ("payments", 1)]
    assert some == [("payments", 1)]
