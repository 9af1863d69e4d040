"""Markers of a transaction for partitions that other brokers lead (P5)."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from everlog.broker.marker_errands import MarkerErrands
from everlog.broker.request_limits import decode_limited
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.markers import TxnMarker
from everlog.model.errors import ErrorCode
from everlog.model.topics import TopicPartition
from everlog.wire.codec import encode_request, read_request_header
from everlog.wire.message import Message
from everlog.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class OtherBroker:
    """A leader that reads requests as brokers do, and writes each marker that it is told to."""

    def ask(self, request: Message, version: int, _timeout_ms: int, done: Callable[[Message], None]) -> None:
        frame = memoryview(encode_request(request, version, 1, "broker"))[4:]
        read = decode_limited(read_request_header(frame), frame)
        assert isinstance(read, WriteTxnMarkersRequest)
        done(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=[
                            WritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=[
                                    WritableTxnMarkerPartitionResult(partition_index=index)
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in read.markers
                ]
            )
        )


def test_a_transaction_over_more_partitions_than_a_request_may_have_gets_all_its_markers() -> None:
    known = SimpleNamespace(id=2, fenced=False)

    def peer(_id: int, _lane: str) -> OtherBroker:
        return OtherBroker()

    broker: Any = SimpleNamespace(image=SimpleNamespace(brokers={2: known}), peer=peer)
    written: Counter[tuple[TopicPartition, ErrorCode]] = Counter()
    partitions = [TopicPartition(f"t{number % 3}", number) for number in range(25_000)]

    MarkerErrands(broker).send(
        TxnMarker(ProducerStamp(7, 0), commit=True, coordinator_epoch=1, transaction_version=2),
        2,
        partitions,
        lambda partition, code: written.update([(partition, code)]),
    )

    assert written == Counter((partition, ErrorCode.NONE) for partition in partitions)
