"""Fetch of the metadata log, versions 12 to 18: replicas of the quorum and brokers follow it (KIP-595).

From version 13 on the topic goes by its id, 17 adds the replica's directory, 18 its high watermark.
"""

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.raft.messages import Answer, FetchReply
from everlog.raft.wire.answering import fetch_response, read_fetch
from everlog.wire.messages.fetch import FetchRequest


def handle(desk: QuorumDesk, request: FetchRequest, exchange: Exchange) -> None:
    """Answer with what comes next in the log, now or when there is something new."""
    quorum = desk.quorum
    asked = read_fetch(request, exchange.api_version, desk.cluster_id)
    if isinstance(asked, ErrorCode):
        exchange.answer(fetch_response(asked, exchange.api_version, None))
        return

    def done(answer: Answer) -> None:
        assert isinstance(answer, FetchReply), answer
        exchange.answer(fetch_response(answer, exchange.api_version, quorum.leader_address))

    quorum.asked(asked, done)
