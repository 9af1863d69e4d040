"""Vote, versions 0 to 2: another voter stands for election (KIP-595; 1 adds directories, 2 pre-votes)."""

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.raft.messages import Answer, VoteReply
from everlog.raft.wire.answering import read_vote, vote_response
from everlog.wire.messages.vote import VoteRequest


def handle(desk: QuorumDesk, request: VoteRequest, exchange: Exchange) -> None:
    """Ask this replica for its vote, and answer once that is on disk."""
    quorum = desk.quorum
    asked = read_vote(request, desk.cluster_id, quorum.me)
    if isinstance(asked, ErrorCode):
        exchange.answer(vote_response(asked, None))
        return

    def done(answer: Answer) -> None:
        assert isinstance(answer, VoteReply), answer
        exchange.answer(vote_response(answer, quorum.leader_address))

    quorum.asked(asked, done)
