"""The offset and time index of one segment as one thing: growing, sealed, saved, made anew."""

from everlog.log import offset_index, time_index
from everlog.log.offset_index import GrowingOffsetIndex, OffsetIndex, SealedOffsetIndex
from everlog.log.time_index import GrowingTimeIndex, SealedTimeIndex, TimeIndex
from everlog.ports.files import Files

NO_TIMESTAMP = -1
SAVE_EVERY = 512
"""Entries of an active segment that may wait in memory before they are written to its files."""
FRESH_SUFFIX = ".fresh"


class SegmentIndexes:
    """What is known of a segment's batches without reading them.

    `stem` is the path of the segment's files without their suffixes. The indexes are told of each batch
    after it is in the log, so they may lag it and never lead it. In memory while the segment is active,
    which holds no descriptor and no mapping; mapped, when first asked, once it is sealed.
    """

    __slots__ = (
        "_base_offset",
        "_files",
        "_growing_offsets",
        "_growing_times",
        "_most_entries",
        "_recent",
        "_sealed_offsets",
        "_sealed_times",
        "_unindexed_bytes",
        "first_timestamp",
        "full",
        "interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "stem",
    )

    def __init__(self, files: Files, stem: str, base_offset: int, interval_bytes: int) -> None:
        self._files = files
        self.stem = stem
        self._base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.first_timestamp = NO_TIMESTAMP
        """The largest timestamp of the first batch, by which an active segment's age is told."""
        self.max_timestamp = NO_TIMESTAMP
        """The largest timestamp of all batches; of a sealed segment it is in the time index."""
        self.max_timestamp_offset = base_offset
        """The last offset of the batch that brought `max_timestamp`."""
        self.full = False
        """Whether one more entry would make a file larger than allowed."""
        self._most_entries = 1 << 31
        self._unindexed_bytes = 0
        # (last offset, position) of the batches behind the newest entry: who follows the end of the log
        # reads there, and would walk up to them from that entry each time.
        self._recent: list[tuple[int, int]] = []
        self._growing_offsets: GrowingOffsetIndex | None = None
        self._growing_times: GrowingTimeIndex | None = None
        self._sealed_offsets: SealedOffsetIndex | None = None
        self._sealed_times: SealedTimeIndex | None = None

    @property
    def offsets(self) -> OffsetIndex:
        """The offset index; a sealed one is mapped now, CorruptDataError or OSError if it cannot be used."""
        if self._growing_offsets is not None:
            return self._growing_offsets
        if self._sealed_offsets is None:
            view = self._files.map(self.stem + offset_index.SUFFIX)
            self._sealed_offsets = SealedOffsetIndex(self._base_offset, view)
        return self._sealed_offsets

    @property
    def times(self) -> TimeIndex:
        """The time index, as `offsets`."""
        if self._growing_times is not None:
            return self._growing_times
        if self._sealed_times is None:
            view = self._files.map(self.stem + time_index.SUFFIX)
            self._sealed_times = SealedTimeIndex(self._base_offset, view)
        return self._sealed_times

    def start_empty(self) -> None:
        """Begin to grow, with no batch known."""
        self._sealed_offsets = None
        self._sealed_times = None
        self.full = False
        self._growing_offsets = GrowingOffsetIndex(self._base_offset)
        self._growing_times = GrowingTimeIndex(self._base_offset)
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self._base_offset
        self._unindexed_bytes = 0
        self._recent.clear()

    def add(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take in a batch that was appended at `position`; makes an entry if the interval has passed."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._unindexed_bytes > self.interval_bytes:
            offsets, times = self._growing_offsets, self._growing_times
            assert offsets is not None, self.stem
            assert times is not None, self.stem
            count = offsets.append(last_offset, position)
            times.append(self.max_timestamp, self.max_timestamp_offset)
            self.full = count >= self._most_entries
            if count - offsets.saved >= SAVE_EVERY:
                self._save_early()
            self._unindexed_bytes = size
            self._recent = [(last_offset, position)]
            return
        if position == 0:
            self.first_timestamp = max_timestamp
        self._unindexed_bytes += size
        self._recent.append((last_offset, position))

    @property
    def room(self) -> int:
        """How many more entries fit while the segment grows."""
        return self._most_entries - len(self._grown()[0])

    def landing(self, offset: int) -> int:
        """Of a growing segment: the position of the last known batch that ends at or before `offset`."""
        if self._recent and offset >= self._recent[0][0]:
            return next(position for last_offset, position in reversed(self._recent) if last_offset <= offset)
        entry = self._grown()[0].floor(offset)
        return entry[1] if entry else 0

    def _save_early(self) -> None:
        try:
            self.save()
        except OSError:
            pass  # The batch is in the log, which is what counts. The entries wait for the next try.

    def configure(self, interval_bytes: int, segment_index_bytes: int) -> None:
        """Set how far entries lie apart and how large the files may get."""
        self.interval_bytes = interval_bytes
        # A time entry is kept for the seal.
        self._most_entries = min(
            segment_index_bytes // offset_index.ENTRY_BYTES, segment_index_bytes // time_index.ENTRY_BYTES - 1
        )
        if self._growing_offsets is not None:
            self.full = len(self._growing_offsets) >= self._most_entries

    def save(self) -> None:
        """Write what the files lack; they exist afterwards even if they are empty."""
        offsets, times = self._grown()
        _save(self._files, self.stem + offset_index.SUFFIX, offsets, offset_index.ENTRY_BYTES)
        _save(self._files, self.stem + time_index.SUFFIX, times, time_index.ENTRY_BYTES)

    def save_for_seal(self) -> None:
        """Write out everything, ending with the segment's largest timestamp."""
        _, times = self._grown()
        times.append(self.max_timestamp, self.max_timestamp_offset)
        self.save()

    def seal(self) -> None:
        """Let go of the memory, once `save_for_seal` has succeeded."""
        self._growing_offsets = None
        self._growing_times = None

    def load(self) -> tuple[int, int] | None:
        """Take the entries into memory to grow on; returns the last (last offset, position).

        CorruptDataError or FileNotFoundError if the files are not good for it. The caller then tells of
        the batches from that position on, by `resume`.
        """
        offsets = GrowingOffsetIndex.load(
            self._base_offset, self._files.read(self.stem + offset_index.SUFFIX)
        )
        times = GrowingTimeIndex.load(self._base_offset, self._files.read(self.stem + time_index.SUFFIX))
        self.start_empty()
        self._growing_offsets = offsets
        self._growing_times = times
        last = times.last()
        if last is not None:
            self.max_timestamp, self.max_timestamp_offset = last
        return offsets.last()

    def resume(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take in a batch behind the last entry, or that of the entry itself, without making one for it."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        self._unindexed_bytes += size

    def overwrite(self) -> None:
        """Put the entries in memory in the place of what the files hold, which nobody may have mapped."""
        for index in self._grown():
            index.saved = 0
        self.save()

    def rewrite(self) -> None:
        """Put the entries in memory into fresh files that replace those there.

        The old ones may be mapped, and a mapped file must never be cut.
        """
        offsets, times = self._grown()
        for index, suffix, entry_bytes in (
            (offsets, offset_index.SUFFIX, offset_index.ENTRY_BYTES),
            (times, time_index.SUFFIX, time_index.ENTRY_BYTES),
        ):
            index.saved = 0
            _save(self._files, self.stem + suffix + FRESH_SUFFIX, index, entry_bytes)
            self._files.rename(self.stem + suffix + FRESH_SUFFIX, self.stem + suffix)

    def _grown(self) -> tuple[GrowingOffsetIndex, GrowingTimeIndex]:
        offsets, times = self._growing_offsets, self._growing_times
        assert offsets is not None, self.stem
        assert times is not None, self.stem
        return offsets, times


def _save(files: Files, path: str, index: GrowingOffsetIndex | GrowingTimeIndex, entry_bytes: int) -> None:
    file = files.open(path, create=True)
    try:
        saved_bytes = index.saved * entry_bytes
        if file.size < saved_bytes:
            index.saved = saved_bytes = 0
        if file.size > saved_bytes:
            file.truncate(saved_bytes)
        if index.saved < len(index):
            file.append((index.unsaved(),))
            index.saved = len(index)
    finally:
        file.close()
