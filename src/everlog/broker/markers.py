"""Transaction markers: written to the partitions that this broker leads, each on its own (P5).

A marker in `__consumer_offsets` is also told to the coordinator of the groups there, whose offsets it commits
or drops. One partition that cannot take its marker keeps no other from having it.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.commitment import check_writable, note_append, when_committed
from everlog.broker.replicas import Replica
from everlog.coordinator.txn.markers import MarkerOutcome, TxnMarker
from everlog.log.partition import Origin
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView
from everlog.records.control import ControlType, Producer, build_marker

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

Written = Callable[[ErrorCode], None]


class MarkerWriter:
    """Writes the markers of one broker's partitions."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def write_all(
        self,
        marker: TxnMarker,
        partitions: frozenset[TopicPartition],
        done: Callable[[MarkerOutcome], None],
    ) -> None:
        """Write a marker to all partitions for their coordinator, and tell which have to be asked again."""
        missing = len(partitions)
        unwritten: set[TopicPartition] = set()
        fenced = False

        def written(partition: TopicPartition, code: ErrorCode) -> None:
            nonlocal missing, fenced
            missing -= 1
            if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                fenced = True
            elif not self._is_settled(partition, code):
                unwritten.add(partition)
            if missing == 0:
                done(MarkerOutcome(frozenset(unwritten), fenced))

        for partition in sorted(partitions):
            self.write(marker, partition, partial(written, partition))
        if not partitions:
            done(MarkerOutcome())

    def write(self, marker: TxnMarker, partition: TopicPartition, done: Written) -> None:
        """Write a marker to one partition, and call `done` once it is committed, or with why it is not."""
        replica = self._broker.replicas.get(partition.topic, partition.partition)
        if replica is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        try:
            self._append(marker, replica, done)
        except Refused as refusal:
            _log.info("a marker of %s is refused by %s: %s", marker.producer, partition, refusal)
            done(refusal.code)
        except (StorageError, CorruptDataError) as error:
            _log.warning("a marker of %s cannot be written to %s: %s", marker.producer, partition, error)
            done(ErrorCode.KAFKA_STORAGE_ERROR)

    def _is_settled(self, partition: TopicPartition, code: ErrorCode) -> bool:
        """Whether a partition needs no more asking."""
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topic = self._broker.image.topics.get(partition.topic)
            return topic is None or partition.partition >= len(topic.partitions)
        # An epoch above the marker's was let in by the coordinator when this transaction was over already.
        return code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)

    def _append(self, marker: TxnMarker, replica: Replica, done: Written) -> None:
        broker = self._broker
        log = replica.opened()
        check_writable(broker, replica)
        producer_id, epoch = marker.producer
        log.producers.check_marker_epoch(producer_id, epoch, marker.transaction_version)
        wall = broker.clock.wall()
        raw = build_marker(
            ControlType.COMMIT if marker.commit else ControlType.ABORT,
            Producer(producer_id, epoch),
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=wall,
        )
        batch = BatchView(memoryview(raw))
        appended = log.append(batch, replica.leader_epoch, wall, Origin.COORDINATOR)
        note_append(broker, replica, batch.size)

        def committed(error: Refused | StorageError | None) -> None:
            if error is None:
                broker.coordinators.marker_committed(
                    replica.name, marker.producer, marker.commit, appended.base_offset
                )
                done(ErrorCode.NONE)
            else:
                done(error.code if isinstance(error, Refused) else ErrorCode.KAFKA_STORAGE_ERROR)

        end = Offset(appended.last_offset + 1)
        when_committed(broker, replica, end, committed, synced=appended.wait_for_sync)
