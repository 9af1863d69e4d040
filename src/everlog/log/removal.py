"""Files of segments that have left the log, on their way out of the directory.

A segment leaves in three steps: it is condemned, in memory; once the log's new start is durable it is
renamed to `.deleted`, so that no start-up takes it for a part of the log; and after a delay, in which those
who still read it can finish, its files are unlinked.
"""

from everlog.log.leftovers import DELETED_SUFFIX
from everlog.log.segment import SUFFIXES, Segment
from everlog.model.ids import Instant, Offset
from everlog.ports.files import Files


class Removals:
    """The segments that one log has let go of."""

    __slots__ = ("_condemned", "_files", "_shelved")

    def __init__(self, files: Files) -> None:
        self._files = files
        self._condemned: list[Segment] = []
        self._shelved: list[tuple[Instant, str]] = []

    @property
    def waiting(self) -> bool:
        """Whether segments wait for the log's start to be durable."""
        return bool(self._condemned)

    def condemn(self, segments: list[Segment]) -> None:
        """Take in segments whose files may be renamed once the log's start is durable."""
        self._condemned += segments

    def shelve(self, start_offset: Offset, due: Instant) -> None:
        """Rename the files of the segments before `start_offset`, which is durable now; they go at `due`.

        Segments condemned since that start was written wait for the next one: without them the log would
        begin with a gap after a crash.
        """
        while self._condemned and self._condemned[0].end_offset <= start_offset:
            self.shelve_now(self._condemned[0], due)
            del self._condemned[0]

    def shelve_now(self, segment: Segment, due: Instant) -> None:
        """Rename one segment's files now; for cutting the end of a log, which no checkpoint must precede."""
        for suffix in SUFFIXES:
            self.shelve_file(segment.stem + suffix, due)

    def shelve_file(self, path: str, due: Instant) -> None:
        """Rename one file now, if it is there."""
        if self._files.exists(path):
            self._files.rename(path, path + DELETED_SUFFIX)
            self._shelved.append((due, path + DELETED_SUFFIX))

    def moved(self, old: str, new: str) -> None:
        """Take in that the directory at `old` is at `new` now."""
        self._shelved = [(due, new + path.removeprefix(old)) for due, path in self._shelved]

    def due(self, now: Instant) -> list[str]:
        """The paths that are to be unlinked by now, which are handed over: they are not returned again."""
        ready = [entry for entry in self._shelved if entry[0] <= now]
        if ready:
            self._shelved = [entry for entry in self._shelved if entry[0] > now]
        return [path for _, path in ready]
