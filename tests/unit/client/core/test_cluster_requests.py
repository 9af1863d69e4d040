"""What an Admin asks about voters and directories, and how the answers are read."""

import pytest

from everlog.client.core.admin.cluster import QuorumEndpoint, read_quorum
from everlog.client.core.admin.log_dirs import read_log_dirs
from everlog.client.core.admin.voters import add_voter_request, read_voter_changed, remove_voter_request
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.add_raft_voter import AddRaftVoterResponse
from everlog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from everlog.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from everlog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse

DIRECTORY = Uuid(bytes(range(16)))


def test_a_new_voter_is_named_with_its_directory_and_all_of_its_endpoints() -> None:
    endpoints = [QuorumEndpoint("CONTROLLER", "host", 9093), QuorumEndpoint("OTHER", "host", 9094)]

    request = add_voter_request(4, DIRECTORY, endpoints, "cluster", 1500)

    assert (request.voter_id, request.voter_directory_id) == (4, DIRECTORY)
    assert (request.cluster_id, request.timeout_ms, request.ack_when_committed) == ("cluster", 1500, True)
    assert [(each.name, each.port) for each in request.listeners] == [("CONTROLLER", 9093), ("OTHER", 9094)]


def test_a_voter_that_goes_is_named_with_its_directory() -> None:
    request = remove_voter_request(4, DIRECTORY, None)

    assert (request.voter_id, request.voter_directory_id, request.cluster_id) == (4, DIRECTORY, None)


def test_a_voter_that_is_refused_is_named_in_the_error() -> None:
    read_voter_changed(AddRaftVoterResponse(error_code=0), 4, DIRECTORY)
    read_voter_changed(RemoveRaftVoterResponse(error_code=0), 4, DIRECTORY)

    with pytest.raises(Refused, match="voter 4 with directory AAECAwQFBgcICQoLDA0ODw: DUPLICATE_VOTER"):
        read_voter_changed(AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER), 4, DIRECTORY)


def test_a_quorum_tells_directories_and_where_voters_listen() -> None:
    voter = ReplicaState(replica_id=1, replica_directory_id=DIRECTORY, log_end_offset=7)
    partition = ResponsePartitionData(leader_id=1, leader_epoch=2, high_watermark=7, current_voters=[voter])

    quorum = read_quorum(
        DescribeQuorumResponse(
            topics=[ResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])],
            nodes=[Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="h", port=9093)])],
        )
    )

    assert quorum.voters[0].directory_id == DIRECTORY
    assert quorum.voters[0].last_fetch_timestamp is None
    assert quorum.endpoints == {1: [QuorumEndpoint("CONTROLLER", "h", 9093)]}


def test_a_directory_tells_how_much_of_what_moves_in_is_there() -> None:
    def entry(partition: int, size: int, lag: int, future: bool) -> DescribeLogDirsPartition:
        return DescribeLogDirsPartition(
            partition_index=partition, partition_size=size, offset_lag=lag, is_future_key=future
        )

    topic = DescribeLogDirsTopic(name="t", partitions=[entry(0, 100, 0, False), entry(1, 40, 6, True)])
    result = DescribeLogDirsResult(log_dir="/d", topics=[topic], total_bytes=1000, usable_bytes=600)

    (found,) = read_log_dirs(DescribeLogDirsResponse(results=[result]), 3)

    assert found.moving_in_bytes == {TopicPartition("t", 1): 40}
    assert found.records_behind == {TopicPartition("t", 0): 0, TopicPartition("t", 1): 6}
