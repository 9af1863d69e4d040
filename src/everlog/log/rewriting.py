"""What a failed sync was about, brought to disk anew.

After an fsync has failed the system may call pages clean that never reached the disk: the next one would
succeed and mean nothing. So whatever is not known to be durable is read, proved by its checksums, written
over itself byte for byte, and synced. Nothing is lost that can still be read, and nothing counts that is not
on the disk. Where a batch cannot be proved any more, the disk has kept something else.
"""

from collections.abc import Iterator

from everlog.log import scan
from everlog.log.checkpoint import PARTITION_METADATA
from everlog.log.segment import DERIVED_SUFFIXES, SNAPSHOT_SUFFIX
from everlog.log.segments import SegmentList
from everlog.model.dataclass import dataclass
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset
from everlog.ports.files import Buffer, File, Files


@dataclass(frozen=True, slots=True)
class DoubtfulSegment:
    """A segment that may not be on disk as it reads."""

    base_offset: Offset
    end_offset: Offset
    file: File
    size: int


@dataclass(frozen=True, slots=True)
class Damage:
    """What could not be proved."""

    base_offset: Offset
    """Where the segment begins that has it."""
    problem: str


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """All of a log that may not be on disk; `run` brings it there, and blocks."""

    files: Files
    segments: tuple[DoubtfulSegment, ...]
    derived: tuple[str, ...]
    """Paths of files that are checked when they are used: indexes, snapshots."""
    durable_to: Offset
    """All records below are on disk."""

    def run(self) -> Damage | None:
        """Write it all again, in order, up to what cannot be proved; OSError if the disk refuses."""
        for segment in self.segments:
            try:
                segment.file.rewrite(*self._doubtful(segment))
            except FileNotFoundError:
                pass  # Removed meanwhile, so nobody counts on it any more.
            except CorruptDataError as error:
                return Damage(segment.base_offset, str(error))
        for path in self.derived:
            self._rewrite_derived(path)
        return None

    def _doubtful(self, segment: DoubtfulSegment) -> tuple[int, Iterator[Buffer]]:
        """The position from which on a segment may not be durable, and its batches from there on."""
        position = segment.size
        for header in scan.headers(segment.file, 0, segment.size):
            if header.last_offset >= self.durable_to:
                position = header.position
                break
        return position, self._proved(segment, position)

    def _proved(self, segment: DoubtfulSegment, position: int) -> Iterator[Buffer]:
        for at, batch in scan.batches(segment.file, position, segment.size):
            if not segment.base_offset <= batch.base_offset <= batch.last_offset < segment.end_offset:
                raise CorruptDataError(
                    f"{segment.file.path} at position {at} has {batch}, expected offsets from "
                    f"{segment.base_offset} up to {segment.end_offset}"
                )
            yield batch.raw

    def _rewrite_derived(self, path: str) -> None:
        try:
            file = self.files.open(path)
        except FileNotFoundError:
            return  # Its segment never had such a file.
        try:
            file.rewrite(0, (file.read(0, file.size),))
        finally:
            file.close()


def rewrite_plan(files: Files, segments: SegmentList, durable_to: Offset) -> RewritePlan:
    """Make the plan for a log all of whose records below `durable_to` are on disk."""
    sealed, active = segments.sealed_above(durable_to), segments.active
    derived = [segment.stem + suffix for segment in sealed for suffix in DERIVED_SUFFIXES]
    derived += [active.stem + SNAPSHOT_SUFFIX, f"{segments.path}/{PARTITION_METADATA}"]
    return RewritePlan(
        files,
        tuple(
            DoubtfulSegment(segment.base_offset, segment.end_offset, segment.file, segment.size)
            for segment in (*sealed, active)
        ),
        tuple(derived),
        durable_to,
    )
