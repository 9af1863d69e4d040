"""A partition held here as the journal of a coordinator."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from everlog.broker.commitment import check_writable, when_committed
from everlog.broker.replicas import Replica
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.partitions import OFFSETS_TOPIC
from everlog.log.partition import Origin
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import Offset, Timestamp
from everlog.model.settings import broker_table as keys
from everlog.records.batch import BatchView
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_NO_PRODUCER = ProducerStamp(-1, -1)


class ReplicaJournal:
    """Writes a coordinator's records to one replica, while it leads in one epoch.

    They are committed when every replica in sync has them; where the topic asks for fsync, when this one has
    synced them as well.
    """

    def __init__(self, broker: "Broker", replica: Replica, epoch: int) -> None:
        self._broker = broker
        self._replica = replica
        self._epoch = epoch

    def append(
        self, records: Sequence[tuple[bytes, bytes | None]], producer: ProducerStamp | None, wall: Timestamp
    ) -> Offset:
        """Write the records as one batch and return the offset behind it; Refused or StorageError."""
        replica, broker = self._replica, self._broker
        log = replica.opened()
        check_writable(broker, replica, self._epoch)
        stamp = producer or _NO_PRODUCER
        raw = build_batch(
            [NewRecord(key, value, (), wall) for key, value in records],
            codec=self._codec(),
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            transactional=producer is not None,
        )
        batch = BatchView(memoryview(raw))
        appended = log.append(batch, replica.leader_epoch, wall, Origin.COORDINATOR)
        broker.replication.appended(replica, batch.size, appended.wait_for_sync)
        return Offset(appended.last_offset + 1)

    def _codec(self) -> Codec:
        if self._replica.name.topic != OFFSETS_TOPIC:
            return Codec.NONE
        return Codec(self._broker.settings[keys.OFFSETS_TOPIC_COMPRESSION_CODEC])

    def when_committed(self, end: Offset, done: Callable[[Refused | StorageError | None], None]) -> None:
        """Call `done` once all below `end` is committed, which may be now; or with why it may never be."""
        when_committed(self._broker, self._replica, end, done)
