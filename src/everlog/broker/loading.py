"""Reading a coordinator's log into its state, a little at a time so that the loop stays free for others."""

from collections.abc import Iterator

from everlog.broker.replicas import Replica
from everlog.coordinator.machine import Machine, ProducerStamp
from everlog.log.replay import marker_of
from everlog.model.ids import Instant, Offset
from everlog.ports.clock import Clock
from everlog.records.batch import BatchView, whole_batches
from everlog.records.reader import Record, read_records

SLICE_MS = 4
"""How long one slice may take."""
_STRIDE = 64
"""Records between two looks at the clock."""
_MOST_STRIDES = 32
"""Where time stands still, a slice ends here."""
_MOST_READ_BYTES = 64 * 1024


class Loading:
    """One log on its way into a machine.

    Records of a transaction are replayed with their producer, in the order of the log, and its marker after
    them: the state keeps them apart until then, as it did when they were written.
    """

    def __init__(
        self, replica: Replica, machine: Machine, clock: Clock, read_bytes: int = _MOST_READ_BYTES
    ) -> None:
        self._replica = replica
        self._machine = machine
        self._clock = clock
        self._read_bytes = min(read_bytes, _MOST_READ_BYTES)
        self._next = Offset(0)
        """The first offset that was not read yet."""
        self._batches: Iterator[BatchView] = iter(())
        self._records: Iterator[Record] = iter(())
        self._producer: ProducerStamp | None = None

    def step(self) -> bool:
        """Replay for a few milliseconds; returns whether all is read, and the machine then serves.

        StorageError or CorruptDataError where the log cannot be read.
        """
        until = Instant(self._clock.now() + SLICE_MS)
        for _ in range(_MOST_STRIDES):
            if not self._replay(_STRIDE):
                self._machine.loaded()
                return True
            if self._clock.now() >= until:
                return False
        return False

    def _replay(self, most: int) -> bool:
        """Replay so many records; returns whether there may be more."""
        replay = self._machine.replay
        while most > 0:
            producer = self._producer
            for record in self._records:
                replay(record.key, record.value, Offset(record.offset), producer)
                most -= 1
                if most == 0:
                    return True
            batch = next(self._batches, None)
            if batch is None:
                if not self._read_on():
                    return False
                continue
            self._next = Offset(batch.next_offset)
            if batch.is_control:
                self._end_transaction(batch)
                continue
            self._records = iter(read_records(batch))
            self._producer = (
                ProducerStamp(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
            )
        return True

    def _read_on(self) -> bool:
        """Read the next bytes of the log; returns whether there were any."""
        log = self._replica.opened()
        self._next = max(self._next, log.start_offset)
        found = log.read(self._next, self._read_bytes, self._replica.high_watermark)
        if found is None:
            return False
        self._batches = whole_batches(found.read())
        return True

    def _end_transaction(self, batch: BatchView) -> None:
        marker = marker_of(batch)
        if marker is not None:
            self._machine.replay_end(ProducerStamp(batch.producer_id, batch.producer_epoch), marker.commit)
