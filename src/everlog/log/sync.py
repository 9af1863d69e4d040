"""What must reach the disk, decided on the loop and carried out beside it."""

from dataclasses import dataclass

from everlog.log.checkpoint import replace_file
from everlog.model.ids import Offset
from everlog.ports.files import File, Files


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
    """Which life of the log this is for: cutting the log begins another, and this plan means nothing to it."""

    def run(self) -> None:
        """Make everything durable; OSError if the disk refused, after which nothing may be counted on."""
        for log in self.logs:
            try:
                log.sync()
            except FileNotFoundError:
                pass  # Removed by retention or a truncation meanwhile, so nobody counts on it any more.
        for path in self.derived:
            self._sync_derived(path)
        for path, content in self.replacements:
            replace_file(self.files, path, content, sync_dir=False)
        for directory in self.directories:
            self.files.sync_dir(directory)

    def _sync_derived(self, path: str) -> None:
        try:
            file = self.files.open(path)
        except FileNotFoundError:
            return  # Its segment has gone meanwhile, or never had such a file.
        try:
            file.sync()
        finally:
            file.close()
