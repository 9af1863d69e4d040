"""AddOffsetsToTxn, versions 0 to 4.

2 may answer that the producer is fenced, 3 is flexible, 4 may answer that the transaction is to be aborted.
The group's partition of `__consumer_offsets` becomes part of the transaction, so that it gets a marker too.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.txn_codes import answer_code
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.partitions import OFFSETS_TOPIC
from everlog.coordinator.txn.joining import AddPartitions
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.topics import TopicPartition
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_FENCED = 2


def handle(broker: "Broker", request: AddOffsetsToTxnRequest, exchange: Exchange) -> None:
    """Let the transaction commit offsets of a group."""

    def done(reply: Refused | StorageError | None) -> None:
        code = ErrorCode.NONE
        if reply is not None:
            code = answer_code(reply, knows_fenced=exchange.api_version >= _FIRST_WITH_FENCED)
        exchange.answer(AddOffsetsToTxnResponse(error_code=code))

    try:
        if not request.transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        shard = broker.coordinators.txn_shard(request.transactional_id)
        offsets = _offsets_partition(broker, request.group_id)
    except Refused as refusal:
        done(refusal)
        return
    producer = ProducerStamp(request.producer_id, request.producer_epoch)
    # A client that begins transactions implicitly has no use for this request.
    shard.add_partitions(AddPartitions(request.transactional_id, producer, frozenset({offsets}), 0), done)


def _offsets_partition(broker: "Broker", group_id: str) -> TopicPartition:
    groups = broker.coordinators.groups
    index = groups.index_of(group_id)
    if index is None:
        groups.get(group_id)  # Begins to make the topic, and says so.
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the topic {OFFSETS_TOPIC} is being made")
    return TopicPartition(OFFSETS_TOPIC, index)
