"""What one answer brought of one partition: the batches that an application may see (C1, C6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from everlog.client.core.consumer.errors import DamagedBatch
from everlog.model.errors import CorruptDataError
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView, whole_batches
from everlog.records.control import ControlType, control_type
from everlog.records.reader import Record, read_records
from everlog.records.runs import PlainRun, plain_run
from everlog.wire.messages.fetch import PartitionData

_WRONG_CHECKSUM = "its checksum does not hold"
_NO_WHOLE_BATCH = "the answer ends within it"


class Checks(Enum):
    """Whose checksums are checked when an answer is read."""

    ALL = "all"
    UNSEEN = "unseen"
    """Of what is left out; `Chunk.checked` does the rest, when it is taken."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Batches of one partition in order. They point into the answer's buffer and keep it alive."""

    place: TopicPartition
    batches: Sequence[BatchView]
    """A PlainRun where all of them are plain, which whoever takes many at a time reads as one."""
    start: int
    end: int | None
    high_watermark: int
    next_offset: int = -1
    """What to read after it: behind its last batch, seen or not. Not before `start`; -1 where nobody asks."""
    leader_epoch: int = -1
    """Of the last batch, seen or not."""
    counted_bytes: int = -1
    """What `size_bytes` is, if somebody has added it up."""
    is_checked: bool = True
    """Whether nobody has to look at the checksums any more."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the batches as they came."""
        return self.counted_bytes if self.counted_bytes >= 0 else sum(batch.size for batch in self.batches)

    def records(self) -> Iterator[Record]:
        """The records from `start` up to `end`; batches hold others before and behind."""
        for batch in self.batches:
            records = read_records(batch)
            if batch.base_offset >= self.start and (self.end is None or batch.last_offset < self.end):
                yield from records
                continue
            for record in records:
                if record.offset >= self.start and (self.end is None or record.offset < self.end):
                    yield record

    def part(self, first: int, stop: int) -> "Chunk":
        """Some of its batches, by their numbers; at least one."""
        batches = self.batches[first:stop]
        following = self.batches[stop].base_offset if stop < len(self.batches) else self.next_offset
        return replace(self, batches=batches, next_offset=following, leader_epoch=batches[-1].leader_epoch)

    def checked(self) -> "tuple[Chunk, DamagedBatch | None]":
        """The batches whose checksums hold, up to the first where one does not; also what is wrong there."""
        if self.is_checked:
            return self, None
        if isinstance(self.batches, PlainRun) and self.batches.checksums_hold():
            return replace(self, is_checked=True), None
        at, epoch = self.start, -1
        for number, batch in enumerate(self.batches):
            if not batch.checksum_holds():
                good = replace(
                    self,
                    batches=self.batches[:number],
                    next_offset=at,
                    leader_epoch=epoch,
                    counted_bytes=-1,
                    is_checked=True,
                )
                return good, DamagedBatch(_WRONG_CHECKSUM, self.place, at)
            at, epoch = batch.next_offset, batch.leader_epoch
        return replace(self, is_checked=True), None

    def rest(self, start: int) -> "Chunk":
        """What of it is left from an offset on."""
        run = plain_run(self.batches.raw, start) if isinstance(self.batches, PlainRun) else None
        if run is not None:
            # Else whoever asks for the size would make a view of every batch.
            return replace(self, batches=run, start=start, counted_bytes=len(run.raw))
        left = [batch for batch in self.batches if batch.next_offset > start]
        return replace(self, batches=left, start=start, counted_bytes=-1)

    def cut(self, max_bytes: int) -> "tuple[Chunk, Chunk | None]":
        """The first batches of a run, about `max_bytes` and one at least, and what is left."""
        assert isinstance(self.batches, PlainRun)
        first, others = self.batches.cut(max_bytes)
        if others is None:
            return self, None
        taken = replace(
            self,
            batches=first,
            next_offset=first.next_offset,
            leader_epoch=first.leader_epoch,
            counted_bytes=len(first.raw),
        )
        return taken, replace(self, batches=others, start=first.next_offset, counted_bytes=len(others.raw))


def read_chunk(
    place: TopicPartition,
    partition: PartitionData,
    start: int,
    *,
    end: int | None = None,
    read_committed: bool = False,
    checks: Checks = Checks.ALL,
) -> Chunk | None:
    """The chunk from `start` on; None if nothing came. DamagedBatch names partition and offset.

    Markers and, under `read_committed`, batches of aborted transactions are left out, so it may be empty. It
    ends before what is damaged, which is an error where nothing comes before it.
    """
    run = plain_run(partition.records or b"", start)
    ends_in_time = run is not None and (end is None or run.next_offset <= end)
    if run is not None and ends_in_time and (checks is not Checks.ALL or run.checksums_hold()):
        return _chunk_of_run(place, partition, start, end, run, is_checked=checks is not Checks.UNSEEN)
    visible: list[BatchView] = []
    aborted = Aborted(partition) if read_committed else None
    last: BatchView | None = None
    size = 0
    is_cut_off = bool(partition.records)
    try:
        for batch in whole_batches(partition.records or b""):
            is_cut_off = False
            if batch.next_offset <= start:
                continue
            if checks is Checks.ALL or (checks is Checks.UNSEEN and batch.is_control):
                _check(batch)
            hidden = aborted is not None and aborted.hides(batch)
            if hidden and checks is Checks.UNSEEN:
                _check(batch)
            last = batch
            if end is not None and batch.base_offset >= end:
                break
            if not hidden and not batch.is_control:
                visible.append(batch)
                size += batch.size
        if is_cut_off:
            # Brokers send one whole batch at least: to ask again would bring the same, at once and for ever.
            raise CorruptDataError(_NO_WHOLE_BATCH)
    except CorruptDataError as error:
        if last is None or not visible:
            at = start if last is None else last.next_offset
            raise DamagedBatch(error, place, at) from None
    if last is None:
        return None
    return Chunk(
        place,
        visible,
        start,
        end,
        partition.high_watermark,
        last.next_offset,
        last.leader_epoch,
        size,
        checks is not Checks.UNSEEN,
    )


def _chunk_of_run(
    place: TopicPartition,
    partition: PartitionData,
    start: int,
    end: int | None,
    run: PlainRun,
    *,
    is_checked: bool,
) -> Chunk:
    return Chunk(
        place,
        run,
        start,
        end,
        partition.high_watermark,
        run.next_offset,
        run.leader_epoch,
        len(run.raw),
        is_checked,
    )


def _check(batch: BatchView) -> None:
    if not batch.checksum_holds():
        raise CorruptDataError(_WRONG_CHECKSUM)


class Aborted:
    """The aborted transactions that overlap one partition's answer (KIP-98): which batches are theirs."""

    def __init__(self, partition: PartitionData) -> None:
        entries = sorted(partition.aborted_transactions or (), key=lambda entry: entry.first_offset)
        self._upcoming = [(entry.first_offset, entry.producer_id) for entry in entries]
        self._running: set[int] = set()

    def hides(self, batch: BatchView) -> bool:
        """Whether a batch belongs to an aborted transaction; batches come in order of offset."""
        while self._upcoming and self._upcoming[0][0] <= batch.last_offset:
            self._running.add(self._upcoming.pop(0)[1])
        if not batch.is_transactional:
            return False
        if not batch.is_control:
            return batch.producer_id in self._running
        records = read_records(batch)
        if records and control_type(records[0].key) is ControlType.ABORT:
            self._running.discard(batch.producer_id)
        return False
