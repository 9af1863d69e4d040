"""BeginQuorumEpoch, versions 0 and 1: a new leader makes itself known (KIP-595; 1 adds its listeners)."""

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.peers.address import Address
from everlog.raft.messages import Answer, Noted
from everlog.raft.wire.answering import begin_response, read_begin
from everlog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest


def handle(desk: QuorumDesk, request: BeginQuorumEpochRequest, exchange: Exchange) -> None:
    """Follow the leader of a new epoch, and say which epoch this replica is in."""
    quorum = desk.quorum
    asked = read_begin(request, desk.cluster_id, quorum.me)
    if isinstance(asked, ErrorCode):
        exchange.answer(begin_response(None, asked, None))
        return
    for endpoint in request.leader_endpoints[:1]:
        quorum.learn({asked.leader: Address(endpoint.host, endpoint.port)})

    def done(answer: Answer) -> None:
        assert isinstance(answer, Noted), answer
        exchange.answer(begin_response(asked, answer, quorum.leader_address))

    quorum.asked(asked, done)
