"""What a broker does by itself as time passes: retention, checkpoints, deletions, room on its disks.

Whatever may take long is done a little at a time, or beside the loop.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from everlog.broker.replicas import Replica
from everlog.controller.metadata_log import METADATA_PARTITION
from everlog.log.directory import LogDirectory
from everlog.log.directory_plans import CheckpointPlan, Deletions
from everlog.log.partition import PartitionLog
from everlog.model.errors import CorruptDataError, StorageError
from everlog.model.ids import Instant, Offset
from everlog.model.settings import broker_table as keys
from everlog.ports.aside import Aside

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

ROOM_CHECK_MS = 1_000
DELETION_CHECK_MS = 5_000
_RETENTION_SLICE = 20
"""Partitions looked at in one go; a partition may have to be opened first, which takes a while."""
_RETENTION_PAUSE_MS = 20


class Checkpoints:
    """The checkpoint files of one directory; one write at a time, those who ask meanwhile share the next."""

    def __init__(
        self, directory: LogDirectory, aside: Aside, refused: Callable[[LogDirectory], None]
    ) -> None:
        """`refused` is told when the disk does not take them."""
        self._directory = directory
        self._aside = aside
        self._refused = refused
        self._running = False
        self._waiting: list[Callable[[bool], None]] = []

    def write(self, done: Callable[[bool], None]) -> None:
        """Write what holds now, then call `done` with whether it is durable."""
        self._waiting.append(done)
        if not self._running:
            self._start()

    def _start(self) -> None:
        self._running = True
        waiting, self._waiting = self._waiting, []
        plan = self._directory.checkpoint_plan()
        self._aside.run(plan.run, lambda result: self._ended(plan, waiting, result))

    def _ended(
        self, plan: CheckpointPlan, waiting: list[Callable[[bool], None]], result: OSError | None
    ) -> None:
        self._running = False
        durable = result is None
        if isinstance(result, OSError):
            _log.error("the checkpoints of %s cannot be written: %s", self._directory.path, result)
            self._refused(self._directory)
        else:
            try:
                self._directory.checkpointed(plan)
            except OSError as error:
                _log.error("expired segments in %s cannot be renamed: %s", self._directory.path, error)
        for done in waiting:
            done(durable)
        if self._waiting and not self._running:
            self._start()


class Housekeeping:
    """The broker's periodic work."""

    def __init__(self, broker: "Broker", aside: Aside) -> None:
        self._broker = broker
        self._aside = aside
        self._checkpoints = {
            directory.path: Checkpoints(directory, aside, broker.health.suspect)
            for directory in broker.directories
        }
        now = broker.clock.now()
        first = broker.settings[keys.LOG_INITIAL_TASK_DELAY_MS]
        self._retention_at = Instant(now + first)
        self._checkpoint_at = Instant(now + broker.settings[keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS])
        self._starts_at = Instant(now + broker.settings[keys.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS])
        self._expiry_at = Instant(now + broker.settings[keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS])
        self._deletion_at = Instant(now + DELETION_CHECK_MS)
        self._room_at = now
        self._retention_queue: deque[Replica] = deque()
        self._ends: dict[PartitionLog, Offset] = {}  # Where logs ended when they were last looked at.
        self.without_room: set[str] = set()
        """Directories with less than `disk.reserve.bytes` left: they take no records until they have more."""

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        if now >= self._room_at:
            self._room_at = Instant(now + ROOM_CHECK_MS)
            self._check_room()
        if now >= self._deletion_at:
            self._deletion_at = Instant(now + DELETION_CHECK_MS)
            self._delete_due(now)
        if now >= self._checkpoint_at:
            interval = self._broker.settings[keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS]
            self._checkpoint_at = Instant(now + interval)
            self._sync_and_checkpoint()
        if now >= self._starts_at:
            interval = self._broker.settings[keys.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS]
            self._starts_at = Instant(now + interval)
            if self._checkpoint_at != self._starts_at:  # Else they were written just now.
                self._write_checkpoints()
        if now >= self._expiry_at:
            interval = self._broker.settings[keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS]
            self._expiry_at = Instant(now + interval)
            self._expire_producers()
        if now >= self._retention_at:
            self._retention_at = Instant(now + self._broker.settings[keys.LOG_RETENTION_CHECK_INTERVAL_MS])
            self._retention_queue = deque(self._broker.replicas)
        if self._retention_queue:
            self._retain_some()
            self._broker.alarm.ring_by(Instant(now + _RETENTION_PAUSE_MS))
        self._broker.alarm.ring_by(
            min(
                self._room_at,
                self._deletion_at,
                self._checkpoint_at,
                self._starts_at,
                self._expiry_at,
                self._retention_at,
            )
        )

    # --- room

    def _check_room(self) -> None:
        reserve = self._broker.settings[keys.DISK_RESERVE_BYTES]
        for directory in self._broker.directories:
            self._broker.health.look(directory)
            try:
                free = self._broker.files.free_bytes(directory.path)
            except OSError:
                self._broker.health.suspect(directory)
                continue
            if free >= reserve:
                if directory.path in self.without_room:
                    self.without_room.discard(directory.path)
                    _log.warning("%s has room again and takes records", directory.path)
            elif directory.path not in self.without_room:
                self.without_room.add(directory.path)
                _log.error(
                    "%s has %d bytes left, less than disk.reserve.bytes=%d; it takes no records until then",
                    directory.path,
                    free,
                    reserve,
                )

    def directory_lost(self, directory: LogDirectory) -> None:
        """Keep house no more in a directory that has failed."""
        del self._checkpoints[directory.path]
        self.without_room.discard(directory.path)

    # --- checkpoints

    def checkpoint_start_offsets(self, done: Callable[[bool], None]) -> None:
        """Make the log start offsets of all directories durable, then tell `done` whether that worked."""
        missing = len(self._checkpoints)
        all_durable = True

        def ended(durable: bool) -> None:
            nonlocal missing, all_durable
            missing -= 1
            all_durable &= durable
            if missing == 0:
                done(all_durable)

        for checkpoints in list(self._checkpoints.values()):
            checkpoints.write(ended)

    def checkpoint(self, directory: LogDirectory, done: Callable[[bool], None]) -> None:
        """Write the checkpoints of one directory, then tell `done` whether they are durable."""
        checkpoints = self._checkpoints.get(directory.path)
        if checkpoints is None:
            done(False)
        else:
            checkpoints.write(done)

    def _sync_and_checkpoint(self) -> None:
        """Bring to disk what a crash would leave to recover, where that costs little.

        That is sealed segments, which the system has mostly written by now, and logs that were quiet since
        the last time. A log under load is left to the system until it rolls.
        """
        # The quorum syncs the metadata log, and nobody else may.
        logs = [
            log
            for directory in self._broker.directories
            for log in directory.open_logs
            if not log.failure and log.partition != METADATA_PARTITION
        ]
        behind = [log for log in logs if log.recovery_point < log.end_offset]
        # One that was synced when a segment was sealed may have an open lane, and has to give that back too.
        watched = [*behind, *(log for log in logs if log.lane is not None)]
        ends = {log: log.end_offset for log in watched}
        quiet = {log: None for log, end in ends.items() if self._ends.get(log) == end}
        for log in quiet:
            log.leave_lane()  # It gives back room on disk, and a descriptor.
        lanes = self._broker.lanes
        for log in [log for log in lanes if log.lane is None]:
            del lanes[log]  # It may have been deleted, and nobody else know it any more.
        dirty = [log for log in behind if log.sealed_unsynced or log in quiet]
        self._ends = ends
        missing = len(dirty)
        if not missing:
            self._write_checkpoints()
            return

        def ended(_durable: bool) -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                self._write_checkpoints()

        now = self._broker.clock.now()
        for log in dirty:
            self._broker.group_commit.wait(log, log.end_offset, now, ended)

    def _write_checkpoints(self) -> None:
        for checkpoints in self._checkpoints.values():
            checkpoints.write(lambda _durable: None)

    # --- retention and deletion

    def _retain_some(self) -> None:
        wall = self._broker.clock.wall()
        waiting = False
        for _ in range(min(_RETENTION_SLICE, len(self._retention_queue))):
            replica = self._retention_queue.popleft()
            if self._broker.replicas.get(replica.topic_id, replica.name.partition) is not replica:
                continue
            try:
                waiting |= replica.opened().enforce_retention(wall, Offset(replica.high_watermark))
            except (StorageError, CorruptDataError) as error:
                _log.warning("retention of %s is left for the next time: %s", replica.name, error)
        if waiting:
            self.checkpoint_start_offsets(lambda _durable: None)

    def _expire_producers(self) -> None:
        wall = self._broker.clock.wall()
        for directory in self._broker.directories:
            for log in directory.open_logs:
                log.expire_producers(wall)

    def delete_partitions(self, replicas: Iterable[Replica]) -> None:
        """Take the logs of deleted partitions out of use; their files go a little later."""
        for replica in replicas:
            for directory in self._broker.directories:
                if replica.name not in directory:
                    continue
                try:
                    directory.delete(replica.name)
                except StorageError as error:
                    _log.error("%s is deleted, but its directory stays: %s", replica.name, error)

    def _delete_due(self, now: Instant) -> None:
        for directory in self._broker.directories:
            deletions = directory.due_deletions(now)
            if deletions is not None:
                self._run(deletions)

    def _run(self, deletions: Deletions) -> None:
        def ended(result: OSError | None) -> None:
            if isinstance(result, OSError):
                _log.error("deleted files could not be removed and stay until the next start: %s", result)

        self._aside.run(deletions.run, ended)
