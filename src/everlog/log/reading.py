"""What is read of one log: bytes by offset, records by time, transactions that were aborted."""

from collections.abc import Callable

from everlog.log import search
from everlog.log.aborted_index import AbortedTxn
from everlog.log.aborted_search import AbortedSearch
from everlog.log.epochs import LeaderEpochs
from everlog.log.search import FoundRecord, ReadLimits, Span
from everlog.log.segments import SegmentList
from everlog.log.trouble import Trouble
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset, Timestamp
from everlog.ports.files import Files, FileSlice


class Reading:
    """Reads of a log, whose segments it is given to see.

    What the disk refuses is a StorageError, what cannot be proved a CorruptDataError.
    """

    __slots__ = ("_aborted", "_segments", "_trouble", "damaged_at")

    def __init__(self, files: Files, segments: SegmentList, trouble: Trouble) -> None:
        self._segments = segments
        self._trouble = trouble
        self._aborted = AbortedSearch(files, segments)
        self.damaged_at: Offset | None = None
        """Where the first segment begins in which a read has found damaged bytes; None if none has."""

    def read(self, offset: Offset, limits: ReadLimits, epochs: LeaderEpochs) -> FileSlice | None:
        """Return the whole, proved batches from the one that holds `offset` on; None if none may be sent."""
        in_order, bases = self._segments.in_order, self._segments.bases
        try:
            for at in range(search.segment_index(bases, offset), len(in_order)):
                segment = in_order[at]
                first = segment.find(offset)
                if first is not None:
                    return search.read_slice(segment, first, limits, epochs)
        except OSError as error:
            raise self._trouble.refused(f"cannot be read at {offset}", error) from error
        except CorruptDataError:
            damaged = bases[search.segment_index(bases, offset)]
            self.damaged_at = damaged if self.damaged_at is None else min(damaged, self.damaged_at)
            raise
        return None

    def offset_for_time(self, timestamp: Timestamp, span: Span, epochs: LeaderEpochs) -> FoundRecord | None:
        """The first record in the span whose timestamp is at least `timestamp` (L7)."""
        segments = self._segments
        try:
            first = segments.first_for_time(timestamp)
            return search.record_at_time(segments.in_order[first:], epochs, timestamp, span)
        except OSError as error:
            raise self._trouble.refused("cannot be searched", error) from error

    def offset_of_max_timestamp(self, span: Span, epochs: LeaderEpochs) -> FoundRecord | None:
        """The first record that has the largest timestamp of the log; None if none has a timestamp."""
        segments = self._segments
        try:
            newest = segments.newest_by_time()
            return search.record_of_max_timestamp(newest, segments.active, epochs, span)
        except OSError as error:
            raise self._trouble.refused("cannot be searched", error) from error

    def learn_times(self, timestamp: Timestamp | None, enough: Callable[[], bool]) -> bool:
        """Look at segments until `offset_for_time`, or for None `offset_of_max_timestamp`, need look at none.

        False where `enough` has ended it before. Only segments that were sealed before this process began,
        and that no lookup has come to yet, have to be looked at.
        """
        try:
            return self._segments.learn_times(timestamp, enough)
        except OSError as error:
            raise self._trouble.refused("cannot be searched", error) from error

    def aborted_between(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        """The aborted transactions that have records between two offsets, in the order of their markers."""
        try:
            return self._aborted.between(start, end)
        except OSError as error:
            raise self._trouble.refused("cannot be searched", error) from error
