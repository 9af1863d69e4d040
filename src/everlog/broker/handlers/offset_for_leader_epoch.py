"""OffsetForLeaderEpoch, versions 2 to 4: where an epoch ends in our log.

A reader sees by it where its own log leaves ours. 3 tells who asks, 4 is flexible.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.leader_hints import elsewhere
from everlog.broker.leadership import check_leads
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import LeaderEpoch
from everlog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: OffsetForLeaderEpochRequest, exchange: Exchange) -> None:
    """Answer, for each partition, the largest epoch up to the one asked for, and where it ends."""
    exchange.answer(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[_answer_one(broker, topic.topic, wanted) for wanted in topic.partitions],
                )
                for topic in request.topics
            ]
        )
    )


def _answer_one(broker: "Broker", topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    replica = broker.replicas.get(topic, wanted.partition)
    if replica is None:
        return EpochEndOffset(
            partition=wanted.partition, error_code=elsewhere(broker, topic, wanted.partition).code
        )
    try:
        check_leads(replica, wanted.current_leader_epoch)
        log = replica.opened()
    except Refused as refused:
        return EpochEndOffset(partition=wanted.partition, error_code=refused.code)
    except StorageError:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    epoch, end_offset = log.epochs.end_offset_for(LeaderEpoch(wanted.leader_epoch), log.end_offset)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
