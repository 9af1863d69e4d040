"""RemoveRaftVoter, version 0: a voter is to vote no more (KIP-853)."""

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.raft.messages import Answer, ChangeReply, RemoveVoter, ReplicaKey
from everlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def handle(desk: QuorumDesk, request: RemoveRaftVoterRequest, exchange: Exchange) -> None:
    """Remove a voter, and answer when that is committed, or why it cannot be."""
    if request.cluster_id is not None and request.cluster_id != desk.cluster_id:
        exchange.answer(
            RemoveRaftVoterResponse(
                error_code=ErrorCode.INCONSISTENT_CLUSTER_ID,
                error_message=f"the cluster is {desk.cluster_id}",
            )
        )
        return

    def done(answer: Answer) -> None:
        assert isinstance(answer, ChangeReply), answer
        exchange.answer(
            RemoveRaftVoterResponse(error_code=answer.error, error_message=answer.message or None)
        )

    desk.quorum.asked(RemoveVoter(ReplicaKey(request.voter_id, request.voter_directory_id)), done)
