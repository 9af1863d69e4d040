"""AlterReplicaLogDirs, versions 1 and 2: partitions are to lie in other directories of this broker (KIP-113).

Version 2 is flexible. The answer says that a move has begun; DescribeLogDirs tells how far it is.
"""

from typing import TYPE_CHECKING, Final

from everlog.broker.exchange import Exchange
from everlog.log.directory import LogDirectory
from everlog.model.errors import ErrorCode, StorageError
from everlog.model.topics import TopicPartition
from everlog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_MOST_WISHES: Final = 10_000
"""So many partitions that are not here are remembered, so that nobody can fill the memory with names."""


def handle(broker: "Broker", request: AlterReplicaLogDirsRequest, exchange: Exchange) -> None:
    """Begin, redirect or cancel a move for each partition, or note where it is to be made.

    LOG_DIR_NOT_FOUND where this broker has no such directory, KAFKA_STORAGE_ERROR where a directory has
    failed, UNKNOWN_TOPIC_OR_PARTITION where there is no such partition, REPLICA_NOT_AVAILABLE where it is not
    this broker's. Of the last two it is remembered where they are to be.
    """
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                code = _alter(broker, TopicPartition(topic.name, index), directory.path)
                result.partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    exchange.answer(AlterReplicaLogDirsResponse(results=list(topics.values())))


def _alter(broker: "Broker", name: TopicPartition, path: str) -> ErrorCode:
    if path in broker.health.failed:
        return ErrorCode.KAFKA_STORAGE_ERROR
    target = next((one for one in broker.directories if one.path == path), None)
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    replica = broker.replicas.get(name.topic, name.partition)
    if replica is None:
        _remember(broker, name, target)
        topic = broker.image.topics.get(name.topic)
        exists = topic is not None and 0 <= name.partition < len(topic.partitions)
        return ErrorCode.REPLICA_NOT_AVAILABLE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if replica.lost:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if not any(name in one for one in broker.directories):
        # It is made when it is first used.
        _remember(broker, name, target)
        return ErrorCode.NONE
    try:
        broker.moves.begin(replica, target)
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _remember(broker: "Broker", name: TopicPartition, target: LogDirectory) -> None:
    wishes = broker.moves.wishes
    if name in wishes or len(wishes) < _MOST_WISHES:
        wishes[name] = target
