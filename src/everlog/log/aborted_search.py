"""The aborted transactions that a reader of committed records must know of."""

from everlog.log import replay
from everlog.log.aborted_index import AbortedTxn
from everlog.log.search import segment_index
from everlog.log.segments import SegmentList
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset
from everlog.ports.files import Files
from everlog.records.batch import CONTROL, TRANSACTIONAL


class AbortedSearch:
    """Looks through the transaction indexes of a log, whose segments it is given to see.

    An index has no checksum. When it is first read it is held against the log, and made anew if it lies.
    """

    __slots__ = ("_files", "_segments")

    def __init__(self, files: Files, segments: SegmentList) -> None:
        self._files = files
        self._segments = segments

    def between(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        """The aborted transactions with records in a range of offsets, in the order of their markers.

        A marker may lie far behind the range, so all segments from the one that holds `start` are looked at.
        """
        found: list[AbortedTxn] = []
        in_order = self._segments.in_order
        for at in range(segment_index(self._segments.bases, start), len(in_order)):
            if in_order[at].may_have_aborted:
                aborted = self._aborted_in(at)
                found += [txn for txn in aborted if txn.last_offset >= start and txn.first_offset < end]
        return found

    def _aborted_in(self, at: int) -> list[AbortedTxn]:
        segments = self._segments
        segment = segments.in_order[at]
        try:
            aborted = segment.aborted
            if segment.aborted_unchecked:
                for txn in aborted:
                    self._check_first(txn)
        except CorruptDataError:
            aborted = replay.aborted_of(self._files, segments.path, segments.in_order, at)
            segment.replace_aborted(aborted)
        segment.aborted_unchecked = False
        return aborted

    def _check_first(self, txn: AbortedTxn) -> None:
        """An aborted transaction must begin with a batch of its producer, if that is still in the log."""
        segments = self._segments
        if txn.first_offset < segments.bases[0]:
            return
        segment = segments.in_order[segment_index(segments.bases, txn.first_offset)]
        header = segment.find(txn.first_offset)
        batch = segment.batch_at(header) if header is not None else None
        if (
            batch is None
            or batch.base_offset != txn.first_offset
            or batch.producer_id != txn.producer_id
            or batch.attributes & (TRANSACTIONAL | CONTROL) != TRANSACTIONAL
        ):
            raise CorruptDataError(f"{segments.path} has {txn} as aborted, but the log has {batch} there")
