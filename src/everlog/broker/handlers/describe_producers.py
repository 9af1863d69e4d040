"""DescribeProducers, version 0: who writes to a partition, and since where a transaction is open in it."""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.neighbours import partition_image
from everlog.log.producers import ProducerState as Known
from everlog.model.errors import ErrorCode, StorageError
from everlog.model.topics import TopicPartition, topic_name_problem
from everlog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: DescribeProducersRequest, exchange: Exchange) -> None:
    """Tell for each partition which producers it remembers, once however often it is named."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    exchange.answer(
        DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=name,
                    partitions=[_partition(broker, name, index) for index in indexes],
                )
                for name, indexes in wanted.items()
            ]
        )
    )


def _partition(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    problem = topic_name_problem(topic)
    if problem is not None:
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    replica = broker.replicas.get(topic, index)
    if replica is None or not replica.leads:
        if partition_image(broker, TopicPartition(topic, index)) is not None:
            return _refused(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is led elsewhere")
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
    try:
        producers = replica.opened().producers
    except StorageError as error:
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return PartitionResponse(partition_index=index, active_producers=[_producer(one) for one in producers])


def _producer(known: Known) -> ProducerState:
    return ProducerState(
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        last_sequence=known.last_sequence,
        last_timestamp=known.last_timestamp,
        coordinator_epoch=known.coordinator_epoch,
        current_txn_start_offset=-1 if known.txn_first_offset is None else known.txn_first_offset,
    )


def _refused(index: int, code: ErrorCode, message: str) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message)
