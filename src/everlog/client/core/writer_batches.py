"""Records on their way to a batch: one open batch per partition, closed when full or old enough (P1, P2)."""

from collections import deque
from dataclasses import dataclass, field

from everlog.model.ids import Instant
from everlog.model.topics import TopicPartition
from everlog.records.batch import HEADER_BYTES
from everlog.records.builder import NewRecord, record_bytes_at_most


@dataclass(slots=True, eq=False)
class PendingBatch:
    """Records of one partition that travel together. It grows while it is open, then it never changes."""

    place: TopicPartition
    opened_at: Instant
    records: list[NewRecord] = field(default_factory=list[NewRecord])
    size_bytes: int = HEADER_BYTES
    """A bound on the bytes of the batch before compression."""
    base_sequence: int = -1
    """Set when the batch is first sent, and the same for every retry; -1 without idempotence."""
    encoded: bytes | bytearray | None = None
    """The bytes that were sent; a retry sends the same ones."""


class Accumulator:
    """Collects records into batches of about `batch_bytes`, in order within a partition.

    A batch is ready once another record would not fit, or when it is `linger_ms` old. A record larger than
    `batch_bytes` gets a batch of its own.
    """

    def __init__(self, batch_bytes: int, linger_ms: int) -> None:
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._open: dict[TopicPartition, PendingBatch] = {}
        self._ready: deque[PendingBatch] = deque()

    def add(self, place: TopicPartition, record: NewRecord, now: Instant) -> PendingBatch:
        """Put a record behind the others of its partition and return the batch that holds it."""
        record_bytes = record_bytes_at_most(record)
        batch = self._open.get(place)
        if batch is not None and batch.size_bytes + record_bytes > self._batch_bytes:
            self._close(place)
            batch = None
        if batch is None:
            batch = self._open[place] = PendingBatch(place, now)
        batch.records.append(record)
        batch.size_bytes += record_bytes
        if batch.size_bytes >= self._batch_bytes:
            self._close(place)
        return batch

    @property
    def has_full(self) -> bool:
        """Whether `take_full` would return a batch."""
        return bool(self._ready)

    def take_full(self) -> list[PendingBatch]:
        """Hand over the batches that are full, oldest first; the others go on growing."""
        return self._take()

    def take_ready(self, now: Instant) -> list[PendingBatch]:
        """Hand over the batches that are full or have lingered, oldest first."""
        for place, batch in list(self._open.items()):
            if now - batch.opened_at >= self._linger_ms:
                self._close(place)
        return self._take()

    def take_all(self) -> list[PendingBatch]:
        """Hand over everything, as a flush does."""
        for place in list(self._open):
            self._close(place)
        return self._take()

    def deadline(self) -> Instant | None:
        """When the oldest open batch is to be sent, if there is one."""
        if not self._open:
            return None
        return Instant(min(batch.opened_at for batch in self._open.values()) + self._linger_ms)

    def _close(self, place: TopicPartition) -> None:
        self._ready.append(self._open.pop(place))

    def _take(self) -> list[PendingBatch]:
        taken = list(self._ready)
        self._ready.clear()
        return taken
