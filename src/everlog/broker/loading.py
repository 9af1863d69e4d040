"""Reading a coordinator's log into its state, a little at a time so that the loop stays free for others."""

from collections.abc import Iterator

from everlog.broker.replicas import Replica
from everlog.coordinator.machine import Machine, ProducerStamp
from everlog.log.replay import marker_of
from everlog.model.ids import Instant, Offset
from everlog.ports.clock import Clock
from everlog.records.batch import whole_batches
from everlog.records.reader import Record, read_records

SLICE_MS = 4
"""How long one slice may take."""
_STRIDE = 64
"""Records between two looks at the clock."""
_MOST_STRIDES = 32
"""Where time stands still, a slice ends here."""
_MOST_READ_BYTES = 64 * 1024


_Piece = tuple[Record | None, ProducerStamp | None, bool]
"""A record with the producer in whose transaction it is; or none, with a producer and whether it commits."""


class Loading:
    """One log on its way into a machine, up to where it ends when the loading begins.

    What is behind that is written under this leader, and told to the machine by whoever writes it. Records of
    a transaction are replayed with their producer, in the order of the log, and its marker after them: the
    state keeps them apart until then, as it did when they were written.
    """

    def __init__(
        self, replica: Replica, machine: Machine, clock: Clock, read_bytes: int = _MOST_READ_BYTES
    ) -> None:
        self._replica = replica
        self._machine = machine
        self._clock = clock
        self._read_bytes = min(read_bytes, _MOST_READ_BYTES)
        self.end: Offset | None = None
        """Where it stops to read; None until it has begun."""
        self._next = Offset(0)
        """The first offset that was not read yet."""
        self._pieces: Iterator[_Piece] = iter(())
        """What is left of the bytes that were read last."""
        self._newest: dict[bytes, int] = {}
        """Among these bytes, where the last record lies of each key of which no other counts."""

    def step(self) -> bool:
        """Replay for a few milliseconds; returns whether all is read.

        StorageError or CorruptDataError where the log cannot be read.
        """
        if self.end is None:
            # All of it, committed or not: the leader's log is what followers come to have.
            self.end = self._replica.opened().end_offset
        until = Instant(self._clock.now() + SLICE_MS)
        for _ in range(_MOST_STRIDES):
            if not self._replay(_STRIDE):
                return True
            if self._clock.now() >= until:
                return False
        return False

    def _replay(self, most: int) -> bool:
        """Replay so many records, or read the next; returns whether there may be more."""
        machine, newest = self._machine, self._newest
        for record, producer, commit in self._pieces:
            if record is None:
                assert producer is not None
                machine.replay_end(producer, commit)
            elif (
                producer is None
                and record.value is not None
                and record.key is not None
                and newest.get(record.key, -1) > record.offset
            ):
                # Groups commit the same partitions over and over, and to read a record costs more than to
                # know that another one follows. A tombstone is not left out: it also ends what is pending.
                continue
            else:
                machine.replay(record.key, record.value, Offset(record.offset), producer)
            most -= 1
            if most == 0:
                return True
        return self._read_on()

    def _read_on(self) -> bool:
        """Read the next bytes of the log; returns whether there were any."""
        assert self.end is not None, self._replica.name
        log = self._replica.opened()
        self._next = max(self._next, log.start_offset)
        found = log.read(self._next, self._read_bytes, self.end)
        if found is None:
            return False
        pieces: list[_Piece] = []
        for batch in whole_batches(found.read()):
            self._next = Offset(batch.next_offset)
            producer = None
            if batch.is_transactional:
                producer = ProducerStamp(batch.producer_id, batch.producer_epoch)
            if not batch.is_control:
                pieces.extend([(record, producer, False) for record in read_records(batch)])
            elif (marker := marker_of(batch)) is not None:
                pieces.append((None, producer, marker.commit))
        self._pieces = iter(pieces)
        counted = self._machine.last_wins
        self._newest = {
            record.key: record.offset
            for record, producer, _ in pieces
            if record is not None
            and producer is None
            and record.key is not None
            and record.key[:2] in counted
        }
        return True
