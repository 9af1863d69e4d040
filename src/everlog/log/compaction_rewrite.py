"""The second pass of a compaction round: groups of segments into one new segment each."""

from collections.abc import Iterator, Sequence

from everlog.log import offset_index, scan, time_index
from everlog.log.compaction import CleanPlan, Source
from everlog.log.compaction_sieve import Sieve
from everlog.log.compaction_swap import CLEANED_FILES
from everlog.log.leftovers import CLEANED_SUFFIX
from everlog.log.offset_index import GrowingOffsetIndex
from everlog.log.segment import LOG_SUFFIX, MAX_RELATIVE_OFFSET, file_name
from everlog.log.settings import LogSettings
from everlog.log.time_index import GrowingTimeIndex
from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer, File, Files
from everlog.records.batch import BatchView

_NO_TIMESTAMP = -1
MOST_SEGMENTS = 64
"""How many segments make one at the most: each is some renames on the loop."""
_INDEXES = (offset_index.SUFFIX, time_index.SUFFIX)


def grouped(sources: Sequence[Source], settings: LogSettings) -> list[tuple[Source, ...]]:
    """Part segments into runs that one segment can hold even if nothing goes."""
    groups: list[list[Source]] = []
    log_bytes = index_entries = 0
    most_entries = settings.segment_index_bytes // time_index.ENTRY_BYTES - 1
    for source in sources:
        # An entry needs more than the interval before it.
        entries = source.size // max(settings.index_interval_bytes, 1) + 1
        fits = (
            bool(groups)
            and len(groups[-1]) < MOST_SEGMENTS
            and log_bytes + source.size <= settings.segment_bytes
            and index_entries + entries <= most_entries
            and source.end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if fits:
            groups[-1].append(source)
            log_bytes += source.size
            index_entries += entries
        else:
            groups.append([source])
            log_bytes, index_entries = source.size, entries
    return [tuple(group) for group in groups]


class Rewrite:
    """One group on its way into a new segment, whose files end in `.cleaned` until it is swapped in."""

    def __init__(self, plan: CleanPlan, group: tuple[Source, ...], sieve: Sieve) -> None:
        self._plan = plan
        self._group = group
        self._sieve = sieve
        self._writer = CleanedWriter(plan, group[0].base_offset)
        self.changed = len(group) > 1
        """Whether the new segment differs from what it was made of."""

    @property
    def size(self) -> int:
        """Bytes of log in the new segment."""
        return self._writer.size

    def run(self) -> Iterator[int]:
        """Write the new segment, durably; yields as it goes, with the bytes read and written since.

        The last batch of the group stays, if only as a header. So a reader that waits at the end of the
        segment gets there, the log's end is found again after a crash, and so is the range that the new
        segment stands for.
        """
        last_at = max(at for at, source in enumerate(self._group) if source.size)
        try:
            for at, source in enumerate(self._group):
                yield from self._rewrite(source, keep_last=at == last_at)
            self._writer.finish()
        finally:
            self._writer.close()

    def _rewrite(self, source: Source, *, keep_last: bool) -> Iterator[int]:
        file = self._plan.files.open(source.path)
        expected = source.base_offset
        try:
            for position, batch in scan.batches(file, 0, source.size, self._plan.io_bytes):
                if batch.base_offset < expected or batch.next_offset > source.end_offset:
                    raise CorruptDataError(
                        f"{source.path} has {batch}, expected offsets {expected} to {source.end_offset}"
                    )
                expected = batch.next_offset
                is_last = keep_last and position + batch.size == source.size
                left = self._sieve.sift(batch, keeps_place=is_last)
                moved = batch.size
                if left is not None:
                    moved += len(left)
                    self._writer.append(left, batch)
                self.changed = self.changed or left is not batch.raw
                yield moved
        finally:
            file.close()

    def discard(self) -> int:
        """Remove what was written; it does not matter what of it is there."""
        self._writer.remove()
        return 0


class CleanedWriter:
    """Writes the files of one new segment: the log, and its two indexes at the end."""

    def __init__(self, plan: CleanPlan, base_offset: int) -> None:
        self._files = plan.files
        self._stem = f"{plan.path}/{file_name(base_offset, '')}"
        self._interval_bytes = plan.settings.index_interval_bytes
        self._flush_bytes = plan.io_bytes
        self._log: File | None = None
        self._buffers: list[Buffer] = []
        self._buffered = 0
        self._offsets = GrowingOffsetIndex(base_offset)
        self._times = GrowingTimeIndex(base_offset)
        self._unindexed = 0
        self._newest = (_NO_TIMESTAMP, base_offset)
        self.size = 0

    def append(self, left: Buffer, batch: BatchView) -> None:
        """Take what is left of a batch. The bytes must stay as they are until they are written."""
        size = len(left)
        timestamp = batch.max_timestamp if left is batch.raw else BatchView(memoryview(left)).max_timestamp
        last_offset = batch.last_offset
        if timestamp > self._newest[0]:
            self._newest = (timestamp, last_offset)
        if self._unindexed > self._interval_bytes:
            self._offsets.append(last_offset, self.size)
            self._times.append(*self._newest)
            self._unindexed = 0
        self._unindexed += size
        self.size += size
        self._buffers.append(left)
        self._buffered += size
        if self._buffered >= self._flush_bytes:
            self._flush()

    def _flush(self) -> None:
        if self._log is None:
            self._log = _fresh(self._files, self._stem + LOG_SUFFIX + CLEANED_SUFFIX)
        if self._buffers:
            self._log.append(self._buffers)
        self._buffers = []
        self._buffered = 0

    def finish(self) -> None:
        """Write the rest and make all of it durable."""
        self._flush()
        assert self._log is not None
        self._log.sync()
        self._times.append(*self._newest)
        for suffix, content in zip(_INDEXES, (self._offsets.unsaved(), self._times.unsaved()), strict=True):
            file = _fresh(self._files, self._stem + suffix + CLEANED_SUFFIX)
            try:
                if content:
                    file.append((content,))
                file.sync()
            finally:
                file.close()

    def close(self) -> None:
        """Let go of the log file."""
        if self._log is not None:
            self._log.close()

    def remove(self) -> None:
        """Remove the files."""
        for suffix in CLEANED_FILES:
            path = self._stem + suffix + CLEANED_SUFFIX
            if self._files.exists(path):
                self._files.unlink(path)


def _fresh(files: Files, path: str) -> File:
    file = files.open(path, create=True)
    if file.size:
        file.truncate(0)  # Left by a round that went no further.
    return file
