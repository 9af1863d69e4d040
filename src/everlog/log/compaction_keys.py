"""The first pass of a compaction round: which transactions were aborted, and each key's last offset.

What was aborted is read from the markers in the log, not from the transaction indexes: those have no
checksum, and a bit that flipped in one would cost records that were committed.
"""

from collections.abc import Iterator

from everlog.log import replay, scan
from everlog.log.compaction import CleanPlan, Source
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset
from everlog.records.batch import CODEC_MASK, CONTROL, HEADER_BYTES, TRANSACTIONAL, BatchView
from everlog.records.compression import decompress
from everlog.records.key_scan import KeyMap, Section, key_map
from everlog.records.reader import read_records
from everlog.records.varint import read_varint, read_varlong

_SHARE_OF_HEADERS = 1 << 20
"""After so many bytes of log the walk over headers lets others have a turn."""


def section_of(batch: BatchView) -> Section:
    """The records of a batch, unpacked if need be."""
    codec = batch.attributes & CODEC_MASK
    # It was let in when it was produced, perhaps under another limit.
    records = decompress(codec, batch.records, scan.MAX_BATCH_BYTES) if codec else batch.records
    return Section(records, batch.count, batch.base_offset, batch.last_offset_delta)


def _from_offset(section: Section, start_offset: int) -> Section:
    """Leave out the records before an offset: the last round had them, and they may be more than fit."""
    data = memoryview(section.records)
    position, left = 0, section.total
    while left:
        size, at = read_varint(data, position)
        _, delta_at = read_varlong(data, at + 1)
        if section.base_offset + read_varint(data, delta_at)[0] >= start_offset:
            break
        position = at + size
        left -= 1
    return section._replace(records=data[position:], total=left)


class AbortedTxns:
    """The aborted transactions of the dirty part, found by their markers."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}

    def add(self, producer_id: int, first_offset: int, marker_offset: int) -> None:
        """Note that what a producer wrote between two offsets was aborted."""
        self._ranges.setdefault(producer_id, []).append((first_offset, marker_offset))

    def hold(self, batch: BatchView) -> bool:
        """Whether a batch is data of one of them."""
        if not batch.attributes & TRANSACTIONAL or batch.attributes & CONTROL:
            return False
        ranges = self._ranges.get(batch.producer_id, ())
        return any(first <= batch.base_offset < marker for first, marker in ranges)


class KeyScan:
    """The first pass. `run` yields as it goes, with the bytes read since; the rest is known at its end."""

    def __init__(self, plan: CleanPlan) -> None:
        self._plan = plan
        self.aborted = AbortedTxns()
        self.keys: KeyMap = key_map(plan.map_capacity, plan.seed)
        self.end_offset: Offset = plan.end_offset
        """The map knows all records of the dirty part below; less than planned if they did not fit."""

    def run(self) -> Iterator[int]:
        """Go through the dirty part; OSError or CorruptDataError if it cannot be read."""
        yield from self._find_aborted()
        yield from self._map_keys()

    def _find_aborted(self) -> Iterator[int]:
        plan = self._plan
        open_since: dict[int, int] = {}
        for source in (*plan.sources, *plan.following):
            beyond = source.base_offset >= plan.end_offset
            if beyond and not open_since:
                return
            if source.end_offset > plan.start_offset or beyond:
                yield from self._find_aborted_in(source, open_since, beyond)

    def _find_aborted_in(self, source: Source, open_since: dict[int, int], beyond: bool) -> Iterator[int]:
        file = self._plan.files.open(source.path)
        share = 0
        try:
            for header in scan.headers(file, 0, source.size):
                share += header.size
                if share >= _SHARE_OF_HEADERS:
                    yield 0  # Nearly nothing was read.
                    share = 0
                if not header.attributes & TRANSACTIONAL:
                    continue
                if not header.attributes & CONTROL:
                    if not beyond:
                        # The pass over the keys proves it.
                        batch = BatchView(memoryview(file.read(header.position, HEADER_BYTES)))
                        open_since.setdefault(batch.producer_id, batch.base_offset)
                    continue
                batch = BatchView(memoryview(file.read(header.position, header.size)))
                scan.prove(file, header.position, batch)
                marker = replay.marker_of(batch)
                first = open_since.pop(batch.producer_id, None)
                if marker is not None and not marker.commit and first is not None:
                    self.aborted.add(batch.producer_id, first, batch.base_offset)
                if beyond and not open_since:
                    return
        finally:
            file.close()

    def _map_keys(self) -> Iterator[int]:
        plan = self._plan
        for source in plan.sources:
            if source.end_offset <= plan.start_offset:
                continue
            file = plan.files.open(source.path)
            try:
                for _, batch in scan.batches(file, 0, source.size, plan.io_bytes):
                    self._check_place(source, batch)
                    if batch.last_offset >= plan.start_offset and not self._took(batch):
                        return
                    yield batch.size
            finally:
                file.close()

    def _check_place(self, source: Source, batch: BatchView) -> None:
        # No checksum covers the base offset.
        if batch.base_offset < source.base_offset or batch.next_offset > source.end_offset:
            raise CorruptDataError(
                f"{source.path} has {batch}, expected offsets {source.base_offset} to {source.end_offset}"
            )

    def _took(self, batch: BatchView) -> bool:
        """Take in a batch's keys; False if the map is full, and its end is known."""
        if batch.attributes & CONTROL or not batch.count or self.aborted.hold(batch):
            return True
        section = section_of(batch)
        if batch.base_offset < self._plan.start_offset:
            section = _from_offset(section, self._plan.start_offset)
        taken = self.keys.add(section)
        if taken == section.total:
            return True
        records = read_records(batch, scan.MAX_BATCH_BYTES)
        self.end_offset = Offset(records[batch.count - section.total + taken].offset)
        return False
