"""DescribeQuorum, versions 0 to 2: who leads, votes and follows, and how far each is (KIP-595).

Version 1 adds when each was heard from, 2 directories, listeners and messages with errors.
"""

from collections.abc import Iterable

from everlog.broker.desk.handlers.quorum_desk import QuorumDesk
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID
from everlog.model.topics import METADATA_TOPIC
from everlog.raft.description import QuorumDescription, ReplicaDescription
from everlog.raft.member import QuorumMember
from everlog.raft.wire import NOBODY
from everlog.wire.messages import describe_quorum as wire

_FIRST_WITH_NODES = 2
"""The first version that has directories and listeners."""


def handle(desk: QuorumDesk, request: wire.DescribeQuorumRequest, exchange: Exchange) -> None:
    """Answer as the leader; another says that it does not lead."""
    quorum = desk.quorum
    found = quorum.describe()
    is_new = exchange.api_version >= _FIRST_WITH_NODES
    exchange.answer(
        wire.DescribeQuorumResponse(
            error_message=None,
            topics=[
                wire.ResponseTopicData(
                    topic_name=topic.topic_name,
                    partitions=[
                        _partition(quorum, found, topic.topic_name, one.partition_index, is_new)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
            nodes=_nodes(quorum) if found is not None and is_new else [],
        )
    )


def _partition(
    quorum: QuorumMember, found: QuorumDescription | None, topic: str, number: int, is_new: bool
) -> wire.ResponsePartitionData:
    if topic != METADATA_TOPIC or number != 0:
        return _error(quorum, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"expected {METADATA_TOPIC}-0")
    if found is None:
        return _error(quorum, number, ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the quorum")
    return wire.ResponsePartitionData(
        partition_index=number,
        error_message=None,
        leader_id=quorum.node_id,
        leader_epoch=quorum.epoch,
        high_watermark=found.high_watermark,
        current_voters=_replicas(found.voters, is_new),
        observers=_replicas(found.observers, is_new),
    )


def _error(quorum: QuorumMember, number: int, code: ErrorCode, message: str) -> wire.ResponsePartitionData:
    return wire.ResponsePartitionData(
        partition_index=number,
        error_code=code,
        error_message=message,
        leader_id=NOBODY if quorum.leader is None else quorum.leader,
        leader_epoch=quorum.epoch,
        high_watermark=-1,
    )


def _replicas(replicas: Iterable[ReplicaDescription], is_new: bool) -> list[wire.ReplicaState]:
    return [
        wire.ReplicaState(
            replica_id=one.key.id,
            replica_directory_id=one.key.directory if is_new else NO_UUID,
            log_end_offset=one.end,
            last_fetch_timestamp=one.fetched_at,
            last_caught_up_timestamp=one.caught_up_at,
        )
        for one in replicas
    ]


def _nodes(quorum: QuorumMember) -> list[wire.Node]:
    return [
        wire.Node(
            node_id=voter.id,
            listeners=[
                wire.Listener(name=one.name, host=one.address.host, port=one.address.port)
                for one in quorum.voters.endpoints(voter.id)
            ],
        )
        for voter in quorum.voters
    ]
