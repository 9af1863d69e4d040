"""Directories: what is lost with one, who leads then, and what brings it back (KIP-858)."""

from everlog.broker.visibility import Visibility
from everlog.controller.brokers import UnfenceBroker
from everlog.controller.directories import AssignReplicasToDirectories
from everlog.controller.heartbeats import Beat
from everlog.controller.leader_election import ElectionType, ElectLeaders
from everlog.controller.partition_changes import PartitionRef
from everlog.metadata.image import LOST_DIRECTORY, NO_LEADER, UNASSIGNED_DIRECTORY
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId, Uuid
from tests.unit.controller.clusters import Cluster, check_invariants, directory_of, shape

ONE, TWO = BrokerId(1), BrokerId(2)
SECOND = Uuid(bytes(14) + b"\x02\x01")
"""Another directory of broker 1."""
EVERYTHING = 10**9


def with_two_directories() -> Cluster:
    """Broker 1 has two directories, the others one each."""
    cluster = Cluster()
    both(cluster)
    return cluster


def both(cluster: Cluster) -> None:
    epoch = cluster.register(1, clean=True, directories=(directory_of(1), SECOND))
    cluster.do(UnfenceBroker(ONE, epoch))


def assign(cluster: Cluster, directory: Uuid, topic_id: Uuid, number: int = 0) -> ErrorCode:
    refs = ((directory, PartitionRef(topic_id, number)),)
    return cluster.do(AssignReplicasToDirectories(ONE, cluster.epoch(1), refs))[0]


def lose(cluster: Cluster, directory: Uuid) -> None:
    """Broker 1 says in a heartbeat that a directory has failed it."""
    cluster.do(Beat(ONE, cluster.epoch(1), EVERYTHING, offline=(directory,)))


def offline(cluster: Cluster) -> list[int]:
    return Visibility(cluster.image, lambda _broker: ("h", 1)).offline(cluster.partition())


def test_a_replica_of_a_broker_with_two_directories_lies_where_the_broker_says() -> None:
    cluster = with_two_directories()
    topic_id = cluster.create("orders", (1, 2, 3))
    assert cluster.partition().directories == (UNASSIGNED_DIRECTORY, directory_of(2), directory_of(3))
    assert assign(cluster, SECOND, topic_id) is ErrorCode.NONE
    assert cluster.partition().directories[0] == SECOND
    assert cluster.partition().leader == 1


def test_what_lies_in_a_directory_that_failed_is_led_by_others_and_the_rest_stays() -> None:
    cluster = with_two_directories()
    lost, kept = cluster.create("orders", (1, 2, 3)), cluster.create("other", (1, 2, 3))
    assign(cluster, SECOND, lost)
    assign(cluster, directory_of(1), kept)
    lose(cluster, SECOND)
    assert shape(cluster.partition()) == (2, (2, 3), ())
    assert shape(cluster.partition("other")) == (1, (1, 2, 3), ())
    assert offline(cluster) == [1]
    assert cluster.image.brokers[ONE].directories == (directory_of(1),)
    check_invariants(cluster)


def test_a_replica_in_a_failed_directory_is_not_elected_until_the_directory_is_back() -> None:
    cluster = with_two_directories()
    assign(cluster, SECOND, cluster.create("orders", (1,)))
    lose(cluster, SECOND)
    assert cluster.partition().leader == NO_LEADER
    # Any broker that comes makes the controller look for leaders, and so does whoever asks for one.
    cluster.fence(3)
    cluster.join(3, clean=True)
    cluster.do(ElectLeaders(ElectionType.UNCLEAN, (("orders", 0),)))
    assert cluster.partition().leader == NO_LEADER
    assert offline(cluster) == [1]
    # Started without the directory, it is no better.
    cluster.do(UnfenceBroker(ONE, cluster.register(1, clean=True)))
    assert cluster.partition().leader == NO_LEADER
    both(cluster)
    assert cluster.partition().leader == 1
    assert offline(cluster) == []


def test_the_preferred_leader_is_not_elected_in_a_failed_directory() -> None:
    cluster = with_two_directories()
    assign(cluster, SECOND, cluster.create("orders", (1, 2), min_insync_replicas="2"))
    lose(cluster, SECOND)
    cluster.put(isr=(), eligible_leaders=(1, 2), leader=2)
    cluster.do(ElectLeaders(ElectionType.PREFERRED, (("orders", 0),)))
    assert cluster.partition().leader == 2


def test_a_replica_made_anew_where_its_directory_was_lost_is_eligible_no_more() -> None:
    cluster = with_two_directories()
    topic_id = cluster.create("orders", (1, 2), min_insync_replicas="2")
    assign(cluster, SECOND, topic_id)
    cluster.fence(2)
    lose(cluster, SECOND)
    assert shape(cluster.partition()) == (NO_LEADER, (), (1, 2))
    # The disk was replaced: the partition begins without records in the other directory.
    assign(cluster, directory_of(1), topic_id)
    assert shape(cluster.partition()) == (NO_LEADER, (), (2,))
    cluster.join(2, clean=True)
    assert cluster.partition().leader == 2


def test_an_only_replica_whose_directory_was_replaced_leads_again_and_says_that_records_are_lost() -> None:
    cluster = with_two_directories()
    topic_id = cluster.create("orders", (1,))
    assign(cluster, SECOND, topic_id)
    lose(cluster, SECOND)
    assign(cluster, directory_of(1), topic_id)
    assert shape(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().recovering


def test_a_replica_that_is_damaged_is_led_by_others_and_counts_no_more() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3), min_insync_replicas="2")
    cluster.put(isr=(1, 2))
    before = cluster.partition()

    assert damaged(cluster, 1) == [ErrorCode.NONE]

    found = cluster.partition()
    assert shape(found) == (2, (2,), ()), "it is not eligible either: it lacks what is committed"
    assert found.leader_epoch == before.leader_epoch + 1
    assert found.directories == before.directories
    check_invariants(cluster)


def test_a_damaged_replica_that_is_not_in_sync_begins_a_leader_epoch_all_the_same() -> None:
    """Else the leader might take it for one that has everything, by what it heard before."""
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3))
    cluster.put(isr=(1, 2))
    before = cluster.partition()

    damaged(cluster, 3)

    assert shape(cluster.partition()) == shape(before)
    assert cluster.partition().leader_epoch == before.leader_epoch + 1


def test_a_damaged_replica_leads_on_where_nobody_else_is_in_sync() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3))
    cluster.put(isr=(1,))
    before = cluster.partition()

    damaged(cluster, 1)

    assert cluster.partition() == before


def damaged(cluster: Cluster, broker: int) -> list[ErrorCode]:
    ref = PartitionRef(cluster.image.topics["orders"].id, 0)
    return cluster.do(
        AssignReplicasToDirectories(BrokerId(broker), cluster.epoch(broker), ((LOST_DIRECTORY, ref),))
    )
