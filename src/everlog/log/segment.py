"""One segment: append to, find in, prove, cut one log file."""

from collections.abc import Iterable, Sequence

from everlog.log import aborted_index, offset_index, scan, time_index
from everlog.log.aborted_index import AbortedTxn
from everlog.log.epochs import LeaderEpochs
from everlog.log.indexes import SegmentIndexes
from everlog.log.lane import LaneBatch
from everlog.log.scan import Header
from everlog.log.settings import FOREVER
from everlog.log.verified import VerifiedRanges
from everlog.model.errors import CorruptDataError
from everlog.model.ids import NO_EPOCH, Offset
from everlog.ports.files import File, Files
from everlog.records.batch import CONTROL, BatchView

LOG_SUFFIX = ".log"
SNAPSHOT_SUFFIX = ".snapshot"
DERIVED_SUFFIXES = (offset_index.SUFFIX, time_index.SUFFIX, aborted_index.SUFFIX, SNAPSHOT_SUFFIX)
SUFFIXES = (LOG_SUFFIX, *DERIVED_SUFFIXES)
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
"""How far an offset may lie behind its segment's base: index entries have 32 bits for it."""


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a segment's file: twenty digits and what it holds."""
    return f"{base_offset:020d}{suffix}"


MOST_REMEMBERED = 64
"""Readers of one segment that find their next batch without a search."""


class Segment:
    """The batches from `base_offset` up to the next segment's, in one file.

    What an index says is checked against the batch it points to; a wrong index is made anew from the
    log. Reads of a sealed segment go on while it is renamed and removed.
    """

    __slots__ = (
        "_aborted",
        "_aborted_unsaved",
        "_ahead",
        "_file",
        "_files",
        "_largest",
        "aborted_unchecked",
        "base_offset",
        "end_offset",
        "has_markers",
        "indexes",
        "may_have_aborted",
        "sealed",
        "size",
        "stem",
        "verified",
    )

    def __init__(
        self, files: Files, directory: str, base_offset: Offset, size: int, interval_bytes: int
    ) -> None:
        self._files = files
        self.stem = f"{directory}/{file_name(base_offset, '')}"
        """The path of the segment's files without their suffixes."""
        self.base_offset = base_offset
        self.end_offset = base_offset
        """One behind the last offset here; of a sealed segment the next one's base offset."""
        self.size = size
        """Bytes of log in the file."""
        self.has_markers = True
        """Whether there may be control batches; False is certain."""
        self.sealed = True
        """Whether the segment takes no more batches and its indexes are on disk."""
        self.verified = VerifiedRanges(trusted_from=size)
        self.indexes = SegmentIndexes(files, self.stem, base_offset, interval_bytes)
        # The batches behind the last few reads, by their base offsets: most readers go on where they stopped.
        self._ahead: dict[int, Header] = {}
        self._file: File | None = None
        self._aborted: list[AbortedTxn] | None = None
        self._aborted_unsaved = False
        self.may_have_aborted = True
        """Whether `aborted` is worth asking for."""
        self.aborted_unchecked = True
        """Whether the aborted transactions come from disk, and nobody has looked for their first batches."""
        self._largest: tuple[int, int] | None = None  # Of a sealed segment, once it is known.

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: Offset, interval_bytes: int) -> "Segment":
        """Make a new, empty, active segment and its file."""
        segment = cls(files, directory, base_offset, 0, interval_bytes)
        segment.has_no_aborted()
        if segment.file_or_new().size:
            segment.file.truncate(0)  # Left by a roll that went no further.
        segment.indexes.start_empty()
        segment.sealed = False
        return segment

    def moved_to(self, directory: str) -> None:
        """Take in that the directory of its files was renamed; those that are open have gone along."""
        self.stem = self.indexes.stem = f"{directory}/{file_name(self.base_offset, '')}"

    @property
    def file(self) -> File:
        """The log file, opened when first needed."""
        if self._file is None:
            self._file = self._files.open(self.stem + LOG_SUFFIX)
        return self._file

    @property
    def broken(self) -> bool:
        """Whether the log file takes no more appends, see the port."""
        return self._file is not None and self._file.broken

    def file_or_new(self) -> File:
        """The log file, made if it is missing."""
        if self._file is None:
            self._file = self._files.open(self.stem + LOG_SUFFIX, create=True)
        return self._file

    def open_as(self, path: str) -> None:
        """Open the log file under the name that it has until it gets its own."""
        self._file = self._files.open(path)

    def close(self) -> None:
        """Let go of the log file; it is opened again if it is needed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}..{self.end_offset}, size={self.size}, sealed={self.sealed})"

    def append(self, batch: BatchView, last_offset: int) -> None:
        """Write one stamped batch at the tail. OSError leaves the segment as it was."""
        raw = batch.raw
        size = len(raw)
        file = self._file
        if file is None:
            file = self.file
        position = file.append((raw,))
        # File first, index second: an index may lag its file, never lead it.
        self.indexes.add(position, size, last_offset, batch.max_timestamp)
        self.size = position + size
        self.end_offset = Offset(last_offset + 1)

    def grown(self, batches: Iterable[LaneBatch], size: int, end_offset: int) -> None:
        """Take in batches that were written behind the last one; the file has `size` bytes now."""
        self.file.grown_to(size)
        add = self.indexes.add
        for position, batch_size, base_offset, last_delta, max_timestamp, _, _, _ in batches:
            add(position, batch_size, base_offset + last_delta, max_timestamp)
        self.size = size
        self.end_offset = Offset(end_offset)

    def append_together(self, batches: Sequence[BatchView]) -> None:
        """Write batches as they are, with one write; they follow each other in one buffer."""
        file = self._file
        position = (self.file if file is None else file).append([batch.raw for batch in batches])
        add = self.indexes.add
        for batch in batches:
            size = len(batch.raw)
            add(position, size, batch.last_offset, batch.max_timestamp)
            position += size
        self.size = position
        self.end_offset = Offset(batches[-1].next_offset)

    def save_for_seal(self) -> None:
        """Write to disk all that a sealed segment has there. The segment may go on being active after it."""
        # A segment that is sealed ends with its last batch, as its readers may expect.
        self.file.trim()
        self.indexes.save_for_seal()
        if self._aborted_unsaved:
            self.replace_aborted(self.aborted)

    def seal(self) -> None:
        """Take no more batches, once `save_for_seal` has succeeded."""
        self.indexes.seal()
        self.sealed = True
        self._largest = (self.indexes.max_timestamp, self.indexes.max_timestamp_offset)

    def unseal(self) -> None:
        """Take batches again: the indexes go to memory, and the end is found from the last entry on."""
        if not self.sealed:
            return
        try:
            landing = self.indexes.load()
            first = next(scan.headers(self.file, 0, self.size), None)
            self.end_offset = self.base_offset
            for header in scan.headers(self.file, landing[1] if landing else 0, self.size):
                if landing is not None and header.position == landing[1] and header.last_offset != landing[0]:
                    raise CorruptDataError(
                        f"{self.stem}: the index ends with {landing}, the log has {header}"
                    )
                self.indexes.resume(header.size, header.last_offset, header.max_timestamp)
                self.end_offset = Offset(header.last_offset + 1)
        except (FileNotFoundError, CorruptDataError):
            self.rebuild_indexes()
        else:
            self.indexes.first_timestamp = first.max_timestamp if first else -1
        self.sealed = False

    def rebuild_indexes(self) -> None:
        """Make both indexes anew from the log's headers, in memory; `indexes.rewrite` puts them on disk."""
        self.indexes.start_empty()
        self.end_offset = self.base_offset
        self.has_markers = False
        for header in scan.headers(self.file, 0, self.size):
            if not 0 <= header.last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
                raise CorruptDataError(f"{self.file.path} has {header} in the segment of {self.base_offset}")
            self.has_markers = self.has_markers or header.attributes & CONTROL != 0
            self.indexes.add(header.position, header.size, header.last_offset, header.max_timestamp)
            self.end_offset = Offset(header.last_offset + 1)

    def _mend(self) -> None:
        """Replace a sealed segment's wrong or missing indexes by right ones."""
        end_offset = self.end_offset
        try:
            # An index made from a header that lies would hide a batch from now on.
            for _ in scan.batches(self.file, 0, self.size):
                pass
            self.rebuild_indexes()
        except CorruptDataError:
            # The log is what is damaged. The index on disk may still lead to the batches behind that.
            self.indexes.seal()
            raise
        finally:
            self.end_offset = end_offset
        try:
            self.indexes.rewrite()
            self.indexes.save_for_seal()
        except OSError:
            return  # A full disk stops no reader: the entries stay in memory, and serve as well.
        self.indexes.seal()

    # Finding

    def find(self, offset: int) -> Header | None:
        """The first batch whose last offset is at least `offset`; None if there is none.

        Where that batch does not hold `offset` itself, compaction has taken it, or a header before that
        lies about its offsets. So those are proved then; else a damaged batch would be passed over.
        """
        ahead = self._ahead.get(offset)
        if ahead is not None:
            return ahead
        landing = self._landing(offset)
        for header in scan.headers(self.file, landing, self.size):
            if header.base_offset < self.base_offset:
                raise CorruptDataError(f"{self.file.path} has {header}, expected {self.base_offset} or more")
            if header.last_offset >= offset:
                if header.base_offset > offset:
                    for _ in scan.batches(self.file, landing, header.end):
                        pass
                if header.last_offset >= self.end_offset:
                    raise CorruptDataError(
                        f"{self.file.path} has {header}, expected it below {self.end_offset}"
                    )
                return header
        return None

    def _landing(self, offset: int) -> int:
        """A position, of a batch or 0, from which a walk forward finds `offset`."""
        if not self.sealed:
            return self.indexes.landing(offset)
        try:
            entry = self.indexes.offsets.floor(offset)
            if entry is None or self._points_to_batch(entry):
                return entry[1] if entry else 0
        except (FileNotFoundError, CorruptDataError):
            pass
        self._mend()
        entry = self.indexes.offsets.floor(offset)
        return entry[1] if entry else 0

    def _points_to_batch(self, entry: tuple[int, int]) -> bool:
        try:
            header = next(scan.headers(self.file, entry[1], self.size), None)
        except CorruptDataError:
            return False
        return header is not None and header.last_offset == entry[0]

    def boundary_before(self, limit: int, at_least: int) -> int:
        """The last position up to `limit` at which a batch ends; `at_least` is where an earlier one does."""
        if limit >= self.size:
            return self.size
        end = at_least
        entry = self.indexes.offsets.floor_position(limit)
        if entry is not None and entry[1] > end and (not self.sealed or self._points_to_batch(entry)):
            end = entry[1]
        for header in scan.headers(self.file, end, self.size):
            if header.end > limit:
                if header.last_offset < self.end_offset:
                    self._remember(header)
                break
            end = header.end
        return end

    def _remember(self, header: Header) -> None:
        if len(self._ahead) >= MOST_REMEMBERED:
            del self._ahead[next(iter(self._ahead))]
        self._ahead[header.base_offset] = header

    def prove(self, start: int, end: int, epochs: LeaderEpochs) -> None:
        """Check the batches between two positions unless this process has; CorruptDataError if one is bad.

        The checksum does not cover base offset, length and epoch. So these must fit too: each batch to
        its neighbours, the last one to what follows it, all to the segment's range and the known epochs.
        """
        unproved = self.verified.unproved_from(start, end)
        if unproved >= end:
            return
        expected = int(self.base_offset)
        for position, batch in scan.batches(self.file, unproved, end):
            last_offset = batch.base_offset + batch.last_offset_delta
            # No epoch is known below a log start that a crash has taken back.
            epoch = epochs.epoch_at(Offset(last_offset))
            right_epoch = epoch in (NO_EPOCH, batch.leader_epoch)
            if batch.base_offset < expected or last_offset >= self.end_offset or not right_epoch:
                raise CorruptDataError(
                    f"{self.file.path} at position {position} has {batch}, expected offsets from {expected} "
                    f"up to {self.end_offset} in epoch {epoch}"
                )
            expected = last_offset + 1
        follower = next(scan.headers(self.file, end, self.size), None)
        if follower is not None and follower.base_offset < expected:
            raise CorruptDataError(
                f"{self.file.path} has offset {follower.base_offset} behind {expected - 1}"
            )
        self.verified.add(unproved, end)

    @property
    def knows_largest(self) -> bool:
        """Whether `largest_timestamp` needs no look at files."""
        return self._largest is not None or not self.sealed

    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of the batch that has it; -1 if no batch has one."""
        if not self.sealed:
            return self.indexes.max_timestamp, self.indexes.max_timestamp_offset
        if self._largest is None:
            self._largest = self._time_entry(FOREVER) or (-1, int(self.base_offset))
        return self._largest

    def find_time(self, timestamp: int, start_offset: int, epochs: LeaderEpochs) -> Header | None:
        """The first batch at or behind `start_offset` that has a timestamp of at least `timestamp`.

        All that was walked over is proved: a header that lies about its time would hide its batch.
        """
        entry = self._time_entry(timestamp)
        landing = self.find(max(entry[1] if entry else self.base_offset, start_offset))
        if landing is None:
            return None
        for header in scan.headers(self.file, landing.position, self.size):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                self.prove(landing.position, header.end, epochs)
                return header
        self.prove(landing.position, self.size, epochs)
        return None

    def _time_entry(self, timestamp: int) -> tuple[int, int] | None:
        """The last (timestamp, last offset) up to `timestamp`, true to the log: all before it is older."""
        try:
            entry = self.indexes.times.floor(timestamp)
            if entry is None or not self.sealed:
                return entry
            header = self.find(entry[1])
            if header is not None and header.last_offset == entry[1] and header.max_timestamp == entry[0]:
                return entry
        except (FileNotFoundError, CorruptDataError):
            pass
        self._mend()
        return self.indexes.times.floor(timestamp)

    def batch_at(self, header: Header) -> BatchView:
        """Read one whole batch."""
        return BatchView(memoryview(self.file.read(header.position, header.size)))

    # Cutting and aborted transactions

    def cut_file(self, position: int) -> None:
        """Cut the log file, durably: what came back after a crash might fit behind what is written next."""
        self.file.truncate(position)
        self.file.sync()
        self.size = position

    def truncate_to(self, offset: Offset) -> Offset:
        """Cut the active segment at `offset`, or before the batch that holds it; returns the end."""
        assert not self.sealed
        first = self.find(offset)
        self._ahead.clear()
        if first is not None:
            offset = min(offset, Offset(first.base_offset))
            self.cut_file(first.position)
            self.verified.cut(first.position)
            self.rebuild_indexes()
            self.indexes.rewrite()
        self.replace_aborted([txn for txn in self.aborted if txn.last_offset < offset])
        self.end_offset = offset
        return offset

    @property
    def aborted(self) -> list[AbortedTxn]:
        """The transactions whose abort marker lies here, in the order of their markers.

        CorruptDataError if the index does not fit the log.
        """
        if self._aborted is None:
            try:
                raw = self._files.read(self.stem + aborted_index.SUFFIX)
            except FileNotFoundError:
                self._aborted = []
            else:
                entries = aborted_index.unpack(raw, self.base_offset, self.end_offset)
                for entry in entries:
                    self._check_marker(entry)
                self._aborted = entries
        return self._aborted

    def has_no_aborted(self) -> None:
        """Spare the search for a transaction index that is known not to be there."""
        self._aborted = []
        self.may_have_aborted = False

    def _check_marker(self, entry: AbortedTxn) -> None:
        """The transaction index has no checksum: each entry must name a control batch of its producer."""
        header = self.find(entry.last_offset)
        batch = self.batch_at(header) if header is not None else None
        if (
            batch is None
            or batch.base_offset != entry.last_offset
            or batch.producer_id != entry.producer_id
            or not batch.attributes & CONTROL
        ):
            raise CorruptDataError(
                f"{self.stem}{aborted_index.SUFFIX} has {entry}, the log has {batch} there"
            )

    def add_aborted(self, entry: AbortedTxn) -> None:
        """Note an aborted transaction whose marker has just been appended."""
        self.aborted.append(entry)
        self.may_have_aborted = True
        try:
            self._write_aborted((entry,))
        except OSError:
            # The marker is in the log, which is what counts; the entry is written before the seal.
            self._aborted_unsaved = True

    def replace_aborted(self, entries: Iterable[AbortedTxn]) -> None:
        """Make the transaction index hold just these; none removes the file."""
        self._aborted = list(entries)
        self.may_have_aborted = bool(self._aborted)
        path = self.stem + aborted_index.SUFFIX
        if self._files.exists(path):
            self._files.unlink(path)
        if self._aborted:
            self._write_aborted(self._aborted)
        self._aborted_unsaved = False

    def _write_aborted(self, entries: Iterable[AbortedTxn]) -> None:
        file = self._files.open(self.stem + aborted_index.SUFFIX, create=True)
        try:
            file.append((aborted_index.pack(entries),))
        finally:
            file.close()
