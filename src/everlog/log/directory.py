"""All partitions below one log directory: open, create, delete, checkpoint, stop (L10, L11)."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from everlog.log import checkpoint
from everlog.log.directory_names import DELETE_SUFFIX, FUTURE_SUFFIX, marked_name, partition_of
from everlog.log.directory_plans import CheckpointPlan, Deletions
from everlog.log.partition import PartitionLog, World
from everlog.log.recovery import Opening
from everlog.log.settings import LogSettings
from everlog.log.sync import SyncPlan
from everlog.model.errors import CorruptDataError, StorageError
from everlog.model.ids import Instant, Offset, Timestamp, Uuid
from everlog.model.topics import TopicPartition
from everlog.ports.aside import Aside
from everlog.ports.files import Files

_NO_BROKER_EPOCH = -1


class LogDirectory:
    """The logs of one disk.

    `load` reads what the last run left and is quick. A partition's files are opened when it is first
    asked for. After an unclean stop `recover` opens all, so that the scan is not paid by the first reader.
    """

    def __init__(self, world: World, path: str) -> None:
        self._world = world
        self._files = world.files
        self.path = path
        self.clean = False
        """Whether the last stop was a clean one; known after `load`."""
        self.last_broker_epoch = _NO_BROKER_EPOCH
        """The broker epoch at the last clean stop, -1 if it was not clean."""
        self.problems: list[str] = []
        """Files that could not be used at `load`, and what was done instead."""
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._known: dict[TopicPartition, None] = {}
        self._recovery_points: dict[TopicPartition, Offset] = {}
        self._start_offsets: dict[TopicPartition, Offset] = {}
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """The high watermarks of the last checkpoint; the broker keeps them up to date."""
        self.clean_ends: dict[TopicPartition, Offset] = {}
        """Where the part of each log ends that compaction has gone through; never above what is durable."""
        self.before_checkpoint: Callable[[], None] | None = None
        """Called before checkpoints are written, to bring the high watermarks up to date."""
        self.on_trouble: Callable[[bool], None] | None = None
        """Called when the disk has refused something; with True where a log takes nothing more for it."""
        self.wanted_here: list[TopicPartition] = []
        """Partitions that were on their way here when the last run ended; what was copied of them goes."""
        self.futures: dict[TopicPartition, PartitionLog] = {}
        """Copies of partitions that are on their way here from other directories."""
        self._clean_ends_lost = False
        self._doomed: list[tuple[Instant, str]] = []
        # Partitions that are gone while the files on disk may still say where they began and ended.
        self._departed: set[TopicPartition] = set()

    # Opening

    def load(self) -> None:
        """Find the partitions and what the checkpoints say of them; the clean-shutdown marker goes, durably.

        From here on anything may be written, so without a marker of its own this run has not ended cleanly.
        """
        make_dir_durably(self._files, self.path)
        self.clean = self._take_clean_marker()
        self._recovery_points = self._read_offsets(checkpoint.RECOVERY_POINTS)
        self._start_offsets = self._read_offsets(checkpoint.LOG_STARTS)
        self.high_watermarks = self._read_offsets(checkpoint.HIGH_WATERMARKS)
        self._load_clean_ends()
        now = self._world.clock.now()
        for name in self._files.names(self.path):
            if name.endswith(DELETE_SUFFIX):
                self._doomed.append((now, f"{self.path}/{name}"))
            elif name.endswith(FUTURE_SUFFIX):
                # How much of it is durable is written nowhere: it is copied anew.
                self._doomed.append((now, f"{self.path}/{name}"))
                if (partition := partition_of(name.rpartition(".")[0])) is not None:
                    self.wanted_here.append(partition)
            elif (partition := partition_of(name)) is not None:
                self._known[partition] = None
        for offsets in self._offsets():
            for partition in [partition for partition in offsets if partition not in self._known]:
                del offsets[partition]
                self._departed.add(partition)

    def _load_clean_ends(self) -> None:
        try:
            self.clean_ends = checkpoint.read_offsets(self._files, f"{self.path}/{checkpoint.CLEAN_ENDS}")
        except CorruptDataError as error:
            # All that is lost is work that was done already.
            self.problems.append(f"{error}: all partitions count as not compacted")
            self._clean_ends_lost = True

    def _take_clean_marker(self) -> bool:
        path = f"{self.path}/{checkpoint.CLEAN_SHUTDOWN}"
        try:
            epoch = checkpoint.read_clean_shutdown(self._files, path)
        except CorruptDataError as error:
            self.problems.append(f"{error}: taken as none")
            epoch = None
        if self._files.exists(path):
            self._files.unlink(path)
            self._files.sync_dir(self.path)
        self.last_broker_epoch = _NO_BROKER_EPOCH if epoch is None else epoch
        return epoch is not None

    def _read_offsets(self, name: str) -> dict[TopicPartition, Offset]:
        try:
            return checkpoint.read_offsets(self._files, f"{self.path}/{name}")
        except CorruptDataError as error:
            # Zero is always safe: more is scanned, or a consumer sees records that were to be deleted.
            # After a clean stop too, as the other checkpoints may be damaged as well.
            self.problems.append(f"{error}: taken as 0 for all partitions")
            self.clean = False
            return {}

    def recover(self, settings_for: Callable[[TopicPartition], LogSettings]) -> Iterator[PartitionLog]:
        """Open every partition and yield it; after a clean stop there is nothing to do.

        The settings must be the real ones: a gap between offsets is damage unless the topic is compacted.
        What one partition refuses is noted in `problems` and does not stop the others.
        """
        if self.clean:
            return
        for partition in list(self._known):
            try:
                log = self.get(partition, settings_for(partition))
            except StorageError as error:
                self.problems.append(str(error))
                continue
            if log is not None:
                yield log

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions that have a directory here, whether they are open or not."""
        return list(self._known)

    @property
    def open_logs(self) -> list[PartitionLog]:
        """The logs that are open."""
        return list(self._logs.values())

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._known

    def __len__(self) -> int:
        return len(self._known)

    def get(self, partition: TopicPartition, settings: LogSettings) -> PartitionLog | None:
        """The log of a partition, opened with these settings if it was not open; None if it is not here."""
        log = self._logs.get(partition)
        if log is None and partition in self._known:
            log = self._open(partition, settings)
        return log

    def topic_id(self, partition: TopicPartition) -> Uuid | None:
        """The id of the topic that a partition's directory belongs to; None if the directory does not say.

        It does not where a crash came before the log's first sync.
        """
        path = f"{self.path}/{partition}/{checkpoint.PARTITION_METADATA}"
        try:
            return checkpoint.read_partition_metadata(self._files, path)
        except CorruptDataError as error:
            self.problems.append(f"{error}: taken as unknown")
            return None

    def create(self, partition: TopicPartition, topic_id: Uuid, settings: LogSettings) -> PartitionLog:
        """Make the log of a new partition.

        Its directory, and the topic's id in it, are durable with the log's first sync, which keeps thousands
        of new partitions from waiting for the disk one by one.
        """
        assert partition not in self._known, partition
        path = f"{self.path}/{partition}"
        try:
            if partition in self._departed:
                # What the files say of the one that was deleted would be taken as said of this one.
                plan = self.checkpoint_plan()
                plan.run()
                self.checkpointed(plan)
            self._files.make_dir(path)
            self._write_topic_id(f"{path}/{checkpoint.PARTITION_METADATA}", topic_id)
        except OSError as error:
            self._troubled(False)
            raise StorageError(f"{path} cannot be made: {error}") from error
        self._known[partition] = None
        return self._open(partition, settings)

    def set_topic_id(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Write down whose a directory is that does not say so itself; durable with the log's next sync."""
        path = f"{self.path}/{partition}/{checkpoint.PARTITION_METADATA}"
        try:
            self._write_topic_id(path, topic_id)
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error}") from error
        log = self._logs.get(partition)
        if log is not None:
            log.sync_with(path)

    def _write_topic_id(self, path: str, topic_id: Uuid) -> None:
        file = self._files.open(path, create=True)
        try:
            file.truncate(0)
            file.append((checkpoint.partition_metadata_content(topic_id),))
        finally:
            file.close()

    def _open(self, partition: TopicPartition, settings: LogSettings) -> PartitionLog:
        opening = Opening(
            self.clean,
            self._recovery_points.get(partition, Offset(0)),
            self._start_offsets.get(partition, Offset(0)),
            self._clean_ends_lost or partition in self.clean_ends,
        )
        return self._open_as(partition, settings, opening)

    def _open_as(self, partition: TopicPartition, settings: LogSettings, opening: Opening) -> PartitionLog:
        try:
            log = PartitionLog(self._world, f"{self.path}/{partition}", partition, settings, opening)
        except StorageError:
            self._troubled(False)
            raise
        if log.bare:
            # The last run may have ended without a sync of it.
            log.sync_with(f"{log.path}/{checkpoint.PARTITION_METADATA}")
        log.before_cut = self._make_offsets_durable
        log.on_trouble = self._troubled
        self._logs[partition] = log
        return log

    def _troubled(self, lasting: bool) -> None:
        if self.on_trouble is not None:
            self.on_trouble(lasting)

    def give_up(self) -> None:
        """Take no more appends in any log: the disk has failed. The files are let go of as they are."""
        for log in self._logs.values():
            log.retire("lies in a directory that has failed")
            log.abandon()

    def reopen(self, partition: TopicPartition) -> PartitionLog:
        """Open a log anew that its disk has failed, recovering it from what is durable."""
        old = self._logs.pop(partition)
        old.abandon()
        was_compacted = self._clean_ends_lost or partition in self.clean_ends
        opening = Opening(False, old.recovery_point, old.start_offset, was_compacted)
        return self._open_as(partition, old.settings, opening)

    # Deleting

    def delete(self, partition: TopicPartition) -> None:
        """Take a partition out of use: its directory is renamed, durably, and removed after a while."""
        log = self.let_go(partition)
        if log is not None:
            log.retire()
        settings = log.settings if log is not None else LogSettings()
        self.clear_away(partition, settings.file_delete_delay_ms)

    def let_go(self, partition: TopicPartition) -> PartitionLog | None:
        """Know a partition no more, whose files stay until `clear_away`; returns its log if it was open."""
        del self._known[partition]
        return self._logs.pop(partition, None)

    def clear_away(self, partition: TopicPartition, delay_ms: int) -> None:
        """Rename the directory of a partition that was let go, durably; it is removed after `delay_ms`."""
        for offsets in self._offsets():
            offsets.pop(partition, None)
        self._departed.add(partition)
        self._doom(f"{self.path}/{partition}", partition, delay_ms)

    def _doom(self, path: str, partition: TopicPartition, delay_ms: int) -> None:
        doomed = f"{self.path}/{marked_name(partition, self._world.random.uuid(), DELETE_SUFFIX)}"
        try:
            self._files.rename(path, doomed)
            self._files.sync_dir(self.path)
        except OSError as error:
            raise StorageError(f"{path} cannot be deleted: {error}") from error
        self._doomed.append((Instant(self._world.clock.now() + delay_ms), doomed))

    # Moving in

    def begin_future(
        self, partition: TopicPartition, topic_id: Uuid, settings: LogSettings, start: Offset
    ) -> PartitionLog:
        """Make an empty log, beginning at `start`, that a partition of another directory is copied to."""
        assert partition not in self._known, partition
        assert partition not in self.futures, partition
        path = f"{self.path}/{marked_name(partition, self._world.random.uuid(), FUTURE_SUFFIX)}"
        try:
            self._files.make_dir(path)
            self._write_topic_id(f"{path}/{checkpoint.PARTITION_METADATA}", topic_id)
            self._files.sync_dir(self.path)
        except OSError as error:
            self._troubled(False)
            raise StorageError(f"{path} cannot be made: {error}") from error
        log = PartitionLog(self._world, path, partition, settings, Opening(False, Offset(0), Offset(0), True))
        log.sync_with(f"{path}/{checkpoint.PARTITION_METADATA}")
        log.on_trouble = self._troubled
        if start:
            log.restart_at(start)
        self.futures[partition] = log
        return log

    def expect(self, log: PartitionLog, high_watermark: Offset, clean_end: Offset | None) -> None:
        """Let the next checkpoint speak of a partition that is about to be here, as its copy `log` is now."""
        partition = log.partition
        self._recovery_points[partition] = log.recovery_point
        self._start_offsets[partition] = log.start_offset
        self.high_watermarks[partition] = high_watermark
        if clean_end is not None:
            self.clean_ends[partition] = clean_end

    def drop_future(self, partition: TopicPartition) -> None:
        """Give up a copy: its partition stays where it is."""
        log = self.futures.pop(partition)
        log.retire("is not copied any more")
        log.abandon()
        for offsets in self._offsets():
            offsets.pop(partition, None)
        self._departed.add(partition)
        self._doom(log.path, partition, 0)

    def move_in(self, log: PartitionLog) -> PartitionLog:
        """Let the copy of a log take its place; durable when this returns. The old files stay where they are.

        Where both are found after a crash, `newer_of` says which counts. StorageError leaves all as it was.
        """
        partition = log.partition
        future = self.futures[partition]
        path = f"{self.path}/{partition}"
        try:
            self._files.rename(future.path, path)
            self._files.sync_dir(self.path)
        except OSError as error:
            self._troubled(False)
            raise StorageError(f"{future.path} cannot be renamed: {error}") from error
        del self.futures[partition]
        self._departed.discard(partition)
        future.take_the_place_of(log, path)
        future.before_cut = self._make_offsets_durable
        self._known[partition] = None
        self._logs[partition] = future
        return future

    def enforce_retention(self, wall: Timestamp, high_watermarks: Mapping[TopicPartition, Offset]) -> bool:
        """Let every open log drop what has expired; returns whether a checkpoint must be written for it (L5).

        A log without a high watermark in the mapping drops nothing. What one log's disk refuses is left
        for the next time.
        """
        waiting = False
        for partition, log in self._logs.items():
            high_watermark = high_watermarks.get(partition)
            if high_watermark is not None:
                try:
                    waiting |= log.enforce_retention(wall, high_watermark)
                except (StorageError, CorruptDataError):
                    waiting |= log.removals.waiting
        return waiting

    def due_deletions(self, now: Instant) -> Deletions | None:
        """What is to be removed by now, handed over to be run beside the loop; None if nothing is."""
        paths = [path for log in self._logs.values() for path in log.removals.due(now)]
        directories = [path for due, path in self._doomed if due <= now]
        self._doomed = [entry for entry in self._doomed if entry[0] > now]
        return Deletions(self._files, tuple(paths), tuple(directories)) if paths or directories else None

    # Checkpoints

    def _offsets(self) -> tuple[dict[TopicPartition, Offset], ...]:
        return self._recovery_points, self._start_offsets, self.high_watermarks, self.clean_ends

    def checkpoint_plan(self) -> CheckpointPlan:
        """The checkpoints as they stand: recovery points, log starts, high watermarks."""
        if self.before_checkpoint is not None:
            self.before_checkpoint()
        for partition, log in self._logs.items():
            self._recovery_points[partition] = log.recovery_point
            self._start_offsets[partition] = log.start_offset
            if self.clean_ends.get(partition, 0) > log.recovery_point:
                # The log was cut since; what it gets now in that place is dirty.
                self.clean_ends[partition] = log.recovery_point
        contents: tuple[tuple[str, bytes], ...] = (
            (checkpoint.RECOVERY_POINTS, checkpoint.offsets_content(self._recovery_points)),
            (checkpoint.LOG_STARTS, checkpoint.offsets_content(self._start_offsets)),
            (checkpoint.HIGH_WATERMARKS, checkpoint.offsets_content(self.high_watermarks)),
        )
        if self.clean_ends or self._files.exists(f"{self.path}/{checkpoint.CLEAN_ENDS}"):
            contents += ((checkpoint.CLEAN_ENDS, checkpoint.offsets_content(self.clean_ends)),)
        waiting = tuple((log, log.start_offset) for log in self._logs.values() if log.removals.waiting)
        return CheckpointPlan(self._files, self.path, contents, waiting, frozenset(self._departed))

    def checkpointed(self, plan: CheckpointPlan) -> None:
        """Take in that a plan was carried out: segments before the written starts are renamed to go."""
        now = self._world.clock.now()
        self._departed -= plan.departed
        for log, start_offset in plan.starts:
            if self._logs.get(log.partition) is log:
                log.removals.shelve(start_offset, Instant(now + log.settings.file_delete_delay_ms))

    def checkpoint(self) -> None:
        """Write the checkpoints now; StorageError if the disk refuses."""
        plan = self.checkpoint_plan()
        try:
            plan.run()
            self.checkpointed(plan)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be checkpointed: {error}") from error

    def _make_offsets_durable(self) -> None:
        """Make recovery points and starts durable now, before a log is cut."""
        plan = self.checkpoint_plan()
        try:
            plan.run()
        except OSError as error:
            raise StorageError(f"{self.path} cannot be checkpointed: {error}") from error

    def close(self, aside: Aside, *, broker_epoch: int = _NO_BROKER_EPOCH) -> None:
        """Close all logs, write the checkpoints and, if everything is durable, the clean-shutdown marker.

        What could not be closed cleanly is noted in `problems`; the next start then recovers.
        """
        closed = self._close_logs(aside)
        if not self.clean and any(partition not in self._logs for partition in self._known):
            # Partitions that were never opened since the unclean stop still have to be recovered.
            closed = False
        for future in self.futures.values():
            future.abandon()
        try:
            self.checkpoint()
            if closed:
                checkpoint.replace_file(
                    self._files,
                    f"{self.path}/{checkpoint.CLEAN_SHUTDOWN}",
                    checkpoint.clean_shutdown_content(broker_epoch),
                )
        except (StorageError, OSError) as error:
            self.problems.append(str(error))

    def _close_logs(self, aside: Aside) -> bool:
        """Make all logs durable, many at a time, and let go of their files; returns whether they all are."""
        problems: list[str] = []
        plans: list[tuple[PartitionLog, SyncPlan]] = []
        for log in self._logs.values():
            try:
                plan = log.closing_plan()
            except StorageError as error:
                problems.append(str(error))
                continue
            if plan is not None:
                plans.append((log, plan))
        results = aside.run_together([plan.run for _, plan in plans])
        for (log, plan), failure in zip(plans, results, strict=True):
            if failure is None:
                log.synced(plan)
            else:
                log.sync_failed(failure)
                problems.append(f"{log.partition} cannot be closed: {failure}")
        for log in self._logs.values():
            log.abandon()
        self.problems += problems
        return not problems


def make_dir_durably(files: Files, path: str) -> None:
    """Make a directory and the parents that it lacks, so that no crash takes them away again."""
    missing: list[str] = []
    lowest = path
    while not files.exists(lowest):
        missing.append(lowest)
        lowest = checkpoint.parent_of(lowest)
    files.make_dir(path)
    for made in reversed(missing):
        files.sync_dir(checkpoint.parent_of(made))


def newer_of(logs: Iterable[PartitionLog]) -> PartitionLog:
    """Of several logs of one partition, of which each took the place of another, the last that was in use.

    It has all that the others had: nothing was added to one after the next had taken its place. What it had
    and lost with the power was not durable; then the one before it may have more, and counts.
    """
    return max(logs, key=lambda log: (log.last_epoch(), log.end_offset, log.start_offset))
