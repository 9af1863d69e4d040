"""DeleteRecords, versions 0 to 2: move the start of a partition's log forward. 2 is flexible."""

from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.leader_hints import elsewhere
from everlog.broker.leadership import check_leads
from everlog.broker.replicas import Replica
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant, Offset
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

_Deleted = tuple[Replica, DeleteRecordsPartitionResult]


def handle(broker: "Broker", request: DeleteRecordsRequest, exchange: Exchange) -> None:
    """Delete what lies before each partition's offset; the answer leaves once that is durable here.

    Where a partition has other replicas, it leaves once those that are alive have followed, too.
    """
    deleted: list[_Deleted] = []
    answer = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete_in_one(broker, topic.name, wanted, deleted) for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    deadline = Instant(broker.clock.now() + max(request.timeout_ms, 0))

    def checkpointed(durable: bool) -> None:
        if not durable:
            for topic in answer.topics:
                for partition in topic.partitions:
                    if partition.error_code == 0:
                        partition.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                        partition.low_watermark = -1
        waiting = [one for one in deleted if one[1].error_code == 0 and not one[0].sole]
        if waiting:
            _wait_for_others(broker, waiting, deadline, partial(exchange.answer, answer))
        else:
            exchange.answer(answer)

    broker.checkpoint_start_offsets(checkpointed)


def _wait_for_others(
    broker: "Broker", waiting: list[_Deleted], deadline: Instant, done: partial[None]
) -> None:
    missing = len(waiting)

    def followed(result: DeleteRecordsPartitionResult, code: ErrorCode, low_watermark: Offset) -> None:
        nonlocal missing
        result.error_code, result.low_watermark = code, low_watermark
        missing -= 1
        if missing == 0:
            done()

    for replica, result in waiting:
        broker.replication.when_deleted(
            replica, Offset(result.low_watermark), deadline, partial(followed, result)
        )


def _delete_in_one(
    broker: "Broker", topic: str, wanted: DeleteRecordsPartition, deleted: list[_Deleted]
) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    replica = broker.replicas.get(topic, index)
    if replica is None:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=elsewhere(broker, topic, index).code
        )
    try:
        check_leads(replica)
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
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=log.start_offset, error_code=0)
    deleted.append((replica, result))
    return result
