"""DescribeTopicPartitions, version 0: partitions of topics in the order of their names, so many at a time.

Without names all topics are described. What does not fit below the limit is asked for again with the cursor
that the answer gives: the first partition that is missing.
"""

from typing import TYPE_CHECKING

from everlog.broker.access import topic_operations
from everlog.broker.exchange import Exchange
from everlog.broker.visibility import Visibility
from everlog.metadata.image import PartitionImage, TopicImage
from everlog.model.errors import ErrorCode
from everlog.model.settings import broker_table as keys
from everlog.model.topics import INTERNAL_TOPICS, topic_name_problem
from everlog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: DescribeTopicPartitionsRequest, exchange: Exchange) -> None:
    """Describe topics from the cursor on, up to the limit of partitions."""
    limit = min(request.response_partition_limit, broker.settings[keys.MAX_REQUEST_PARTITION_SIZE_LIMIT])
    cursor = request.cursor
    if limit < 1 or (cursor is not None and cursor.partition_index < 0):
        exchange.answer(_refused(request))
        return
    view = Visibility(broker.image, lambda one: broker.listener_endpoint(exchange.listener_name, one))
    names = {topic.name for topic in request.topics} or broker.image.topics.keys()
    response = DescribeTopicPartitionsResponse()
    for name in sorted(names):
        first = 0
        if cursor is not None:
            if name < cursor.topic_name:
                continue
            first = cursor.partition_index if name == cursor.topic_name else 0
        topic = broker.image.topics.get(name)
        if topic is None:
            # One that went away between two pages is simply over; one that was named is an error.
            if request.topics:
                response.topics.append(_unknown(name))
            continue
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        response.topics.append(_topic(topic, first, limit, view))
        after = first + limit
        if after < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=after)
            break
        limit -= max(0, len(topic.partitions) - first)
    exchange.answer(response)


def _topic(
    topic: TopicImage, first: int, limit: int, view: Visibility
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(number, partition, view)
            for number, partition in enumerate(topic.partitions[first : first + limit], first)
        ],
        topic_authorized_operations=topic_operations(asked=True),
    )


def _partition(
    number: int, partition: PartitionImage, view: Visibility
) -> DescribeTopicPartitionsResponsePartition:
    error, leader = view.leader(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leaders),
        last_known_elr=list(partition.last_known_eligible),
        offline_replicas=view.offline(partition),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    wrong = topic_name_problem(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if wrong else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
    )


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    # The answer as a whole has no place for an error, so each topic bears it.
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )
