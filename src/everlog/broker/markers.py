"""Transaction markers: each written by the broker that leads its partition, here or elsewhere (P5).

A marker in `__consumer_offsets` is also told to the coordinator of the groups there, whose offsets it commits
or drops. One partition that cannot take its marker keeps no other from having it.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.commitment import check_writable, when_committed
from everlog.broker.marker_errands import MarkerErrands
from everlog.broker.neighbours import partition_image
from everlog.broker.replicas import Replica
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.markers import MarkerOutcome, TxnMarker
from everlog.log.partition import Origin
from everlog.metadata.image import NO_LEADER
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView
from everlog.records.control import ControlType, Producer, build_marker

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

Written = Callable[[ErrorCode], None]


class MarkerWatch:
    """Whether a transaction was ended in a partition while somebody waited for its coordinator's word."""

    __slots__ = ("_epoch", "_epoch_bump", "has_ended", "place")

    def __init__(self, partition: TopicPartition, producer: ProducerStamp, *, epoch_bump: bool) -> None:
        self.place = (partition, producer.producer_id)
        self._epoch = producer.epoch
        self._epoch_bump = epoch_bump
        self.has_ended = False

    def marker_appended(self, epoch: int) -> None:
        """Take note of a marker; one that begins this very epoch ended the transaction before (KIP-890)."""
        if not (self._epoch_bump and epoch == self._epoch):
            self.has_ended = True


class MarkerWriter:
    """Writes markers to the partitions led here, and has other brokers write theirs."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._errands = MarkerErrands(broker)
        self._watches: dict[tuple[TopicPartition, int], list[MarkerWatch]] = {}

    def write_all(
        self,
        marker: TxnMarker,
        partitions: frozenset[TopicPartition],
        done: Callable[[MarkerOutcome], None],
    ) -> None:
        """Have a marker in all partitions for their coordinator, and tell which have to be asked again."""
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

        elsewhere: dict[int, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            known = partition_image(self._broker, partition)
            if known is None or known.leader == self._broker.node_id:
                self.write(marker, partition, partial(written, partition))
            elif known.leader == NO_LEADER:
                written(partition, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                elsewhere.setdefault(known.leader, []).append(partition)
        for leader, theirs in elsewhere.items():
            self._errands.send(marker, leader, theirs, written)
        if not partitions:
            done(MarkerOutcome())

    def image_changed(self) -> None:
        """Give up waiting for brokers that do not lead any more."""
        self._errands.image_changed()

    def write(self, marker: TxnMarker, partition: TopicPartition, done: Written) -> None:
        """Write a marker to one partition, and call `done` once it is committed, or with why it is not."""
        replica = self._broker.replicas.get(partition.topic, partition.partition)
        if replica is None:
            is_known = partition_image(self._broker, partition) is not None
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        try:
            self._append(marker, replica, done)
        except Refused as refusal:
            _log.info("a marker of %s is refused by %s: %s", marker.producer, partition, refusal)
            done(refusal.code)
        except (StorageError, CorruptDataError) as error:
            _log.warning("a marker of %s cannot be written to %s: %s", marker.producer, partition, error)
            done(ErrorCode.KAFKA_STORAGE_ERROR)

    def watch(self, partition: TopicPartition, producer: ProducerStamp, *, epoch_bump: bool) -> "MarkerWatch":
        """Watch for a marker that ends a producer's transaction in a partition led here, until `unwatch`."""
        watch = MarkerWatch(partition, producer, epoch_bump=epoch_bump)
        self._watches.setdefault(watch.place, []).append(watch)
        return watch

    def unwatch(self, watch: "MarkerWatch") -> None:
        """Watch no more."""
        watches = self._watches[watch.place]
        watches.remove(watch)
        if not watches:
            del self._watches[watch.place]

    def _is_settled(self, partition: TopicPartition, code: ErrorCode) -> bool:
        """Whether a partition needs no more asking."""
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # A leader may know less than we do of a partition that was just made.
            return partition_image(self._broker, partition) is None
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
        broker.replication.appended(replica, batch.size, appended.wait_for_sync)
        for watch in self._watches.get((replica.name, producer_id), ()):
            watch.marker_appended(epoch)

        def committed(error: Refused | StorageError | None) -> None:
            if error is None:
                broker.coordinators.marker_committed(
                    replica.name, marker.producer, marker.commit, appended.base_offset
                )
                done(ErrorCode.NONE)
            else:
                done(error.code if isinstance(error, Refused) else ErrorCode.KAFKA_STORAGE_ERROR)

        when_committed(broker, replica, Offset(appended.last_offset + 1), committed)
