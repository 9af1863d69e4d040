"""AlterPartitionReassignments, versions 0 and 1. 1 may insist on the replication factor (KIP-860)."""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal, check_not_too_many
from everlog.controller.reassignment import AlterReassignments, Move
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(desk: Seat, request: AlterPartitionReassignmentsRequest, exchange: Exchange) -> None:
    """Begin, change or cancel the moves that can be, and say of each partition what became of it."""

    def done(reply: list[Refusal | None] | Refused | StorageError) -> None:
        if not isinstance(reply, list):
            refusal = Refusal.of(reply)
            exchange.answer(
                AlterPartitionReassignmentsResponse(
                    allow_replication_factor_change=request.allow_replication_factor_change,
                    error_code=refusal.code,
                    error_message=refusal.message,
                )
            )
            return
        outcomes = iter(reply)
        exchange.answer(
            AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=request.allow_replication_factor_change,
                error_message=None,
                responses=[
                    ReassignableTopicResponse(
                        name=topic.name,
                        partitions=[_result(one.partition_index, next(outcomes)) for one in topic.partitions],
                    )
                    for topic in request.topics
                ],
            )
        )

    try:
        check_not_too_many(request.topics, "topics")
    except Refused as refused:
        done(refused)
        return
    moves = tuple(
        Move(topic.name, one.partition_index, None if one.replicas is None else tuple(one.replicas))
        for topic in request.topics
        for one in topic.partitions
    )
    desk.controller.submit(AlterReassignments(moves, request.allow_replication_factor_change), done)


def _result(number: int, refusal: Refusal | None) -> ReassignablePartitionResponse:
    if refusal is None:
        return ReassignablePartitionResponse(
            partition_index=number, error_code=ErrorCode.NONE, error_message=None
        )
    return ReassignablePartitionResponse(
        partition_index=number, error_code=refusal.code, error_message=refusal.message
    )
