"""DescribeLogDirs, versions 1 to 5: what lies in each log directory.

2 is flexible, 3 has an error of its own, 4 tells the size of the disk and the room on it, 5 whether new
partitions are kept away.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.log.directory import LogDirectory
from everlog.log.segment import LOG_SUFFIX
from everlog.model.errors import ErrorCode
from everlog.model.topics import TopicPartition
from everlog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: DescribeLogDirsRequest, exchange: Exchange) -> None:
    """Answer, for each directory, the size of the partitions that were asked for, or of all."""
    wanted: Callable[[TopicPartition], bool] = lambda partition: True  # noqa: E731
    if request.topics is not None:
        asked = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
        wanted = asked.__contains__
    exchange.answer(
        DescribeLogDirsResponse(
            results=[
                *(_describe(broker, directory, wanted) for directory in broker.directories),
                *(
                    DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
                    for path in broker.health.failed
                ),
            ]
        )
    )


def _held(
    broker: "Broker", directory: LogDirectory, wanted: Callable[[TopicPartition], bool]
) -> list[TopicPartition]:
    """The partitions of a directory, with those that nobody has used yet in the one that would take them."""
    next_to_fill = min(broker.directories, key=len)
    return sorted(
        replica.name
        for replica in broker.replicas
        if wanted(replica.name)
        and (
            replica.name in directory
            or (
                directory is broker.moves.wishes.get(replica.name, next_to_fill)
                and not replica.lost
                and not any(replica.name in one for one in broker.directories)
            )
        )
    )


def _describe(
    broker: "Broker", directory: LogDirectory, wanted: Callable[[TopicPartition], bool]
) -> DescribeLogDirsResult:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for name, size, behind in broker.moves.copies(directory):
        if wanted(name):
            topics.setdefault(name.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=name.partition,
                    partition_size=size,
                    offset_lag=behind,
                    is_future_key=True,
                )
            )
    try:
        for partition in _held(broker, directory, wanted):
            topics.setdefault(partition.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=partition.partition,
                    partition_size=_size(broker, directory, partition) if partition in directory else 0,
                )
            )
        total, usable = broker.files.total_bytes(directory.path), broker.files.free_bytes(directory.path)
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def _size(broker: "Broker", directory: LogDirectory, partition: TopicPartition) -> int:
    """The bytes of a partition's segments. It is not opened for that: there may be thousands."""
    replica = broker.replicas.get(partition.topic, partition.partition)
    if replica is not None and replica.log is not None:
        return replica.log.size
    path = f"{directory.path}/{partition}"
    return sum(
        broker.files.size(f"{path}/{name}") for name in broker.files.names(path) if name.endswith(LOG_SUFFIX)
    )
