"""What must reach the disk, decided on the loop and carried out beside it."""

from everlog.log.checkpoint import LEADER_EPOCHS, epochs_content, parent_of, replace_file
from everlog.log.directory_probe import PASSING
from everlog.log.epochs import LeaderEpochs
from everlog.log.segment import DERIVED_SUFFIXES, SNAPSHOT_SUFFIX, Segment
from everlog.log.settings import FOREVER, LogSettings
from everlog.model.dataclass import dataclass
from everlog.model.ids import Instant, Offset
from everlog.ports.clock import Clock
from everlog.ports.files import File, Files


class SyncPostponedError(OSError):
    """A plan lacks room for a small file: what it covers is not durable yet, and no sync has failed."""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """All that makes a log durable up to `end_offset`; `run` does it, in the order that a crash forgives.

    Segment data goes first, then what is derived from it, then names: whoever finds an index, a snapshot
    or an epoch after a crash finds the batches it speaks of.
    """

    files: Files
    logs: tuple[File, ...]
    derived: tuple[str, ...]
    """Paths of index and snapshot files of sealed segments."""
    replacements: tuple[tuple[str, bytes], ...]
    """Small files to put in place, with their content."""
    directories: tuple[str, ...]
    end_offset: Offset
    generation: int
    """Which life of the log this is for: cutting it begins another, to which this plan means nothing."""

    def run(self) -> None:
        """Make everything durable; OSError if the disk refused, after which nothing may be counted on.

        SyncPostponedError where the same may be tried again as it is.
        """
        for log in self.logs:
            try:
                log.sync()
            except FileNotFoundError:
                pass  # Removed by retention or a truncation meanwhile, so nobody counts on it any more.
        for path in self.derived:
            self._sync_derived(path)
        for path, content in self.replacements:
            self._replace(path, content)
        for directory in self.directories:
            self.files.sync_dir(directory)

    def _replace(self, path: str, content: bytes) -> None:
        try:
            replace_file(self.files, path, content, sync_dir=False)
        except OSError as error:
            # Until it is renamed nobody reads the new file, and another try writes it anew.
            if error.errno in PASSING:
                raise SyncPostponedError(error.errno, error.strerror, path) from error
            raise

    def _sync_derived(self, path: str) -> None:
        try:
            file = self.files.open(path)
        except FileNotFoundError:
            return  # Its segment has gone meanwhile, or never had such a file.
        try:
            file.sync()
        finally:
            file.close()


class Unsynced:
    """What a log has written since its last plan, when that must reach the disk, and what has (L8)."""

    __slots__ = (
        "_clock",
        "_files",
        "_path",
        "changed",
        "due_at",
        "generation",
        "is_new",
        "names_changed",
        "others",
        "records",
        "recovery_point",
        "sealed",
    )

    def __init__(
        self, files: Files, clock: Clock, path: str, recovered: list[Segment], recovery_point: Offset
    ) -> None:
        self._files = files
        self._clock = clock
        self._path = path
        self.recovery_point = recovery_point
        """All records below are durable; never above what was synced."""
        self.changed = bool(recovered)
        """Whether anything was written."""
        self.names_changed = bool(recovered)
        """Whether files were made, renamed or removed."""
        self.records = 0
        self.sealed: list[Segment] = recovered[:-1]
        """Segments that were sealed."""
        self.others: list[str] = []
        """Paths of other files in the log's directory."""
        self.due_at: Instant | None = None
        """When the plan must be carried out at the latest; None if nobody waits for it."""
        self.generation = 0
        self.is_new = False
        """Whether the name of the log's directory may not be durable."""

    def begin_generation(self) -> None:
        """The log is cut: plans made before mean nothing any more."""
        self.generation += 1
        self.changed = self.names_changed = True

    def moved(self, old: str, new: str) -> None:
        """Take in that the directory at `old` is at `new` now, and that other things may be written there."""
        self._path = new
        self.others = [new + path.removeprefix(old) for path in self.others]
        self.changed = True

    def also(self, path: str) -> None:
        """Let the next plan cover another file of the log's directory too, and its name."""
        if path not in self.others:
            self.others.append(path)
        self.changed = self.names_changed = True

    def wanted(self, settings: LogSettings) -> bool:
        """Whether the append just noted waits for a sync; sets when that is due."""
        if self.records >= settings.flush_messages:
            self.due_at = self._clock.now()
            return True
        if settings.flush_ms == FOREVER:
            return False
        if self.due_at is None:
            self.due_at = Instant(self._clock.now() + settings.flush_ms)
        return True

    def forget(self, segment: Segment) -> None:
        """A segment has left the log."""
        self.sealed = [kept for kept in self.sealed if kept is not segment]

    def synced(self, plan: SyncPlan) -> None:
        """A plan was carried out: the recovery point moves up to its end, if the log was not cut since."""
        if plan.generation == self.generation:
            self.recovery_point = max(self.recovery_point, plan.end_offset)

    def begin_anew(self, sealed: list[Segment], epochs: LeaderEpochs) -> None:
        """What the last plan was about is not durable: the next one covers it again."""
        self.sealed = sealed
        self.changed = self.names_changed = self.is_new = epochs.changed = True

    def plan(self, active: Segment, end_offset: Offset, epochs: LeaderEpochs) -> SyncPlan | None:
        """Make a plan of all of it and start counting anew; None if nothing was written."""
        if not self.changed:
            return None
        replacements: tuple[tuple[str, bytes], ...] = ()
        if epochs.changed:
            replacements = ((f"{self._path}/{LEADER_EPOCHS}", epochs_content(epochs.entries)),)
        derived = self.others + [
            segment.stem + suffix for segment in self.sealed for suffix in DERIVED_SUFFIXES
        ]
        if self.sealed:
            derived.append(active.stem + SNAPSHOT_SUFFIX)
        directories: tuple[str, ...] = (self._path,) if self.names_changed or replacements else ()
        if self.is_new:
            directories += (parent_of(self._path),)
        plan = SyncPlan(
            self._files,
            tuple(segment.file for segment in (*self.sealed, active)),
            tuple(derived),
            replacements,
            directories,
            end_offset,
            self.generation,
        )
        self.sealed = []
        self.others = []
        self.changed = self.names_changed = self.is_new = epochs.changed = False
        self.records = 0
        self.due_at = None
        return plan
