"""A topic kept as a table without Spark: read, stage, commit, in a loop.

Where to go on is in the table alone. A batch that was cut short by a crash is in the table or not; the next
run asks the table and reads on from there, so nothing is lost and nothing is there twice.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from everlog.client import Admin, Consumer, EverlogError, OffsetOutOfRange
from everlog.model.topics import TopicPartition
from everlog.tables import steps
from everlog.tables.arrow import Batch
from everlog.tables.batch import commit_batch
from everlog.tables.errors import DataLost, NoSuchTable, TableMisdeclared
from everlog.tables.letters import LetterBox
from everlog.tables.offsets import Coverage, OffsetRanges
from everlog.tables.results import Already
from everlog.tables.spec import TableSpec
from everlog.tables.table import Table, open_table
from everlog.tables.upkeep import TIDY_BATCHES

WRITER = "materializer"
POLL_S = 0.5
FETCH_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Pace:
    """When a batch is committed, and when the work ends."""

    batch_bytes: int = 64 << 20
    """Bytes of records, as Arrow has them, that make a batch."""
    batch_s: float = 10.0
    """Seconds after which a batch is committed, however small."""
    until_end: bool = False
    """End once all that was in the topic at the start is in the table, instead of following it for ever."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where to begin with a topic of which the table has nothing. Partitions that come later, or had nothing
    until a restart, are read from their beginning: rather too much than too little."""
    tidy_batches: int = TIDY_BATCHES
    """After so many batches the table is tidied up if it needs it (`Table.keep_tidy`); 0 for never."""
    skip_lost: bool = False
    """Go on behind records that left the log before they were read, instead of failing with DataLost."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is, after a batch."""

    batch_id: int
    rows: int
    bad: int
    seconds: float
    """From the first poll of the batch to its commit."""
    total_rows: int
    total_seconds: float
    lag: dict[TopicPartition, int]
    """Records, at most, between the table and the end of each partition."""
    offsets: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    @property
    def rows_per_s(self) -> float:
        """Rate of this batch."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def total_lag(self) -> int:
        """Lag over all partitions."""
        return sum(self.lag.values())


OnProgress = Callable[[Progress], object]


def materialize(
    spec: TableSpec,
    pace: Pace | None = None,
    *,
    writer: str = WRITER,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    client: Mapping[str, Any] | None = None,
) -> Progress | None:
    """Keep a table up to date with its topic; returns the last progress, None if there was nothing to do.

    >>> materialize(spec, Pace(until_end=True))

    A second one of the same writer does no harm: the table takes each batch from one of them, and the other
    goes on from there. Runs until `stop` is set, or with `until_end` until it has caught up.
    """
    if spec.bootstrap is None:
        raise TableMisdeclared(f"table {spec.name}: bootstrap is missing: expected the brokers' addresses")
    runner = _Runner(spec, pace or Pace(), writer, dict(client or {}))
    try:
        return runner.run(on_progress, stop or threading.Event())
    finally:
        runner.close()


class _Runner:
    def __init__(self, spec: TableSpec, pace: Pace, writer: str, client: dict[str, Any]) -> None:
        assert spec.bootstrap is not None
        self._spec = spec
        self._pace = pace
        self._writer = writer
        self._client = client
        self._table: Table = open_table(spec)
        self._consumer = Consumer(
            spec.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="none",
            max_partition_fetch_bytes=max(1, min(FETCH_BYTES, pace.batch_bytes)),
            **client,
        )
        self._letters = LetterBox(spec, writer, client)
        self._places: list[TopicPartition] = []
        self._starts: dict[TopicPartition, int] = {}
        """Where the range of the batch being read begins in each partition."""
        self._from: dict[TopicPartition, int] = {}
        """Where reading it began: behind that start if the log begins there."""
        self._is_placed = False
        """Whether the places to begin with were chosen."""
        self._targets: dict[TopicPartition, int] = {}
        """With `until_end`: where each partition ended at the start."""

    def close(self) -> None:
        self._letters.close()
        self._consumer.close()

    def run(self, on_progress: OnProgress | None, stop: threading.Event) -> Progress | None:
        began = time.monotonic()
        last: Progress | None = None
        total = 0
        self._go_to_table()
        self._targets = self._consumer.end_offsets(*self._places)
        while not stop.is_set():
            first_poll = time.monotonic()
            records = self._read_batch(stop)
            if not records and not self._has_moved():
                if self._pace.until_end and self._is_done():
                    break
                self._go_to_table()
                continue
            committed, rows, bad, batch_id = self._commit(records)
            if not committed:
                self._go_to_table()
                continue
            total += rows
            now = time.monotonic()
            last = Progress(
                batch_id, rows, bad, now - first_poll, total, now - began, self._lag(), self._table.offsets()
            )
            if on_progress is not None:
                on_progress(last)
            if self._pace.tidy_batches and batch_id % self._pace.tidy_batches == self._pace.tidy_batches - 1:
                self._table.keep_tidy()
            if self._pace.until_end and self._is_done():
                break
            self._go_to_table()
        return last

    def _go_to_table(self) -> None:
        """Take in new partitions, and go to the first offset of each that the table does not have."""
        found = self._consumer.partitions_for(self._spec.topic)
        if not found:
            raise NoSuchTable(f"table {self._spec.name}: topic {self._spec.topic} does not exist")
        places = sorted(TopicPartition(self._spec.topic, partition.index) for partition in found)
        is_new = places != self._places
        if is_new:
            self._consumer.assign(places)
            self._places = places
        covered = self._table.coverage()
        begins = self._consumer.beginning_offsets(*places)
        ends = self._consumer.end_offsets(*places)
        for place in places:
            at = self._first_wanted(place, covered, begins[place], ends[place])
            # What the log does not hold any more cannot come: as if it had been read.
            missing = covered.first_missing(place, 0)
            self._starts[place] = missing if at == begins[place] else at
            self._from[place] = at
            # Records that were fetched ahead stay of use if the place is right already.
            if is_new or self._consumer.position(place) != at:
                self._consumer.seek(place, at)
        self._is_placed = True

    def _first_wanted(self, place: TopicPartition, covered: Coverage, begin: int, end: int) -> int:
        if place not in covered.spans and self._pace.start == "latest":
            if place in self._from:
                return self._from[place]
            # A partition that comes later is read from its beginning: nobody has seen what it holds.
            if not self._is_placed and not any(each.topic == place.topic for each in covered.spans):
                return end
        missing = covered.first_missing(place, 0)
        if place in covered.spans and self._pace.start == "latest":
            # What lies before the first batch is left out, or to a backfill.
            missing = covered.spans[place][-1][1]
        if missing >= begin:
            return missing
        if missing > 0 and not self._pace.skip_lost:
            raise DataLost(
                f"table {self._spec.name}: offsets {missing} to {begin - 1} of {place} are not in the table, "
                "and not in the log any more; skip_lost goes on behind them"
            )
        return covered.first_missing(place, begin)

    def _read_batch(self, stop: threading.Event) -> list[Batch]:
        records: list[Batch] = []
        held = 0
        deadline = time.monotonic() + self._pace.batch_s
        while held < self._pace.batch_bytes and not stop.is_set():
            if self._pace.until_end and self._is_done():
                break
            wait = min(POLL_S, deadline - time.monotonic())
            if wait <= 0:
                break
            try:
                batch = self._consumer.poll_arrow(wait)
            except OffsetOutOfRange as error:
                if records:
                    break
                if not self._pace.skip_lost:
                    raise DataLost(
                        f"table {self._spec.name}: {error}; skip_lost goes on behind what is gone"
                    ) from error
                self._go_to_table()
                continue
            if batch.num_rows:
                records.append(batch)
                held += batch.nbytes
        return records

    def _positions(self) -> dict[TopicPartition, int]:
        return {place: self._consumer.position(place) for place in self._places}

    def _has_moved(self) -> bool:
        """Whether offsets were passed that hold no record, such as those of aborted transactions."""
        return any(at > self._from[place] for place, at in self._positions().items())

    def _is_done(self) -> bool:
        return all(at >= self._targets.get(place, 0) for place, at in self._positions().items())

    def _commit(self, records: list[Batch]) -> tuple[bool, int, int, int]:
        ranges = OffsetRanges.of(
            {place: (self._starts[place], at) for place, at in self._positions().items()}
        )
        last = self._table.last_batch(self._writer)
        batch_id = 0 if last is None else last + 1
        staged = self._table.stage(records)
        made = commit_batch(self._table, self._writer, batch_id, [staged], ranges, self._letters)
        if isinstance(made, Already):
            return False, 0, 0, batch_id
        self._tell_group()
        return True, made.rows, staged.bad_rows, batch_id

    def _tell_group(self) -> None:
        """Commit the table's offsets to a group, for tools to show its lag; the table stays the truth."""
        assert self._spec.bootstrap is not None
        try:
            with Admin(self._spec.bootstrap, **self._client) as admin:
                admin.alter_group_offsets(f"everlog-table.{self._spec.name}", self._table.offsets())
        except EverlogError:
            # Lag is shown late then; the next commit tells it again.
            return
        steps.reached("group-committed")

    def _lag(self) -> dict[TopicPartition, int]:
        ends = self._consumer.end_offsets(*self._places)
        return {place: max(0, ends[place] - at) for place, at in self._positions().items()}
