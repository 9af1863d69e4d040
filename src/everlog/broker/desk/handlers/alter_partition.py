"""AlterPartition, versions 2 and 3. 3 names the broker epoch of each member (KIP-903)."""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.controller.isr import AlterPartitions, IsrMember, IsrProposal
from everlog.controller.partition_changes import PartitionRef
from everlog.metadata.image import PartitionImage
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import BrokerId, Uuid
from everlog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

_FIRST_WITH_EPOCHS = 3
_RECOVERING = 1


def handle(desk: Seat, request: AlterPartitionRequest, exchange: Exchange) -> None:
    """Take each ISR that its leader may have, and say how each partition stands then."""

    def done(reply: list[PartitionImage | ErrorCode] | Refused | StorageError) -> None:
        if not isinstance(reply, list):
            exchange.answer(AlterPartitionResponse(error_code=Refusal.of(reply).code))
            return
        outcomes = iter(reply)
        exchange.answer(
            AlterPartitionResponse(
                topics=[
                    ResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[_result(one.partition_index, next(outcomes)) for one in topic.partitions],
                    )
                    for topic in request.topics
                ]
            )
        )

    version = exchange.api_version
    proposals = tuple(
        _proposal(topic.topic_id, one, version) for topic in request.topics for one in topic.partitions
    )
    command = AlterPartitions(BrokerId(request.broker_id), request.broker_epoch, proposals)
    desk.controller.submit(command, done)


def _proposal(topic_id: Uuid, one: RequestPartitionData, version: int) -> IsrProposal:
    if version >= _FIRST_WITH_EPOCHS:
        isr = tuple(
            IsrMember(BrokerId(member.broker_id), member.broker_epoch) for member in one.new_isr_with_epochs
        )
    else:
        isr = tuple(IsrMember(BrokerId(broker)) for broker in one.new_isr)
    return IsrProposal(
        PartitionRef(topic_id, one.partition_index),
        one.leader_epoch,
        one.partition_epoch,
        isr,
        one.leader_recovery_state == _RECOVERING,
    )


def _result(number: int, outcome: PartitionImage | ErrorCode) -> ResponsePartitionData:
    if isinstance(outcome, ErrorCode):
        return ResponsePartitionData(partition_index=number, error_code=outcome)
    return ResponsePartitionData(
        partition_index=number,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        leader_recovery_state=int(outcome.recovering),
        partition_epoch=outcome.partition_epoch,
    )
