"""Where replicas of new partitions go in a cluster of several racks (R9)."""

import pytest

from everlog.controller.decisions import Refusal
from everlog.controller.heartbeats import Beat
from everlog.controller.partitions import CreatePartitions, MorePartitions
from everlog.controller.topics import CreateTopics, NewTopic, TopicCreated
from everlog.metadata.image import PartitionImage
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId
from tests.unit.controller.clusters import Cluster, check_invariants

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def a_cluster() -> Cluster:
    cluster = Cluster(0)
    for number, rack in RACKS.items():
        epoch = cluster.register(number, rack=rack)
        cluster.do(Beat(BrokerId(number), epoch, epoch))
    return cluster


def created(cluster: Cluster, name: str, partitions: int, factor: int) -> tuple[PartitionImage, ...]:
    reply = cluster.do(CreateTopics((NewTopic(name, partitions, factor),)))[name]
    assert isinstance(reply, TopicCreated), reply
    return cluster.image.topics[name].partitions


def test_the_replicas_of_each_partition_stand_in_racks_of_their_own() -> None:
    for partition in created(a_cluster(), "orders", 24, 3):
        assert {RACKS[one] for one in partition.replicas} == {"a", "b", "c"}
        assert (partition.leader, partition.isr) == (partition.replicas[0], partition.replicas)


def test_leads_are_spread_over_all_brokers() -> None:
    leaders = [partition.leader for partition in created(a_cluster(), "orders", 24, 3)]

    assert {leaders.count(one) for one in RACKS} == {4}


@pytest.mark.parametrize("leaving", [False, True])
def test_nothing_new_goes_to_brokers_that_are_fenced_or_on_their_way_out(leaving: bool) -> None:
    cluster = a_cluster()
    cluster.create("led", (2, 3), (4, 5))
    for number in (2, 4):
        if leaving:
            cluster.do(Beat(BrokerId(number), cluster.epoch(number), 2**40, want_shut_down=True))
            assert cluster.image.brokers[BrokerId(number)].in_controlled_shutdown
        else:
            cluster.fence(number)

    partitions = created(cluster, "orders", 12, 3)
    cluster.do(CreatePartitions((MorePartitions("orders", 24),)))

    for partition in (*partitions, *cluster.image.topics["orders"].partitions):
        assert not {2, 4} & set(partition.replicas)
        assert {RACKS[one] for one in partition.replicas} == {"a", "b", "c"}
    check_invariants(cluster)


def test_where_too_few_are_alive_those_that_are_away_hold_the_rest_and_are_not_in_sync() -> None:
    cluster = a_cluster()
    known = len(RACKS)
    cluster.fence(2)
    cluster.fence(4)

    partitions = created(cluster, "wide", 6, known - 1)

    for partition in partitions:
        assert len(set(partition.replicas)) == known - 1
        assert set(partition.isr) == set(RACKS) - {2, 4}
        assert partition.leader == partition.replicas[0]
    assert {2, 4} == {one for partition in partitions for one in partition.replicas} & {2, 4}, "both get some"
    reply = cluster.do(CreateTopics((NewTopic("wider", 1, known + 1),)))["wider"]
    assert isinstance(reply, Refusal)
    assert reply.code is ErrorCode.INVALID_REPLICATION_FACTOR
    check_invariants(cluster)
