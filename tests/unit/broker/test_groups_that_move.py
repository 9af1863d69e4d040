"""Groups move with their partition: what was answered is there, what was not committed nobody hears of."""

import pytest

from everlog.broker.journal import ReplicaJournal
from everlog.coordinator.partitions import OFFSETS_TOPIC
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from everlog.wire.messages.join_group import JoinGroupResponse
from everlog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from everlog.wire.messages.offset_commit import OffsetCommitResponse
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.unit.broker.group_calls import a_commit, commit, committed_offset, find_coordinator
from tests.unit.broker.handlers.test_classic_groups import a_join, beat, joined, stable
from tests.unit.broker.joined import Host, JoinedCluster

NONE = ErrorCode.NONE


def a_cluster(**settings: str) -> JoinedCluster:
    """Three brokers, groups coordinated by the first."""
    cluster = JoinedCluster(settings)
    cluster.create_topic("orders", 1, 2)
    find_coordinator(cluster[1])
    cluster.move(OFFSETS_TOPIC, 1)
    cluster.settle()
    return cluster


def a_fetch() -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])


def fetch_error(host: Host) -> ErrorCode:
    return ErrorCode(host.ask(a_fetch(), 9, OffsetFetchResponse).groups[0].error_code)


def test_what_was_committed_with_one_coordinator_is_fetched_from_the_next() -> None:
    cluster = a_cluster()
    assert commit(cluster[1], a_commit("g", "orders", (0, 5), (1, 7))) == [NONE, NONE]

    cluster.move(OFFSETS_TOPIC, 2)
    cluster.settle()

    assert [committed_offset(cluster[2], "g", "orders", partition) for partition in (0, 1)] == [5, 7]
    assert commit(cluster[2], a_commit("g", "orders", (0, 6))) == [NONE]
    assert commit(cluster[1], a_commit("g", "orders", (0, 9))) == [ErrorCode.NOT_COORDINATOR]
    assert fetch_error(cluster[1]) is ErrorCode.NOT_COORDINATOR


def test_every_broker_names_the_one_that_leads_the_groups_partition() -> None:
    cluster = a_cluster()
    cluster.move(OFFSETS_TOPIC, 3)
    request = FindCoordinatorRequest(coordinator_keys=["g"])

    found = [cluster[number].ask(request, 4, FindCoordinatorResponse).coordinators[0] for number in (1, 2, 3)]

    assert {(one.error_code, one.node_id, one.host, one.port) for one in found} == {
        (NONE, 3, "broker-3", 9092)
    }


@pytest.mark.parametrize("leader", [-1, 3])
def test_a_coordinator_that_is_not_there_is_named_by_nobody(leader: int) -> None:
    cluster = a_cluster()
    cluster.fence(3)
    cluster.move(OFFSETS_TOPIC, leader)

    request = FindCoordinatorRequest(coordinator_keys=["g"])
    (found,) = cluster[1].ask(request, 4, FindCoordinatorResponse).coordinators

    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_a_commit_is_answered_when_every_replica_in_sync_has_it() -> None:
    cluster = a_cluster()
    cluster.standing = {3}
    client = cluster[1].client()

    client.ask(a_commit("g", "orders", (0, 5)), 9)
    cluster.settle()
    assert client.frames == []

    cluster.standing = set()
    cluster.settle()
    assert client.take(OffsetCommitResponse).topics[0].partitions[0].error_code == NONE


def test_a_commit_below_min_insync_replicas_is_refused_before_it_is_written() -> None:
    cluster = a_cluster(min_insync_replicas="2")
    cluster.move(OFFSETS_TOPIC, 1, isr=[1])
    cluster.settle()
    end = cluster[1].replica(OFFSETS_TOPIC).opened().end_offset

    assert commit(cluster[1], a_commit("g", "orders", (0, 5))) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    assert cluster[1].replica(OFFSETS_TOPIC).opened().end_offset == end


def test_a_lead_lost_before_the_commit_is_told_to_all_who_wait_and_leaves_nothing_behind() -> None:
    cluster = a_cluster()
    assert commit(cluster[1], a_commit("g", "orders", (0, 5))) == [NONE]
    cluster.standing = {2, 3}
    writer, reader = cluster[1].client(), cluster[1].client()
    writer.ask(a_commit("g", "orders", (0, 6)), 9)
    reader.ask(a_fetch(), 9)
    cluster.settle()
    assert (writer.frames, reader.frames) == ([], []), "the fetch rests on what is not committed"

    cluster.move(OFFSETS_TOPIC, 2, isr=[2, 3])
    cluster.standing = set()
    cluster.settle()

    assert writer.take(OffsetCommitResponse).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert reader.take(OffsetFetchResponse).groups[0].error_code == ErrorCode.NOT_COORDINATOR
    assert committed_offset(cluster[2], "g", "orders") == 5
    cluster.move(OFFSETS_TOPIC, 1, isr=[1, 2, 3])
    cluster.settle()
    assert committed_offset(cluster[1], "g", "orders") == 5, "it was lost with its leader"


def test_a_coordinator_serves_once_all_that_it_has_read_is_committed() -> None:
    cluster = a_cluster()
    cluster.standing = {3}
    client = cluster[1].client()
    client.ask(a_commit("g", "orders", (0, 5)), 9)
    cluster.settle()

    cluster.move(OFFSETS_TOPIC, 2)
    cluster.settle()
    # The record may yet be lost: the third broker could lead next and does not have it.
    assert fetch_error(cluster[2]) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    listed = cluster[2].ask(ListGroupsRequest(), 5, ListGroupsResponse)
    assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    cluster.standing = set()
    cluster.settle()
    assert committed_offset(cluster[2], "g", "orders") == 5


def test_the_same_leader_in_a_new_epoch_reads_its_log_anew() -> None:
    cluster = a_cluster()
    assert commit(cluster[1], a_commit("g", "orders", (0, 5))) == [NONE]
    before = cluster[1].broker.coordinators.group_shard("g")

    cluster.move(OFFSETS_TOPIC, 1)
    cluster.settle()

    after = cluster[1].broker.coordinators.group_shard("g")
    assert after is not before
    assert after.machine.coordinator_epoch == before.machine.coordinator_epoch + 1
    assert committed_offset(cluster[1], "g", "orders") == 5


def test_nothing_is_written_in_the_name_of_an_epoch_that_is_over() -> None:
    cluster = a_cluster()
    replica = cluster[1].replica(OFFSETS_TOPIC)
    journal = ReplicaJournal(cluster[1].broker, replica, replica.leader_epoch - 1)

    with pytest.raises(Refused) as caught:
        journal.append([(b"key", b"value")], None, cluster.clock.wall())

    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.opened().end_offset == 0


def test_a_classic_group_keeps_generation_members_and_assignments() -> None:
    cluster = a_cluster()
    member_id = stable(cluster[1])

    cluster.move(OFFSETS_TOPIC, 2)
    cluster.settle()

    assert beat(cluster[1], member_id) == ErrorCode.NOT_COORDINATOR
    assert beat(cluster[2], member_id) == NONE
    assert beat(cluster[2], "somebody else") == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(cluster[2], member_id, generation=0) == ErrorCode.ILLEGAL_GENERATION
    group = cluster[2].broker.coordinators.group_shard("g").group("g")
    assert group is not None
    described = group.describe()
    assert described is not None
    assert (described.state, [one.assignment for one in described.members]) == ("Stable", [b"all"])


def test_members_that_wait_for_a_rebalance_are_sent_to_the_next_coordinator() -> None:
    cluster = a_cluster()
    member_id = stable(cluster[1])
    client = cluster[1].client()
    client.ask(a_join(), 3)
    cluster.settle()
    assert client.frames == []
    assert beat(cluster[1], member_id) == ErrorCode.REBALANCE_IN_PROGRESS

    cluster.move(OFFSETS_TOPIC, 2)
    cluster.settle()

    assert client.take(JoinGroupResponse).error_code == ErrorCode.NOT_COORDINATOR
    assert beat(cluster[2], member_id) == NONE, "the rebalance is over, the generation is the last one"


def test_a_session_is_counted_from_when_the_next_coordinator_begins() -> None:
    cluster = a_cluster()
    member_id = stable(cluster[1])
    cluster.pass_time(9_000)

    cluster.move(OFFSETS_TOPIC, 2)
    cluster.settle()
    cluster.pass_time(9_000)
    assert beat(cluster[2], member_id) == NONE
    cluster.pass_time(10_001)
    assert beat(cluster[2], member_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_consumer_group_keeps_member_epochs_and_assignments() -> None:
    cluster = a_cluster()
    join = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="a",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    first = cluster[1].ask(join, 1, ConsumerGroupHeartbeatResponse)
    assert first.error_code == NONE
    assert first.assignment is not None

    cluster.move(OFFSETS_TOPIC, 2)
    cluster.settle()

    stay = ConsumerGroupHeartbeatRequest(group_id="readers", member_id="a", member_epoch=first.member_epoch)
    answer = cluster[2].ask(stay, 1, ConsumerGroupHeartbeatResponse)
    assert (answer.error_code, answer.member_epoch) == (NONE, first.member_epoch)
    old = cluster[1].ask(stay, 1, ConsumerGroupHeartbeatResponse)
    assert old.error_code == ErrorCode.NOT_COORDINATOR


def test_a_coordinator_that_has_not_heard_of_its_successor_answers_nobody_wrongly() -> None:
    cluster = a_cluster()
    assert commit(cluster[1], a_commit("g", "orders", (0, 5))) == [NONE]
    cluster.fall_behind(1)
    cluster.move(OFFSETS_TOPIC, 2, isr=[2, 3])
    cluster.settle()
    client = cluster[1].client()

    client.ask(a_commit("g", "orders", (0, 9)), 9)
    cluster.settle()
    assert client.frames == [], "nobody follows it any more, so nothing of it is committed"
    assert commit(cluster[2], a_commit("g", "orders", (0, 6))) == [NONE]

    cluster.catch_up(1)
    cluster.settle()
    assert client.take(OffsetCommitResponse).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert committed_offset(cluster[2], "g", "orders") == 6


def test_joining_goes_on_where_the_group_is_now() -> None:
    cluster = a_cluster()
    cluster.move(OFFSETS_TOPIC, 2)
    cluster.settle()

    assert joined(cluster[2], 9).generation_id == 1
