"""OffsetDelete, version 0 (KIP-496)."""

from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import coordinator_error
from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: OffsetDeleteRequest, exchange: Exchange) -> None:
    """Take back the offsets that no member reads on from."""
    answer = OffsetDeleteResponse()
    places: list[tuple[str, int]] = []
    waiting: list[OffsetDeleteResponsePartition] = []
    for asked in request.topics:
        topic = broker.image.topics.get(asked.name)
        answered = OffsetDeleteResponseTopic(name=asked.name)
        answer.topics.append(answered)
        for one in asked.partitions:
            partition = OffsetDeleteResponsePartition(partition_index=one.partition_index)
            answered.partitions.append(partition)
            if topic is None or not 0 <= one.partition_index < len(topic.partitions):
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            waiting.append(partition)
            places.append((asked.name, one.partition_index))

    def done(reply: list[ErrorCode] | Refused | StorageError) -> None:
        if isinstance(reply, Refused | StorageError):
            exchange.answer(OffsetDeleteResponse(error_code=coordinator_error(reply)))
            return
        for partition, code in zip(waiting, reply, strict=True):
            partition.error_code = code
        exchange.answer(answer)

    if not request.group_id:
        done(Refused(ErrorCode.INVALID_GROUP_ID, "the group id is empty"))
        return
    try:
        shard = broker.coordinators.group_shard(request.group_id)
    except Refused as refused:
        done(refused)
        return
    shard.offsets.delete(request.group_id, places, done)
