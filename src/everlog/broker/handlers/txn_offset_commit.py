"""TxnOffsetCommit, versions 0 to 6.

2 has the leader epoch, 3 is flexible and names the group's member (KIP-447), 4 may answer that the
transaction is to be aborted, 5 adds the group's partition to the transaction by itself (KIP-890), 6 names
topics by id.

The offsets are written as part of the producer's transaction, and count once its marker says so.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.offset_claims import OffsetClaims
from everlog.broker.txn_verification import verify_offsets
from everlog.coordinator.group.offsets import CommitOffsets
from everlog.coordinator.machine import ProducerStamp
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_IDS = 6


def handle(broker: "Broker", request: TxnOffsetCommitRequest, exchange: Exchange) -> None:
    """Write what names a partition that exists into the transaction, and answer for each partition."""
    claims = OffsetClaims(broker, _answer, by_id=exchange.api_version >= _FIRST_WITH_IDS)
    answer = TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
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

    producer = ProducerStamp(request.producer_id, request.producer_epoch)
    command = CommitOffsets(
        request.group_id,
        tuple(claims.offsets),
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        producer=producer,
        api_version=exchange.api_version,
    )
    try:
        shard = broker.coordinators.group_shard(request.group_id)
    except Refused as refused:
        done(refused)
        return

    def verified(refusal: Refused | None) -> None:
        if refusal is not None:
            done(refusal)
        else:
            shard.offsets.commit(command, done)

    verify_offsets(
        broker, request.transactional_id, producer, shard.world.partition, exchange.api_version, verified
    )


def _answer(index: int) -> TxnOffsetCommitResponsePartition:
    return TxnOffsetCommitResponsePartition(partition_index=index)
