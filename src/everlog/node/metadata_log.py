"""The metadata log: the partition `__cluster_metadata-0` as the quorum uses it."""

from collections.abc import Callable, Iterator

from everlog.log.partition import Origin, PartitionLog
from everlog.log.settings import LogSettings
from everlog.model.errors import StorageError
from everlog.model.ids import LeaderEpoch, Offset
from everlog.model.topics import METADATA_TOPIC, TopicPartition
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.records.batch import BatchView, batch_at, whole_batches

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)

METADATA_LOG_SETTINGS = LogSettings(
    retention_ms=-1, retention_bytes=-1, max_message_bytes=64 * 1024 * 1024, cleanup_delete=False
)
"""Nothing of it is dropped, and a batch may describe thousands of partitions at once."""

_READ_BYTES = 1024 * 1024


class MetadataLog:
    """Appends entries of the quorum and says when they are durable."""

    def __init__(self, log: PartitionLog, aside: Aside, clock: Clock) -> None:
        self._log = log
        self._aside = aside
        self._clock = clock

    @property
    def end_offset(self) -> Offset:
        """Behind the last record, durable or not."""
        return self._log.end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; -1 in an empty log."""
        return self._log.epochs.latest

    def append(self, batch: bytearray, epoch: int) -> None:
        """Append one batch; StorageError, and nothing changed, if the disk refuses."""
        self._log.append(batch_at(batch), LeaderEpoch(epoch), self._clock.wall(), Origin.COORDINATOR)

    def sync(self, done: Callable[[Offset | StorageError], None]) -> None:
        """Make all that is appended durable, then say up to where."""
        plan = self._log.sync_plan()
        assert plan is not None, "a sync follows an append"

        def ended(result: OSError | None) -> None:
            if isinstance(result, OSError):
                self._log.sync_failed(result)
                done(StorageError(f"{METADATA_PARTITION} cannot be synced: {result}"))
            else:
                self._log.synced(plan)
                done(plan.end_offset)

        self._aside.run(plan.run, ended)

    def cut_back(self, end: Offset) -> None:
        """Give up all from `end` on; StorageError after a failed sync, which only a restart heals."""
        if self._log.failure is not None:
            raise self._log.failure
        self._log.truncate_to(end)

    def batches(self) -> Iterator[BatchView]:
        """All batches from the start of the log; CorruptDataError where one cannot be right."""
        offset = self._log.start_offset
        while offset < self._log.end_offset:
            found = self._log.read(offset, _READ_BYTES, self._log.end_offset)
            assert found is not None, offset
            for batch in whole_batches(found.read()):
                yield batch
                offset = Offset(batch.next_offset)
