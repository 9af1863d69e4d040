"""OffsetCommit, versions 2 to 10.

Up to 4 a commit may say how long to keep it, 6 has the leader epoch, 7 static members, 8 is flexible, 9 takes
the member epochs of the newer group protocol (KIP-848), 10 names topics by id.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.offset_claims import OffsetClaims
from everlog.coordinator.group.offsets import CommitOffsets
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_IDS = 10


def handle(broker: "Broker", request: OffsetCommitRequest, exchange: Exchange) -> None:
    """Commit what names a partition that exists, and answer for each partition."""
    claims = OffsetClaims(broker, _answer, by_id=exchange.api_version >= _FIRST_WITH_IDS)
    answer = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=claims.add(asked.name, asked.topic_id, asked.partitions),
            )
            for asked in request.topics
        ]
    )
    if not claims.offsets:
        exchange.answer(answer)
        return

    def done(reply: list[ErrorCode] | Refused | StorageError) -> None:
        claims.answered(reply)
        exchange.answer(answer)

    command = CommitOffsets(
        request.group_id,
        tuple(claims.offsets),
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        request.retention_time_ms,
        api_version=exchange.api_version,
    )
    try:
        shard = broker.coordinators.group_shard(request.group_id)
    except Refused as refused:
        done(refused)
        return
    shard.offsets.commit(command, done)


def _answer(index: int) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=index)
