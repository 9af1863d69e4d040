"""TxnOffsetCommit, versions 0 to 6.

2 has the leader epoch, 3 is flexible and names the group's member (KIP-447), 4 may answer that the
transaction is to be aborted, 5 adds the group's partition to the transaction by itself (KIP-890), 6 names
topics by id.

The offsets are written as part of the producer's transaction, and count once its marker says so.
"""

from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import commit_error
from everlog.broker.exchange import Exchange
from everlog.broker.txn_verification import verify_offsets
from everlog.coordinator.group.offsets import CommitOffsets, NewOffset
from everlog.coordinator.machine import ProducerStamp
from everlog.metadata.image import TopicImage
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_IDS = 6


def handle(broker: "Broker", request: TxnOffsetCommitRequest, exchange: Exchange) -> None:
    """Write what names a partition that exists into the transaction, and answer for each partition."""
    answer = TxnOffsetCommitResponse()
    new: list[NewOffset] = []
    waiting: list[TxnOffsetCommitResponsePartition] = []
    for asked in request.topics:
        topic = _topic(broker, asked, exchange.api_version)
        answered = TxnOffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        answer.topics.append(answered)
        for one in asked.partitions:
            partition = TxnOffsetCommitResponsePartition(partition_index=one.partition_index)
            answered.partitions.append(partition)
            if topic is None or not 0 <= one.partition_index < len(topic.partitions):
                partition.error_code = _unknown(topic, exchange.api_version)
                continue
            waiting.append(partition)
            new.append(
                NewOffset(
                    topic.name,
                    topic.id,
                    one.partition_index,
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.committed_metadata or "",
                )
            )
    if not new:
        exchange.answer(answer)
        return

    def done(reply: list[ErrorCode] | Refused | StorageError) -> None:
        if isinstance(reply, Refused | StorageError):
            reply = [commit_error(reply)] * len(waiting)
        for partition, code in zip(waiting, reply, strict=True):
            partition.error_code = code
        exchange.answer(answer)

    producer = ProducerStamp(request.producer_id, request.producer_epoch)
    command = CommitOffsets(
        request.group_id,
        tuple(new),
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


def _topic(broker: "Broker", asked: TxnOffsetCommitRequestTopic, version: int) -> TopicImage | None:
    if version >= _FIRST_WITH_IDS:
        return broker.image.topics_by_id.get(asked.topic_id)
    return broker.image.topics.get(asked.name)


def _unknown(topic: TopicImage | None, version: int) -> ErrorCode:
    if topic is None and version >= _FIRST_WITH_IDS:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
