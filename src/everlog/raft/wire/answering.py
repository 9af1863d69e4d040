"""What others send to a replica, and how it answers."""

from collections.abc import Sequence
from typing import Protocol

from everlog.model.errors import ErrorCode
from everlog.model.ids import METADATA_TOPIC_ID, NO_UUID, Offset, Uuid
from everlog.model.topics import METADATA_TOPIC
from everlog.peers.address import Address
from everlog.raft.messages import (
    FETCH_BYTES,
    NOTHING,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Noted,
    ReplicaKey,
    SnapshotId,
    SnapshotReply,
    Vote,
    VoteReply,
)
from everlog.raft.wire import FETCHES_BY_TOPIC_ID, NOBODY
from everlog.wire.messages import begin_quorum_epoch as begin
from everlog.wire.messages import end_quorum_epoch as end
from everlog.wire.messages import fetch, fetch_snapshot, vote


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...


class _Topic(Protocol):
    @property
    def topic_name(self) -> str: ...
    @property
    def partitions(self) -> Sequence[_Partition]: ...


def _fault(named: str | None, cluster_id: str, topics: Sequence[_Topic]) -> ErrorCode:
    """Why a request cannot be meant for this log, if it cannot."""
    if named is not None and named != cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.INVALID_REQUEST if topics[0].partitions[0].partition_index else ErrorCode.NONE


def _meant(voter: int, directory: Uuid, me: ReplicaKey) -> ReplicaKey:
    """The voter that a request is for; version 0 does not say, and means whoever gets it."""
    return ReplicaKey(me.id if voter < 0 else voter, directory)


def read_vote(message: vote.VoteRequest, cluster_id: str, me: ReplicaKey) -> Vote | ErrorCode:
    """The vote that somebody asks for, or why it cannot be meant for us."""
    if fault := _fault(message.cluster_id, cluster_id, message.topics):
        return fault
    asked = message.topics[0].partitions[0]
    if (
        asked.replica_id < 0
        or asked.replica_epoch < 0
        or asked.last_offset < 0
        or asked.last_offset_epoch < -1
    ):
        return ErrorCode.INVALID_REQUEST
    return Vote(
        ReplicaKey(asked.replica_id, asked.replica_directory_id),
        asked.replica_epoch,
        asked.last_offset_epoch,
        Offset(asked.last_offset),
        asked.pre_vote,
        _meant(message.voter_id, asked.voter_directory_id, me),
    )


def vote_response(answer: VoteReply | ErrorCode, leader_address: Address | None) -> vote.VoteResponse:
    """The answer to a vote, or to what is none."""
    if isinstance(answer, ErrorCode):
        return vote.VoteResponse(error_code=answer)
    voted = vote.ResponsePartitionData(
        error_code=answer.error,
        leader_id=_id(answer.leader),
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    return vote.VoteResponse(
        topics=[vote.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[voted])],
        node_endpoints=[
            vote.NodeEndpoint(node_id=node, host=at.host, port=at.port)
            for node, at in _endpoint(answer.leader, leader_address)
        ],
    )


def read_begin(
    message: begin.BeginQuorumEpochRequest, cluster_id: str, me: ReplicaKey
) -> BeginEpoch | ErrorCode:
    """The epoch that a leader has begun, or why it cannot be meant for us."""
    if fault := _fault(message.cluster_id, cluster_id, message.topics):
        return fault
    asked = message.topics[0].partitions[0]
    if asked.leader_id < 0 or asked.leader_epoch < 0:
        return ErrorCode.INVALID_REQUEST
    voter = _meant(message.voter_id, asked.voter_directory_id, me)
    if voter.id != me.id or voter.directory not in (NO_UUID, me.directory):
        return ErrorCode.INVALID_VOTER_KEY
    return BeginEpoch(asked.leader_id, asked.leader_epoch, voter)


def begin_response(
    asked: BeginEpoch | None, answer: Noted | ErrorCode, leader_address: Address | None
) -> begin.BeginQuorumEpochResponse:
    """The answer to a leader that has begun an epoch."""
    if isinstance(answer, ErrorCode):
        return begin.BeginQuorumEpochResponse(error_code=answer)
    noted = begin.ResponsePartitionData(
        error_code=_fenced(asked, answer), leader_id=_id(answer.leader), leader_epoch=answer.epoch
    )
    return begin.BeginQuorumEpochResponse(
        topics=[begin.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[noted])],
        node_endpoints=[
            begin.NodeEndpoint(node_id=node, host=at.host, port=at.port)
            for node, at in _endpoint(answer.leader, leader_address)
        ],
    )


def read_end(message: end.EndQuorumEpochRequest, cluster_id: str) -> EndEpoch | ErrorCode:
    """The epoch that a leader has ended, or why it cannot be meant for us."""
    if fault := _fault(message.cluster_id, cluster_id, message.topics):
        return fault
    asked = message.topics[0].partitions[0]
    if asked.leader_id < 0 or asked.leader_epoch < 0:
        return ErrorCode.INVALID_REQUEST
    candidates = [one.candidate_id for one in asked.preferred_candidates] or asked.preferred_successors
    return EndEpoch(asked.leader_id, asked.leader_epoch, tuple(candidates))


def end_response(
    asked: EndEpoch | None, answer: Noted | ErrorCode, leader_address: Address | None
) -> end.EndQuorumEpochResponse:
    """The answer to a leader that has ended its epoch."""
    if isinstance(answer, ErrorCode):
        return end.EndQuorumEpochResponse(error_code=answer)
    noted = end.ResponsePartitionData(
        error_code=_fenced(asked, answer), leader_id=_id(answer.leader), leader_epoch=answer.epoch
    )
    return end.EndQuorumEpochResponse(
        topics=[end.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[noted])],
        node_endpoints=[
            end.NodeEndpoint(node_id=node, host=at.host, port=at.port)
            for node, at in _endpoint(answer.leader, leader_address)
        ],
    )


def _fenced(asked: BeginEpoch | EndEpoch | None, answer: Noted) -> ErrorCode:
    is_late = asked is not None and asked.epoch < answer.epoch
    return ErrorCode.FENCED_LEADER_EPOCH if is_late else ErrorCode.NONE


def read_fetch(message: fetch.FetchRequest, version: int, cluster_id: str) -> Fetch | ErrorCode:
    """The fetch of the metadata log that a replica sends, or why it cannot be meant for us."""
    if message.cluster_id is not None and message.cluster_id != cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    topics = message.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return ErrorCode.INVALID_REQUEST
    by_id = version >= FETCHES_BY_TOPIC_ID
    if by_id and topics[0].topic_id != METADATA_TOPIC_ID:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not by_id and topics[0].topic != METADATA_TOPIC:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = topics[0].partitions[0]
    if asked.partition:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.fetch_offset < 0 or asked.last_fetched_epoch < -1:
        return ErrorCode.INVALID_REQUEST
    node = message.replica_id if message.replica_id >= 0 else message.replica_state.replica_id
    return Fetch(
        ReplicaKey(node, asked.replica_directory_id),
        asked.current_leader_epoch,
        Offset(asked.fetch_offset),
        asked.last_fetched_epoch,
        Offset(max(asked.high_watermark, NOTHING)),
        max(message.max_wait_ms, 0),
        max(min(message.max_bytes, asked.partition_max_bytes), 1),
    )


def fetch_response(
    answer: FetchReply | ErrorCode, version: int, leader_address: Address | None
) -> fetch.FetchResponse:
    """The answer to a fetch of the metadata log."""
    if isinstance(answer, ErrorCode):
        return fetch.FetchResponse(error_code=answer)
    found = fetch.PartitionData(
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=_id(answer.leader), leader_epoch=answer.epoch),
        records=b"".join(answer.batches),
    )
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        found.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if answer.snapshot is not None:
        found.snapshot_id = fetch.SnapshotId(end_offset=answer.snapshot.end, epoch=answer.snapshot.epoch)
    topic = fetch.FetchableTopicResponse(partitions=[found])
    if version >= FETCHES_BY_TOPIC_ID:
        topic.topic_id = METADATA_TOPIC_ID
    else:
        topic.topic = METADATA_TOPIC
    return fetch.FetchResponse(
        responses=[topic],
        node_endpoints=[
            fetch.NodeEndpoint(node_id=node, host=at.host, port=at.port)
            for node, at in _endpoint(answer.leader, leader_address)
        ],
    )


def read_snapshot_fetch(
    message: fetch_snapshot.FetchSnapshotRequest, cluster_id: str
) -> FetchSnapshot | ErrorCode:
    """The part of a snapshot that a replica asks for, or why it cannot be meant for us."""
    if message.cluster_id is not None and message.cluster_id != cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    topics = message.topics
    if len(topics) != 1 or topics[0].name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = topics[0].partitions[0]
    if asked.partition:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.position < 0 or asked.snapshot_id.end_offset < 0 or asked.snapshot_id.epoch < 0:
        return ErrorCode.INVALID_REQUEST
    return FetchSnapshot(
        ReplicaKey(message.replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        SnapshotId(Offset(asked.snapshot_id.end_offset), asked.snapshot_id.epoch),
        asked.position,
        max(1, min(message.max_bytes, FETCH_BYTES)),
    )


def snapshot_response(
    asked: FetchSnapshot | None, answer: SnapshotReply | ErrorCode, leader_address: Address | None
) -> fetch_snapshot.FetchSnapshotResponse:
    """The answer to a fetch of a part of a snapshot."""
    if asked is None or isinstance(answer, ErrorCode):
        assert isinstance(answer, ErrorCode), answer
        return fetch_snapshot.FetchSnapshotResponse(error_code=answer)
    found = fetch_snapshot.ResponsePartitionSnapshot(
        error_code=answer.error,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=asked.snapshot.end, epoch=asked.snapshot.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=_id(answer.leader), leader_epoch=answer.epoch
        ),
        size=answer.size,
        position=asked.position,
        unaligned_records=answer.data,
    )
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[fetch_snapshot.ResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[found])],
        node_endpoints=[
            fetch_snapshot.NodeEndpoint(node_id=node, host=at.host, port=at.port)
            for node, at in _endpoint(answer.leader, leader_address)
        ],
    )


def _id(leader: int | None) -> int:
    return NOBODY if leader is None else leader


def _endpoint(leader: int | None, address: Address | None) -> list[tuple[int, Address]]:
    return [] if leader is None or address is None else [(leader, address)]
