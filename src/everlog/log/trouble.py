"""What a log's disk has refused: how it is said, and who is told."""

from collections.abc import Callable

from everlog.model.errors import StorageError
from everlog.model.topics import TopicPartition


class Trouble:
    """The voice of one log: its parts say here what the disk has refused them."""

    __slots__ = ("_partition", "listener")

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self.listener: Callable[[bool], None] | None = None
        """Called when the disk has refused something; with True where the log takes nothing more for it."""

    def refused(self, what: str, error: Exception, *, lasting: bool = False) -> StorageError:
        """Return what to raise where the disk has refused something; who looks after the disk is told."""
        if isinstance(error, OSError):
            self.tell(lasting)
        return StorageError(f"{self._partition} {what}: {error}")

    def tell(self, lasting: bool) -> None:
        """Tell who looks after the disk, and has nothing to raise."""
        if self.listener is not None:
            self.listener(lasting)
