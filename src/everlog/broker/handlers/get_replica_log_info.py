"""GetReplicaLogInfo, version 0: how far logs reach here, whoever leads them (KIP-966).

A controller asks it of the replicas of a partition that nobody may lead before it is known who has most. The
message is that of the KIP; its key is our own, as Kafka has given the one it had to another API.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.log.partition import PartitionLog
from everlog.model.errors import ErrorCode, StorageError
from everlog.model.ids import NO_EPOCH, Offset, Uuid
from everlog.wire.messages.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    PartitionLogInfo,
    TopicPartitionLogInfo,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_MOST_PARTITIONS = 1_000
_MOST_OPENED = 20
"""Logs opened for one answer: each takes a while, and others wait meanwhile."""


def handle(broker: "Broker", request: GetReplicaLogInfoRequest, exchange: Exchange) -> None:
    """Say of each partition how far its log reaches; what would take too long is left out, and said to be."""
    epoch = broker.replication.broker_epoch
    answer = GetReplicaLogInfoResponse(broker_epoch=-1 if epoch is None else epoch)
    allowed = exchange.listener_name == broker.settings.inter_broker_listener
    opened = count = 0
    for topic in request.topic_partitions or ():
        infos: list[PartitionLogInfo] = []
        answer.topic_partition_log_info_list.append(
            TopicPartitionLogInfo(topic_id=topic.topic_id, partition_log_info=infos)
        )
        for number in topic.partitions:
            replica = broker.replicas.get(topic.topic_id, number)
            opens = allowed and replica is not None and replica.log is None
            if count == _MOST_PARTITIONS or (opens and opened == _MOST_OPENED):
                answer.truncated = True
                exchange.answer(answer)
                return
            count += 1
            opened += opens
            infos.append(
                _info(broker, topic.topic_id, number)
                if allowed
                else PartitionLogInfo(partition=number, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            )
    exchange.answer(answer)


def _info(broker: "Broker", topic_id: Uuid, number: int) -> PartitionLogInfo:
    replica = broker.replicas.get(topic_id, number)
    if replica is None:
        known = topic_id in broker.image.topics_by_id
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_ID
        return PartitionLogInfo(partition=number, error_code=code)
    try:
        log = replica.opened()
    except StorageError:
        return PartitionLogInfo(partition=number, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    if log.failure is not None:
        return PartitionLogInfo(partition=number, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    damaged = log.damaged_at
    return PartitionLogInfo(
        partition=number,
        last_written_leader_epoch=_last_epoch(log, log.end_offset if damaged is None else damaged),
        current_leader_epoch=replica.leader_epoch,
        # What lies behind damage it cannot give to anybody.
        log_end_offset=log.end_offset if damaged is None else damaged,
    )


def _last_epoch(log: PartitionLog, end: Offset) -> int:
    """The epoch of the last record, also where it has been deleted since; -1 if there never was one."""
    if end == 0 or not log.epochs.entries:
        return NO_EPOCH
    if log.start_offset < end:
        return log.epochs.epoch_at(Offset(end - 1))
    # All is deleted. Of the epochs that are left the first is the one that the last record was in.
    return log.epochs.entries[0][0]
