"""Markers for partitions that other brokers lead: sent as WriteTxnMarkers, and accounted for one by one (P5).

A partition that gets another leader while its marker is under way is given back at once: the broker that was
asked may never answer, and the marker is due at the other.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from everlog.broker.neighbours import REQUEST_TIMEOUT_MS, neighbour, partition_image, told_code
from everlog.coordinator.txn.markers import TxnMarker
from everlog.model.errors import ErrorCode
from everlog.model.topics import TopicPartition
from everlog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

LANE = "markers"
_VERSION = 2

MOST_AT_ONCE: Final = 2_000
"""Partitions in one request: it may have only so many, and a transaction any number of them."""

Written = Callable[[TopicPartition, ErrorCode], None]


class _Errand:
    """One marker on its way to one broker."""

    __slots__ = ("leader", "missing", "written")

    def __init__(self, leader: int, partitions: Iterable[TopicPartition], written: Written) -> None:
        self.leader = leader
        self.missing = set(partitions)
        """Those of which nothing was said yet."""
        self.written = written

    def settle(self, partition: TopicPartition, code: ErrorCode) -> None:
        """Say what became of a partition, unless that was said before."""
        if partition in self.missing:
            self.missing.discard(partition)
            self.written(partition, code)


class MarkerErrands:
    """All markers that this broker has sent to others."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._under_way: dict[_Errand, None] = {}

    def send(
        self, marker: TxnMarker, leader: int, partitions: Iterable[TopicPartition], written: Written
    ) -> None:
        """Have a broker write a marker; `written` is called once for each partition, now or later."""
        wanted = sorted(partitions)
        for at in range(0, len(wanted), MOST_AT_ONCE):
            self._send(marker, _Errand(leader, wanted[at : at + MOST_AT_ONCE], written))

    def _send(self, marker: TxnMarker, errand: _Errand) -> None:
        peer = neighbour(self._broker, errand.leader, LANE)
        if peer is None:
            self._settle_all(errand, ErrorCode.LEADER_NOT_AVAILABLE)
            return
        self._under_way[errand] = None
        request = WriteTxnMarkersRequest(markers=[_wire_marker(marker, errand.missing)])
        peer.ask(request, _VERSION, REQUEST_TIMEOUT_MS, partial(self._answered, errand))

    def image_changed(self) -> None:
        """Give back the markers of partitions that are led by others now."""
        for errand in list(self._under_way):
            for partition in sorted(errand.missing):
                known = partition_image(self._broker, partition)
                if known is None:
                    errand.settle(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                elif known.leader != errand.leader:
                    errand.settle(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _answered(self, errand: _Errand, answer: object) -> None:
        self._under_way.pop(errand, None)
        if isinstance(answer, WriteTxnMarkersResponse):
            for one in answer.markers:
                for topic in one.topics:
                    for result in topic.partitions:
                        partition = TopicPartition(topic.name, result.partition_index)
                        errand.settle(partition, told_code(result.error_code))
        # A broker that cannot be reached, or says nothing of a partition, is asked again.
        self._settle_all(errand, ErrorCode.NETWORK_EXCEPTION)

    def _settle_all(self, errand: _Errand, code: ErrorCode) -> None:
        for partition in sorted(errand.missing):
            errand.settle(partition, code)


def _wire_marker(marker: TxnMarker, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer.producer_id,
        producer_epoch=marker.producer.epoch,
        transaction_result=marker.commit,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=[one.partition for one in group])
            for topic, group in groupby(sorted(partitions), key=lambda one: one.topic)
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
