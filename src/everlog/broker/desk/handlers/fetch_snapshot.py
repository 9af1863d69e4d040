"""FetchSnapshot, versions 0 and 1: replicas that are too far behind get a snapshot first (KIP-630).

Version 1 adds the replica's directory.
"""

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.raft.messages import Answer, SnapshotReply
from everlog.raft.wire.answering import read_snapshot_fetch, snapshot_response
from everlog.wire.messages.fetch_snapshot import FetchSnapshotRequest


def handle(desk: QuorumDesk, request: FetchSnapshotRequest, exchange: Exchange) -> None:
    """Answer with bytes of a snapshot, if this replica leads and has it."""
    quorum = desk.quorum
    asked = read_snapshot_fetch(request, desk.cluster_id)
    if isinstance(asked, ErrorCode):
        exchange.answer(snapshot_response(None, asked, None))
        return

    def done(answer: Answer) -> None:
        assert isinstance(answer, SnapshotReply), answer
        exchange.answer(snapshot_response(asked, answer, quorum.leader_address))

    quorum.asked(asked, done)
