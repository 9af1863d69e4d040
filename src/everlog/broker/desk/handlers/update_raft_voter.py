"""UpdateRaftVoter, version 0: a voter listens elsewhere than the log has it (KIP-853)."""

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.peers.address import Address
from everlog.raft.messages import Answer, ChangeReply, Endpoint, ReplicaKey, UpdateVoter
from everlog.raft.wire import NOBODY
from everlog.wire.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)


def handle(desk: QuorumDesk, request: UpdateRaftVoterRequest, exchange: Exchange) -> None:
    """Write down where a voter listens, and answer when that is committed, or why it cannot be."""
    quorum = desk.quorum
    fault = _fault(desk, request)
    if fault is not ErrorCode.NONE:
        exchange.answer(UpdateRaftVoterResponse(error_code=fault))
        return

    def done(answer: Answer) -> None:
        assert isinstance(answer, ChangeReply), answer
        leader = CurrentLeader(
            leader_id=NOBODY if answer.leader is None else answer.leader, leader_epoch=answer.epoch
        )
        address = quorum.leader_address
        if address is not None and answer.leader is not None:
            leader.host, leader.port = address.host, address.port
        exchange.answer(UpdateRaftVoterResponse(error_code=answer.error, current_leader=leader))

    endpoints = tuple(Endpoint(one.name, Address(one.host, one.port)) for one in request.listeners)
    quorum.asked(UpdateVoter(ReplicaKey(request.voter_id, request.voter_directory_id), endpoints), done)


def _fault(desk: QuorumDesk, request: UpdateRaftVoterRequest) -> ErrorCode:
    if request.cluster_id is not None and request.cluster_id != desk.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.current_leader_epoch < desk.quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if request.current_leader_epoch > desk.quorum.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not request.listeners or not all(one.host and one.port for one in request.listeners):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE
