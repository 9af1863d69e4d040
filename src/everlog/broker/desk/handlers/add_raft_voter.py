"""AddRaftVoter, versions 0 and 1: a replica that follows is to vote (KIP-853).

Version 1 may ask for the answer as soon as the change is in the log, before it is committed.
"""

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.peers.address import Address
from everlog.raft.messages import AddVoter, Answer, ChangeReply, Endpoint, ReplicaKey
from everlog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(desk: QuorumDesk, request: AddRaftVoterRequest, exchange: Exchange) -> None:
    """Add a voter once it has caught up, and answer when that is committed, or why it cannot be."""
    fault = _fault(desk, request)
    if fault is not None:
        exchange.answer(AddRaftVoterResponse(error_code=fault[0], error_message=fault[1]))
        return

    def done(answer: Answer) -> None:
        assert isinstance(answer, ChangeReply), answer
        exchange.answer(AddRaftVoterResponse(error_code=answer.error, error_message=answer.message or None))

    endpoints = tuple(Endpoint(one.name, Address(one.host, one.port)) for one in request.listeners)
    voter = ReplicaKey(request.voter_id, request.voter_directory_id)
    desk.quorum.asked(AddVoter(voter, endpoints, request.timeout_ms, request.ack_when_committed), done)


def _fault(desk: QuorumDesk, request: AddRaftVoterRequest) -> tuple[ErrorCode, str] | None:
    if request.cluster_id is not None and request.cluster_id != desk.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, f"the cluster is {desk.cluster_id}"
    if request.voter_id < 0:
        return ErrorCode.INVALID_REQUEST, f"voter id {request.voter_id}, expected 0 or more"
    if not request.listeners or not all(one.host and one.port for one in request.listeners):
        return ErrorCode.INVALID_REQUEST, f"voter {request.voter_id} comes without a listener"
    if request.timeout_ms < 0:
        return ErrorCode.INVALID_REQUEST, f"a time-out of {request.timeout_ms} ms, expected 0 or more"
    return None
