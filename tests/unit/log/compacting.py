"""A log with keys on a simulated disk, and rounds of compaction driven by hand."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from everlog.log.appending import Appended, Origin, World
from everlog.log.compaction import CleanerMemory, DirtyPart, clean_plan, dirty_part
from everlog.log.compaction_run import Cleaning
from everlog.log.settings import LogSettings
from everlog.model.ids import Offset
from everlog.records.batch import BatchView, whole_batches
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec
from everlog.records.reader import Record
from tests.unit.log.builders import ORDERS, SMALL, Machine, Sequenced, a_marker, records_of

COMPACT = replace(SMALL, cleanup_compact=True, cleanup_delete=False, delete_retention_ms=10_000)
MEMORY = CleanerMemory(dedupe_bytes=1 << 16, load_factor=0.9, io_bytes=400)

Pair = tuple[bytes | None, bytes | None]


def a_keyed_batch(
    pairs: Iterable[Pair],
    *,
    timestamp: int,
    step_ms: int = 0,
    codec: Codec = Codec.NONE,
    sender: Sequenced | None = None,
    transactional: bool = False,
    log_append_time: int | None = None,
) -> BatchView:
    """A client's batch of these keys and values."""
    producer = sender if sender is not None else Sequenced(-1, -1, -1)
    records = [NewRecord(key, value, (), timestamp + at * step_ms) for at, (key, value) in enumerate(pairs)]
    raw = build_batch(
        records,
        codec=codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        transactional=transactional,
        log_append_time=log_append_time,
    )
    return BatchView(memoryview(raw))


class Compacted(Machine):
    """One compacted log."""

    def __init__(self, settings: LogSettings = COMPACT) -> None:
        super().__init__(settings)
        self.memory = MEMORY
        self.step_bytes = 300
        self.between_jobs: Callable[[], None] = lambda: None
        """Called on the loop before each job of a round."""

    def put(
        self,
        *pairs: Pair,
        codec: Codec = Codec.NONE,
        sender: Sequenced | None = None,
        transactional: bool = False,
        step_ms: int = 0,
    ) -> Appended:
        """Append a batch."""
        batch = a_keyed_batch(
            pairs,
            timestamp=self.clock.wall(),
            step_ms=step_ms,
            codec=codec,
            sender=sender,
            transactional=transactional,
        )
        return self.append(batch)

    def end_txn(self, producer_id: int, *, commit: bool, epoch: int = 0) -> Appended:
        """Append a marker."""
        marker = a_marker(producer_id, commit=commit, epoch=epoch, timestamp=self.clock.wall())
        return self.append(marker, origin=Origin.COORDINATOR)

    def seal(self) -> None:
        """Let all that was written be open to compaction."""
        self.log.roll()
        self.sync()

    @property
    def stable(self) -> Offset:
        """The last stable offset."""
        return self.log.last_stable_offset(self.log.end_offset)

    def dirty(self, stable: int | None = None) -> DirtyPart:
        """What a round could work on."""
        return dirty_part(
            self.files,
            self.log,
            self.directory.clean_ends.get(ORDERS),
            self.stable if stable is None else Offset(stable),
            self.clock.wall(),
        )

    def round(self) -> Cleaning:
        """A round that has not begun."""
        world = World(self.files, self.clock, self.random)
        plan = clean_plan(world, self.log, self.dirty(), self.memory)
        return Cleaning(self.log, plan, self.clock, self.step_bytes)

    def clean(self) -> Cleaning:
        """Do a round to its end, as the broker does, and note where the clean part ends."""
        cleaning = self.round()
        self.drive(cleaning)
        self.directory.clean_ends[ORDERS] = cleaning.end_offset
        return cleaning

    def drive(self, cleaning: Cleaning) -> None:
        """Run a round's jobs."""
        jobs = cleaning.jobs()
        try:
            job = next(jobs)
            while True:
                self.between_jobs()
                try:
                    result = job()
                except OSError as error:
                    job = jobs.throw(error)
                else:
                    job = jobs.send(result)
        except StopIteration:
            pass

    def seal_and_clean(self) -> Cleaning:
        """Compact all that was written."""
        self.seal()
        return self.clean()

    def batches(self) -> list[BatchView]:
        """All batches of the log, as a consumer gets them."""
        offset, found = self.log.start_offset, list[BatchView]()
        while (piece := self.log.read(offset, 300, self.log.end_offset)) is not None:
            for batch in whole_batches(piece.read()):
                found.append(batch)
                offset = Offset(batch.next_offset)
        return found

    def offsets(self) -> list[int]:
        """The offsets of all records."""
        return [record.offset for record in self.records()]

    def records(self) -> list[Record]:
        """All records that are no markers."""
        markers = {batch.base_offset for batch in self.batches() if batch.is_control}
        return [record for record in records_of(self.log) if record.offset not in markers]

    def contents(self) -> dict[bytes | None, bytes | None]:
        """What a reader from the start to the end holds in the end."""
        return {record.key: record.value for record in self.records()}

    def pairs(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """All records as offset, key and value."""
        return [(record.offset, record.key, record.value) for record in self.records()]
