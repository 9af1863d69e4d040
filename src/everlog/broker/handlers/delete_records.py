"""DeleteRecords, versions 0 to 2: move the start of a partition's log forward. 2 is flexible."""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Offset
from everlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

HIGH_WATERMARK = -1


def handle(broker: "Broker", request: DeleteRecordsRequest, exchange: Exchange) -> None:
    """Delete what lies before each partition's offset; the answer leaves once that is durable."""
    answer = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete_in_one(broker, topic.name, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )

    def checkpointed(durable: bool) -> None:
        if not durable:
            for topic in answer.topics:
                for partition in topic.partitions:
                    if partition.error_code == 0:
                        partition.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                        partition.low_watermark = -1
        exchange.answer(answer)

    broker.checkpoint_start_offsets(checkpointed)


def _delete_in_one(
    broker: "Broker", topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    replica = broker.replicas.get(topic, index)
    if replica is None:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    try:
        log = replica.opened()
        if not log.settings.cleanup_delete:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"{replica.name} is compacted, its records are not deleted by offset",
            )
        end = replica.high_watermark
        offset = end if wanted.offset == HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= end:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{replica.name} has offsets up to {end}, asked for {offset}"
            )
        log.move_start_to(Offset(offset))
    except Refused as refused:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=refused.code)
    except StorageError:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=log.start_offset, error_code=0)
