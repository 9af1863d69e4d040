"""EndQuorumEpoch, versions 0 and 1: a leader steps down (KIP-595; KIP-853 adds directories and listeners)."""

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.raft.messages import Answer, Noted
from everlog.raft.wire.answering import end_response, read_end
from everlog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest


def handle(desk: QuorumDesk, request: EndQuorumEpochRequest, exchange: Exchange) -> None:
    """Stand for election in the order that the leader has given, and say which epoch this replica is in."""
    quorum = desk.quorum
    asked = read_end(request, desk.cluster_id)
    if isinstance(asked, ErrorCode):
        exchange.answer(end_response(None, asked, None))
        return

    def done(answer: Answer) -> None:
        assert isinstance(answer, Noted), answer
        exchange.answer(end_response(asked, answer, quorum.leader_address))

    quorum.asked(asked, done)
