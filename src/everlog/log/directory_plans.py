"""What is done to a log directory beside the loop: checkpoints are written, and files removed."""

from everlog.log import checkpoint
from everlog.log.partition import PartitionLog
from everlog.model.dataclass import dataclass
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.ports.files import Files


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The checkpoint files of a directory as they are to be; `run` makes them durable, and blocks."""

    files: Files
    directory: str
    contents: tuple[tuple[str, bytes], ...]
    starts: tuple[tuple[PartitionLog, Offset], ...]
    """The logs whose segments wait for their new start to be durable, and what it is."""
    departed: frozenset[TopicPartition]
    """Partitions that are gone, and that the files on disk will not name any more."""

    def run(self) -> None:
        """Replace the files, each as a whole; OSError if the disk refused."""
        for name, content in self.contents:
            checkpoint.replace_file(self.files, f"{self.directory}/{name}", content, sync_dir=False)
        self.files.sync_dir(self.directory)


@dataclass(frozen=True, slots=True)
class Deletions:
    """Files and directories that nobody needs any more; `run` removes them, and may take a while."""

    files: Files
    paths: tuple[str, ...]
    directories: tuple[str, ...]

    def run(self) -> None:
        """Remove them; what has gone already is fine."""
        for path in self.paths:
            self._unlink(path)
        for directory in self.directories:
            for name in self.files.names(directory):
                self._unlink(f"{directory}/{name}")
            self.files.remove_dir(directory)

    def _unlink(self, path: str) -> None:
        try:
            self.files.unlink(path)
        except FileNotFoundError:
            pass
