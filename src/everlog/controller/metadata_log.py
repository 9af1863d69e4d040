"""The metadata log: a partition's log, as the quorum appends to it and as a controller reads it back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everlog.controller.controller import Controller
from everlog.controller.replay import replay
from everlog.log.partition import Origin, PartitionLog
from everlog.log.settings import LogSettings
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import LeaderEpoch, Offset, Uuid
from everlog.model.settings import BrokerSettings
from everlog.model.topics import METADATA_TOPIC, TopicPartition
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.ports.random import Random
from everlog.raft.quorum import Quorum
from everlog.raft.store import QuorumStore
from everlog.records.batch import BatchView, whole_batches

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)

METADATA_LOG_SETTINGS = LogSettings(
    retention_ms=-1, retention_bytes=-1, cleanup_delete=False, max_message_bytes=64 << 20
)
"""What `__cluster_metadata-0` obeys: all of it is kept, for a controller is made from all of it."""

_READ_BYTES = 4 << 20


class MetadataLog:
    """A `raft.log.QuorumLog` on a partition's log."""

    def __init__(
        self, log: PartitionLog, reopen: Callable[[], PartitionLog], aside: Aside, clock: Clock
    ) -> None:
        """Use an open log; `reopen` opens it anew, recovering it, after its disk has failed it."""
        self._log = log
        self._reopen = reopen
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
        """Append one batch at `end_offset`; StorageError, and nothing changed, if the disk refuses."""
        view = BatchView(memoryview(batch))
        try:
            self._log.append(view, LeaderEpoch(epoch), self._clock.wall(), Origin.COORDINATOR)
        except Refused as refused:
            # We made the batch ourselves: whatever is wrong with it is a fault of ours.
            raise AssertionError(f"the metadata log refuses our own batch: {refused}") from refused

    def sync(self, done: Callable[[Offset | StorageError], None]) -> None:
        """Make all that is appended durable, then say up to where. `done` comes after this has returned."""
        log = self._log
        plan = log.sync_plan()
        if plan is None:
            self._aside.run(_nothing, lambda _: done(log.recovery_point))
            return

        def ran(result: OSError | None) -> None:
            if isinstance(result, OSError):
                log.sync_failed(result)
                done(StorageError(f"{log.partition} cannot be synced: {result}"))
            else:
                log.synced(plan)
                done(plan.end_offset)

        self._aside.run(plan.run, ran)

    def cut_back(self, end: Offset) -> None:
        """Give up all from `end` on and heal the log after a failed sync; StorageError if it cannot be."""
        if self._log.failure is not None:
            self._log.abandon()
            self._log = self._reopen()
        if self._log.end_offset < end:
            # What was committed is gone, and with it the ground that later decisions stood on.
            raise StorageError(
                f"{self._log.partition} ends at {self._log.end_offset}, expected {end}, which was committed"
            )
        self._log.truncate_to(end)

    def batches(self) -> Iterator[BatchView]:
        """Every batch from the start of the log to its end."""
        log = self._log
        offset = log.start_offset
        while offset < log.end_offset:
            found = log.read(offset, _READ_BYTES, log.end_offset)
            assert found is not None, (offset, log.end_offset)
            for batch in whole_batches(found.read()):
                yield batch
                offset = Offset(batch.next_offset)


def _nothing() -> None:
    """Take a turn beside the loop, for `done` may not come before `sync` has returned."""


@dataclass(frozen=True, slots=True)
class ControllerWorld:
    """What a controller asks of the world."""

    aside: Aside
    clock: Clock
    random: Random


def open_controller(
    settings: BrokerSettings, directory: Uuid, log: MetadataLog, store: QuorumStore, world: ControllerWorld
) -> Controller:
    """Return a controller with the cluster as its log has it; `start` makes it active.

    `directory` is the id of the log directory that holds the metadata log.
    """
    image = replay(log.batches())
    quorum = Quorum(settings.node_id, directory, log, store, world.aside, world.clock)
    return Controller(quorum, settings, world.random, image)
