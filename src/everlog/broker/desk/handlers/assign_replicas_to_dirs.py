"""AssignReplicasToDirs, version 0."""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.controller.directories import AssignReplicasToDirectories
from everlog.controller.partition_changes import PartitionRef
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import BrokerId
from everlog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)


def handle(desk: Seat, request: AssignReplicasToDirsRequest, exchange: Exchange) -> None:
    """Note which directory of the broker holds each of the replicas."""

    def done(reply: list[ErrorCode] | Refused | StorageError) -> None:
        if not isinstance(reply, list):
            exchange.answer(AssignReplicasToDirsResponse(error_code=Refusal.of(reply).code))
            return
        codes = iter(reply)
        exchange.answer(
            AssignReplicasToDirsResponse(
                directories=[
                    ResponseDirectoryData(
                        id=directory.id,
                        topics=[
                            ResponseTopicData(
                                topic_id=topic.topic_id,
                                partitions=[
                                    ResponsePartitionData(
                                        partition_index=one.partition_index, error_code=next(codes)
                                    )
                                    for one in topic.partitions
                                ],
                            )
                            for topic in directory.topics
                        ],
                    )
                    for directory in request.directories
                ]
            )
        )

    replicas = tuple(
        (directory.id, PartitionRef(topic.topic_id, one.partition_index))
        for directory in request.directories
        for topic in directory.topics
        for one in topic.partitions
    )
    command = AssignReplicasToDirectories(BrokerId(request.broker_id), request.broker_epoch, replicas)
    desk.controller.submit(command, done)
