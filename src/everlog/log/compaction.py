"""What to compact (L6): how dirty a log is, how far a round may go, and all that the round has to know.

A log has a clean part, in which every key stands once, and a dirty part behind it. A round maps the keys of
the dirty part to their last offsets and rewrites all segments up to its end without the records that have
been superseded. The rules are those of Kafka's cleaner, with one more: a round ends at the recovery point.
Beyond it a crash may take a record back, and the older one that it superseded must still be there then.
"""

from collections.abc import Sequence
from typing import NamedTuple

from everlog.log import scan
from everlog.log.partition import PartitionLog, World
from everlog.log.segment import LOG_SUFFIX, Segment
from everlog.log.settings import FOREVER, LogSettings
from everlog.model.dataclass import dataclass
from everlog.model.errors import StorageError
from everlog.model.ids import Offset
from everlog.ports.files import Files
from everlog.records.key_scan import capacity_of


class DirtyPart(NamedTuple):
    """The part of a log that compaction has not seen and may see now: whole sealed segments."""

    start_offset: Offset
    end_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether a record waits for longer than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        """The share of the bytes up to its end that are dirty."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, settings: LogSettings) -> bool:
        """Whether a round is worth its while, or owed."""
        return self.dirty_bytes > 0 and (self.overdue or self.ratio > settings.min_cleanable_dirty_ratio)


def first_dirty_offset(log: PartitionLog, checkpoint: Offset | None) -> Offset:
    """Where the dirty part begins: at the checkpoint, or at the log's start where that cannot be right."""
    if checkpoint is None or not log.start_offset <= checkpoint <= log.end_offset:
        return log.start_offset
    return checkpoint


def dirty_part(
    files: Files, log: PartitionLog, checkpoint: Offset | None, last_stable_offset: Offset, wall: int
) -> DirtyPart:
    """Return what a round could work on now; StorageError or CorruptDataError if that cannot be told.

    Never the active segment, nothing at or above the last stable offset or the recovery point, and no
    segment with a record younger than `min.compaction.lag.ms`.
    """
    start = first_dirty_offset(log, checkpoint)
    limit = min(last_stable_offset, log.recovery_point)
    lag_ms = log.settings.min_compaction_lag_ms
    clean_bytes = dirty_bytes = 0
    end = start
    dirty: list[Segment] = []
    try:
        for segment in log.segments[:-1]:
            if segment.end_offset > limit:
                break
            if segment.end_offset <= start:
                clean_bytes += segment.size
                continue
            if lag_ms > 0 and _newest(files, segment) > wall - lag_ms:
                break
            dirty.append(segment)
            dirty_bytes += segment.size
            end = segment.end_offset
        overdue = _is_overdue(log.settings, dirty, wall)
    except OSError as error:
        raise StorageError(f"{log.partition} cannot be looked through: {error}") from error
    return DirtyPart(start, end, clean_bytes, dirty_bytes, overdue)


def _newest(files: Files, segment: Segment) -> int:
    timestamp = segment.largest_timestamp()[0]
    return timestamp if timestamp >= 0 else files.modified(segment.stem + LOG_SUFFIX)


def _is_overdue(settings: LogSettings, dirty: Sequence[Segment], wall: int) -> bool:
    if settings.max_compaction_lag_ms == FOREVER:
        return False
    limit = wall - settings.max_compaction_lag_ms
    for segment in dirty:
        first = next(scan.headers(segment.file, 0, segment.size), None)
        if first is not None and 0 < first.max_timestamp < limit:
            return True
    return False


class Source(NamedTuple):
    """A segment to be read beside the loop: what is needed of it, which does not change."""

    segment: Segment
    """Not to be touched beside the loop."""
    path: str
    base_offset: int
    end_offset: int
    size: int


class LastOfProducer(NamedTuple):
    """Which batch of a live producer stays, even if empty: it has the newest sequence or epoch."""

    data_offset: int | None
    """The last offset of its last data batch; None if its epoch has no data yet."""
    epoch: int


class CleanerMemory(NamedTuple):
    """What a round may use."""

    dedupe_bytes: int
    load_factor: float
    io_bytes: int


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """One round over one log, decided on the loop and carried out beside it."""

    files: Files
    path: str
    sources: tuple[Source, ...]
    """The segments up to the end of the dirty part, from the log's first."""
    following: tuple[Source, ...]
    """Those behind them, the active one included: they may say how a transaction ended."""
    start_offset: Offset
    """Where the dirty part begins."""
    end_offset: Offset
    generation: int
    """Which life of the log the plan is for; cutting the log begins another."""
    producers: dict[int, LastOfProducer]
    settings: LogSettings
    wall: int
    map_capacity: int
    io_bytes: int
    seed: bytes


def clean_plan(world: World, log: PartitionLog, part: DirtyPart, memory: CleanerMemory) -> CleanPlan:
    """Make the plan of a round over a dirty part that is not empty."""
    segments = log.segments
    sources = [_source(segment) for segment in segments]
    split = next(at for at, segment in enumerate(segments) if segment.base_offset >= part.end_offset)
    # No more keys than offsets: a small dirty part needs no large map.
    capacity = min(
        capacity_of(memory.dedupe_bytes, memory.load_factor), max(1, part.end_offset - part.start_offset)
    )
    return CleanPlan(
        files=world.files,
        path=log.path,
        sources=tuple(sources[:split]),
        following=tuple(sources[split:]),
        start_offset=part.start_offset,
        end_offset=part.end_offset,
        generation=log.generation,
        producers={
            state.producer_id: LastOfProducer(
                state.last_offset if state.window else None,
                state.epoch,
            )
            for state in log.producers
        },
        settings=log.settings,
        wall=world.clock.wall(),
        map_capacity=capacity,
        io_bytes=memory.io_bytes,
        seed=world.random.uuid(),
    )


def _source(segment: Segment) -> Source:
    return Source(
        segment,
        segment.stem + LOG_SUFFIX,
        int(segment.base_offset),
        int(segment.end_offset),
        segment.size,
    )
