"""OffsetCommit, versions 2 to 10.

Up to 4 a commit may say how long to keep it, 6 has the leader epoch, 7 static members, 8 is flexible, 9 takes
the member epochs of the newer group protocol (KIP-848), 10 names topics by id.
"""

from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import commit_error
from everlog.broker.exchange import Exchange
from everlog.coordinator.group.offsets import CommitOffsets, NewOffset
from everlog.metadata.image import TopicImage
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_IDS = 10


def handle(broker: "Broker", request: OffsetCommitRequest, exchange: Exchange) -> None:
    """Commit what names a partition that exists, and answer for each partition."""
    answer = OffsetCommitResponse()
    new: list[NewOffset] = []
    waiting: list[OffsetCommitResponsePartition] = []
    for asked in request.topics:
        topic = _topic(broker, asked, exchange.api_version)
        answered = OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        answer.topics.append(answered)
        for one in asked.partitions:
            partition = OffsetCommitResponsePartition(partition_index=one.partition_index)
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

    command = CommitOffsets(
        request.group_id,
        tuple(new),
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


def _topic(broker: "Broker", asked: OffsetCommitRequestTopic, version: int) -> TopicImage | None:
    if version >= _FIRST_WITH_IDS:
        return broker.image.topics_by_id.get(asked.topic_id)
    return broker.image.topics.get(asked.name)


def _unknown(topic: TopicImage | None, version: int) -> ErrorCode:
    if topic is None and version >= _FIRST_WITH_IDS:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
