"""A partition held here as the journal of a coordinator."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from everlog.broker.replicas import Replica
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.partitions import OFFSETS_TOPIC
from everlog.log.partition import Origin
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Offset, Timestamp
from everlog.model.settings import broker_table as keys
from everlog.records.batch import BatchView
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_NO_PRODUCER = ProducerStamp(-1, -1)


class ReplicaJournal:
    """Writes a coordinator's records to one replica.

    A single replica commits what it has appended; where the topic asks for fsync, what it has synced.
    """

    def __init__(self, broker: "Broker", replica: Replica) -> None:
        self._broker = broker
        self._replica = replica
        self._synced_at: Offset = Offset(0)
        """Up to here, committed means synced: where the last append ended that asked for it."""

    def append(
        self, records: Sequence[tuple[bytes, bytes | None]], producer: ProducerStamp | None, wall: Timestamp
    ) -> Offset:
        """Write the records as one batch and return the offset behind it; Refused or StorageError."""
        replica, broker = self._replica, self._broker
        log = replica.opened()
        if replica.directory in broker.housekeeping.without_room:
            raise StorageError(f"{replica.directory} has no room for more records")
        if replica.min_insync > 1:
            raise Refused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{replica.name} has 1 replica in sync, min.insync.replicas is {replica.min_insync}",
            )
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
        end = Offset(appended.last_offset + 1)
        if appended.wait_for_sync:
            self._synced_at = end
        if replica.watchers:
            broker.parked.appended(replica, batch.size)
        return end

    def _codec(self) -> Codec:
        if self._replica.name.topic != OFFSETS_TOPIC:
            return Codec.NONE
        return Codec(self._broker.settings[keys.OFFSETS_TOPIC_COMPRESSION_CODEC])

    def when_committed(self, end: Offset, done: Callable[[StorageError | None], None]) -> None:
        """Call `done` once all below `end` is committed, which may be now; or with why it never will be."""
        log = self._replica.opened()
        if end > self._synced_at or end <= log.recovery_point:
            done(None)
            return

        def synced(durable: bool) -> None:
            done(None if durable else StorageError(f"{self._replica.name} cannot be synced"))

        self._broker.group_commit.wait(log, end, log.sync_due_at, synced)
