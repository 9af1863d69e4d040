"""WriteTxnMarkers, versions 1 and 2: another broker's coordinator ends transactions in partitions led here.

2 has the transaction version, from which on a marker must be above the epoch that it ends (KIP-1228). Tools
that end a transaction which hangs send it too.
"""

from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.markers import TxnMarker
from everlog.model.errors import ErrorCode
from everlog.model.topics import TopicPartition
from everlog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: WriteTxnMarkersRequest, exchange: Exchange) -> None:
    """Write every marker to its partitions, and answer when each is committed or refused."""
    answer = WriteTxnMarkersResponse()
    wanted: list[tuple[TxnMarker, TopicPartition, WritableTxnMarkerPartitionResult]] = []
    for one in request.markers:
        marker = _marker(one)
        topics: list[WritableTxnMarkerTopicResult] = []
        answer.markers.append(WritableTxnMarkerResult(producer_id=one.producer_id, topics=topics))
        for topic in one.topics:
            results = [
                WritableTxnMarkerPartitionResult(partition_index=index)
                for index in dict.fromkeys(topic.partition_indexes)
            ]
            topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
            wanted += [
                (marker, TopicPartition(topic.name, result.partition_index), result) for result in results
            ]
    missing = len(wanted)

    def written(result: WritableTxnMarkerPartitionResult, code: ErrorCode) -> None:
        nonlocal missing
        result.error_code = code
        missing -= 1
        if missing == 0:
            exchange.answer(answer)

    if not wanted:
        exchange.answer(answer)
    for marker, partition, result in wanted:
        broker.coordinators.markers.write(marker, partition, partial(written, result))


def _marker(one: WritableTxnMarker) -> TxnMarker:
    return TxnMarker(
        ProducerStamp(one.producer_id, one.producer_epoch),
        one.transaction_result,
        one.coordinator_epoch,
        one.transaction_version,
    )
