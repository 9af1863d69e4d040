"""What a replica sends to others, and what it makes of their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, assert_never

from everlog.model.dataclass import dataclass
from everlog.model.errors import CorruptDataError, ErrorCode, ProtocolError
from everlog.model.ids import METADATA_TOPIC_ID, Offset
from everlog.model.topics import METADATA_TOPIC
from everlog.peers.address import Address
from everlog.raft.messages import (
    NOTHING,
    Answer,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Noted,
    Request,
    SnapshotId,
    SnapshotReply,
    Vote,
    VoteReply,
)
from everlog.raft.wire import EPOCH_VERSION, FETCH_VERSION, NOBODY, SNAPSHOT_VERSION, VOTE_VERSION
from everlog.records.batch import whole_batches
from everlog.wire.message import Message
from everlog.wire.messages import begin_quorum_epoch as begin
from everlog.wire.messages import end_quorum_epoch as end
from everlog.wire.messages import fetch, fetch_snapshot, vote


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends, as requests say it."""

    cluster_id: str
    listener: str = ""
    """The name of the listener on which this node serves the quorum."""
    address: Address | None = None
    """Where that is; None for one who does not serve it."""


@dataclass(frozen=True, slots=True)
class Read:
    """An answer, and where nodes listen that it speaks of."""

    answer: Answer
    endpoints: Mapping[int, Address] = field(default_factory=dict[int, Address])


def request_message(request: Request, sender: Sender) -> tuple[Message, int]:
    """What to send for a request, and the version that it is written for."""
    match request:
        case Vote():
            return _vote_request(request, sender), VOTE_VERSION
        case BeginEpoch():
            return _begin_request(request, sender), EPOCH_VERSION
        case EndEpoch():
            return _end_request(request, sender), EPOCH_VERSION
        case Fetch():
            return _fetch_request(request, sender), FETCH_VERSION
        case FetchSnapshot():
            return _snapshot_request(request, sender), SNAPSHOT_VERSION
        case _:
            assert_never(request)


def _vote_request(request: Vote, sender: Sender) -> vote.VoteRequest:
    asked = vote.RequestPartitionData(
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory,
        voter_directory_id=request.voter.directory,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end,
        pre_vote=request.is_pre,
    )
    topics = [vote.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[asked])]
    return vote.VoteRequest(cluster_id=sender.cluster_id, voter_id=request.voter.id, topics=topics)


def _begin_request(request: BeginEpoch, sender: Sender) -> begin.BeginQuorumEpochRequest:
    begun = begin.RequestPartitionData(
        voter_directory_id=request.voter.directory, leader_id=request.leader, leader_epoch=request.epoch
    )
    here = sender.address
    return begin.BeginQuorumEpochRequest(
        cluster_id=sender.cluster_id,
        voter_id=request.voter.id,
        topics=[begin.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[begun])],
        leader_endpoints=[]
        if here is None
        else [begin.LeaderEndpoint(name=sender.listener, host=here.host, port=here.port)],
    )


def _end_request(request: EndEpoch, sender: Sender) -> end.EndQuorumEpochRequest:
    ended = end.RequestPartitionData(
        leader_id=request.leader,
        leader_epoch=request.epoch,
        preferred_candidates=[end.ReplicaInfo(candidate_id=node) for node in request.successors],
    )
    here = sender.address
    return end.EndQuorumEpochRequest(
        cluster_id=sender.cluster_id,
        topics=[end.RequestTopicData(topic_name=METADATA_TOPIC, partitions=[ended])],
        leader_endpoints=[]
        if here is None
        else [end.LeaderEndpoint(name=sender.listener, host=here.host, port=here.port)],
    )


def _fetch_request(request: Fetch, sender: Sender) -> fetch.FetchRequest:
    asked = fetch.FetchPartition(
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=sender.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.wait_ms,
        max_bytes=request.max_bytes,
        topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[asked])],
    )


def _snapshot_request(request: FetchSnapshot, sender: Sender) -> fetch_snapshot.FetchSnapshotRequest:
    asked = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=request.snapshot.end, epoch=request.snapshot.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=sender.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[fetch_snapshot.RequestTopicSnapshot(name=METADATA_TOPIC, partitions=[asked])],
    )


def read_answer(request: Request, response: Message) -> Read:
    """The answer to a request; ProtocolError where it says nothing that an answer could say."""
    match request, response:
        case Vote(), vote.VoteResponse():
            asked = _only(response)
            answer: Answer = VoteReply(
                asked.leader_epoch, _leader(asked.leader_id), asked.vote_granted, _code(asked.error_code)
            )
        case BeginEpoch(), begin.BeginQuorumEpochResponse():
            asked = _only(response)
            answer = Noted(asked.leader_epoch, _leader(asked.leader_id))
        case EndEpoch(), end.EndQuorumEpochResponse():
            asked = _only(response)
            answer = Noted(asked.leader_epoch, _leader(asked.leader_id))
        case Fetch(), fetch.FetchResponse():
            answer = _read_fetched(response)
        case FetchSnapshot(), fetch_snapshot.FetchSnapshotResponse():
            answer = _read_part(request, response)
        case _:
            raise AssertionError((request, response))
    return Read(answer, _endpoints(response))


class _Endpoint(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def _endpoints(
    response: vote.VoteResponse
    | begin.BeginQuorumEpochResponse
    | end.EndQuorumEpochResponse
    | fetch.FetchResponse
    | fetch_snapshot.FetchSnapshotResponse,
) -> dict[int, Address]:
    found: Sequence[_Endpoint] = response.node_endpoints
    return {one.node_id: Address(one.host, one.port) for one in found if one.host and one.port > 0}


# The three answers have the same shape and no common type.
def _only(response: Any) -> Any:
    if response.error_code:
        raise ProtocolError(f"{type(response).__name__} has {_code(response.error_code).name}")
    topics = response.topics
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        raise ProtocolError(f"{type(response).__name__} has {topics}, expected {METADATA_TOPIC}-0 alone")
    return topics[0].partitions[0]


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # One that is newer than we are.


def _leader(node: int) -> int | None:
    return None if node == NOBODY else node


def _read_fetched(response: fetch.FetchResponse) -> FetchReply:
    if response.error_code:
        raise ProtocolError(f"FetchResponse has {_code(response.error_code).name}")
    match response.responses:
        case [fetch.FetchableTopicResponse(partitions=[found])] as topics if (
            topics[0].topic_id == METADATA_TOPIC_ID
        ):
            pass
        case _:
            raise ProtocolError(f"FetchResponse has {response.responses}, expected {METADATA_TOPIC}-0 alone")
    leader = found.current_leader
    if leader.leader_epoch < 0:
        raise ProtocolError(f"FetchResponse has the epoch {leader.leader_epoch}, expected 0 or more")
    parting, needed = found.diverging_epoch, found.snapshot_id
    try:
        batches = [bytes(batch.raw) for batch in whole_batches(found.records or b"")]
    except CorruptDataError as error:
        raise ProtocolError(f"FetchResponse has records that cannot be read: {error}") from error
    return FetchReply(
        leader.leader_epoch,
        _leader(leader.leader_id),
        Offset(max(found.high_watermark, NOTHING)),
        _code(found.error_code),
        (parting.epoch, Offset(parting.end_offset)) if parting.end_offset >= 0 else None,
        batches,
        SnapshotId(Offset(needed.end_offset), needed.epoch) if needed.end_offset >= 0 else None,
    )


def _read_part(request: FetchSnapshot, response: fetch_snapshot.FetchSnapshotResponse) -> SnapshotReply:
    if response.error_code:
        raise ProtocolError(f"FetchSnapshotResponse has {_code(response.error_code).name}")
    topics = response.topics
    if len(topics) != 1 or topics[0].name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        raise ProtocolError(f"FetchSnapshotResponse has {topics}, expected {METADATA_TOPIC}-0 alone")
    found = topics[0].partitions[0]
    leader = found.current_leader
    if leader.leader_epoch < 0:
        raise ProtocolError(f"FetchSnapshotResponse has the epoch {leader.leader_epoch}, expected 0 or more")
    error = _code(found.error_code)
    if error is ErrorCode.NONE and found.position != request.position:
        raise ProtocolError(
            f"FetchSnapshotResponse has bytes from {found.position} on, expected {request.position}"
        )
    return SnapshotReply(
        leader.leader_epoch, _leader(leader.leader_id), error, found.size, bytes(found.unaligned_records)
    )
