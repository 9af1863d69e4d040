"""A lake table that takes in batches exactly once: the face of this room, the same for all three formats."""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from everlog.model.topics import TopicPartition
from everlog.tables import steps, upkeep
from everlog.tables.arrow import Batch, Rows, Schema, pa, pc
from everlog.tables.committing import Came, Plan, plan_append, plan_upsert
from everlog.tables.directory import STAGED, fresh_name
from everlog.tables.errors import CommitContended, SchemaConflict
from everlog.tables.file_sizes import cut, target_bytes
from everlog.tables.offsets import Coverage, OffsetRanges
from everlog.tables.results import (
    Already,
    Commit,
    Committed,
    Compacted,
    Description,
    Expired,
)
from everlog.tables.rows import BAD, Shaper
from everlog.tables.schema import (
    DELETED,
    OFFSET,
    PARTITION,
    TOPIC,
    conformed,
    grown,
    key_columns,
    table_schema,
)
from everlog.tables.spec import TableSpec
from everlog.tables.staging import DataFile, Staged
from everlog.tables.store import Change, Store
from everlog.tables.upsert import identity, latest, not_covered

__all__ = [
    "Already",
    "Commit",
    "Committed",
    "Compacted",
    "Description",
    "Expired",
    "Table",
    "drop_table",
    "open_table",
]

ATTEMPTS = 100


class Table:
    """A table, opened. Many processes may have it open at once; one object is for one thread."""

    def __init__(self, spec: TableSpec, store: Store) -> None:
        self.spec = spec
        self._store = store
        self._target = target_bytes(spec.properties)

    @property
    def schema(self) -> Schema:
        """The columns of the table as a `pyarrow.Schema`, with the `_…` columns."""
        return self._store.load().schema

    # Writing: on any machine.

    def stage(self, records: Iterable[Batch]) -> Staged:
        """Make rows of records as a consumer polls or a source reads them, and write them by `write_files`.

        Records that cannot be read are staged beside the rows, for `letters.send_letters`.
        """
        shaper = Shaper(self.spec)
        rows: list[Batch] = []
        bad: list[Batch] = []
        for batch in records:
            shaped = shaper.shape(batch)
            rows.append(shaped.rows)
            if shaped.bad.num_rows:
                bad.append(shaped.bad)
        staged = self.write_files(rows)
        if not bad:
            return staged
        content = pa.Table.from_batches(bad)
        path = fresh_name(STAGED, ".bad.parquet")
        size = self._store.directory.write_rows(path, content)
        return Staged(
            staged.files,
            staged.changes,
            (DataFile(path, content.num_rows, size, {}),),
            staged.rows,
            content.num_rows,
            staged.seen.hull(_seen(content, "topic", "partition", "offset")),
        )

    def write_files(self, batches: Iterable[Batch]) -> Staged:
        """Write rows into files that no reader sees before a commit; on any machine that has the location.

        Columns are matched by name; missing ones become null, unknown ones are refused. In upsert mode a
        column `_deleted` says which keys are to go.
        """
        view = self._store.load()
        tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
        seen = OffsetRanges()
        rows = 0
        good: list[Rows] = []
        extra = (DELETED,) if self.spec.mode == "upsert" else ()
        for table in tables:
            content = conformed(self.spec.name, table, view.schema, extra)
            seen = seen.hull(_seen(content, TOPIC, PARTITION, OFFSET))
            rows += content.num_rows
            good.append(content)
        if self.spec.mode == "append":
            files = self._store.write(view, good) if good else []
            steps.reached("staged")
            return Staged(files=tuple(files), rows=rows, seen=seen)
        changes = [self._stage_changes(piece) for piece in cut(map(self._marked, good), self._target)]
        steps.reached("staged")
        return Staged(changes=tuple(changes), rows=rows, seen=seen)

    def _marked(self, rows: Rows) -> Rows:
        if DELETED in rows.column_names:
            column = pc.fill_null(rows.column(DELETED), False)
            return rows.set_column(rows.column_names.index(DELETED), DELETED, column)
        return rows.append_column(DELETED, pa.repeat(pa.scalar(False), rows.num_rows))

    def _stage_changes(self, rows: Rows) -> DataFile:
        key = key_columns(self.spec)
        if nulls := identity(rows, key).null_count:
            raise SchemaConflict(
                f"{nulls} rows for table {self.spec.name} have no key: expected a value in {', '.join(key)}"
            )
        rows = latest(rows, key)
        path = fresh_name(STAGED, ".changes.parquet")
        return DataFile(path, rows.num_rows, self._store.directory.write_rows(path, rows), {})

    # Committing: where the batch is decided.

    def commit(
        self,
        writer: str,
        batch_id: int,
        staged: Sequence[Staged],
        offsets: OffsetRanges | None = None,
        *,
        repeats: bool = True,
    ) -> Committed | Already:
        """Make staged rows part of the table, once: (writer, batch id) is in the table's own history.

        A writer's batch ids grow; one that is not above the last is there `Already`. Without `offsets`
        the ranges are those of the rows, joined to where this writer's last batch ended. Rows whose
        offsets the table has taken in, from any writer, are left out. A writer of which that cannot be said,
        as its rows may come long after others of their offsets, and that `repeats` none under a new batch
        id, has all rows taken but those that others have brought.
        """
        seen = OffsetRanges()
        for each in staged:
            seen = seen.hull(each.seen)
        written: list[str] = []
        for attempt in range(ATTEMPTS):
            view = self._store.load()
            last = view.state.last_batch(writer)
            if last is not None and batch_id <= last:
                # The staged files stay: the caller may bring them in as another batch.
                return Already(last)
            for path in written:
                self._store.directory.remove(path)
            ranges = view.state.joined(writer, seen) if offsets is None else offsets
            came = Came(ranges, view.state.covered if repeats else view.state.taken_beside(writer))
            plan: Plan
            if self.spec.mode == "append":
                plan = plan_append(self._store, view, staged, came)
            else:
                plan = plan_upsert(self.spec, self._store, view, staged, came)
            written = plan.written
            steps.reached("commit-planned")
            state = view.state.after(writer, batch_id, ranges, plan.graves)
            change = Change("batch", state, plan.add, plan.remove, writer, batch_id, ranges)
            version = self._store.swap(view, change)
            if version is not None:
                steps.reached("commit-made")
                self._discard_changes(staged)
                return Committed(version, plan.rows, plan.deleted)
            time.sleep(random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 6))))
        raise CommitContended(
            f"batch {batch_id} of {writer}: table {self.spec.name} changed {ATTEMPTS} times "
            "while it was committed"
        )

    def _discard_changes(self, staged: Sequence[Staged]) -> None:
        for each in staged:
            for file in (*each.changes, *each.bad):
                self._store.directory.remove(file.path)

    def discard(self, staged: Sequence[Staged]) -> int:
        """Remove the files of rows that will never be committed; returns how many there were."""
        directory = self._store.directory
        files = [file for each in staged for file in (*each.files, *each.changes, *each.bad)]
        for file in files:
            directory.remove(directory.relative(file.path))
        return len(files)

    def bad_records(self, staged: Sequence[Staged]) -> Rows:
        """Staged records that could not be read, with the columns of `rows.BAD`, ordered by place."""
        tables = [
            conformed("bad records", self._store.directory.read_rows(file.path), BAD)
            for each in staged
            for file in each.bad
        ]
        if not tables:
            return BAD.empty_table()
        order = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        return pa.concat_tables(tables).sort_by(order)

    # Reading.

    def last_batch(self, writer: str) -> int | None:
        """The id of the last batch of a writer that is in the table; None if it has none."""
        return self._store.load().state.last_batch(writer)

    def offsets(self) -> dict[TopicPartition, int]:
        """For each partition the offset after the highest that the table has taken in."""
        return self.coverage().ends()

    def coverage(self) -> Coverage:
        """All offsets that the table has taken in, with the gaps between them: for backfill."""
        return self._store.load().state.covered

    def history(self) -> list[Commit]:
        """Commits that have not expired, oldest first."""
        return self._store.history()

    def read(self, columns: Sequence[str] | None = None) -> Rows:
        """All rows as a `pyarrow.Table`."""
        view = self._store.load()
        return self._store.read(view, view.files, columns)

    def data_files(self) -> list[DataFile]:
        """The files that hold the rows now, for `read_files` on any machine."""
        return list(self._store.load().files)

    def read_files(self, files: Sequence[DataFile], columns: Sequence[str] | None = None) -> Rows:
        """The rows of some files; those of `data_files`, as long as no expiry has removed them since."""
        return self._store.read(self._store.load(), files, columns)

    def rows_of(self, version: str, since: Coverage) -> Iterator[Rows]:
        """Rows of a commit that came from offsets outside of `since`, file by file, always in one order."""
        view = self._store.load(version)
        for file in sorted(view.files, key=lambda each: each.path):
            yield not_covered(self._store.read(view, [file]), since)

    def coverage_of(self, version: str) -> Coverage:
        """All offsets that the table had taken in with a commit that has not expired."""
        return self._store.load(version).state.covered

    @property
    def version(self) -> str:
        """The newest commit."""
        return self._store.load().version

    def files(self) -> list[str]:
        """Paths of the files that hold the rows now, such as `spark.read.parquet` takes them."""
        directory = self._store.directory
        return [directory.absolute(directory.relative(file.path)) for file in self._store.load().files]

    def describe(self) -> Description:
        """The table at a glance."""
        view = self._store.load()
        commits = self.history()
        return Description(
            self.spec,
            view.version,
            len(view.files),
            sum(file.rows for file in view.files),
            sum(file.size_bytes for file in view.files),
            sum(len(files) for files in upkeep.small_files(view, self._target)),
            {name: writer.batch_id for name, writer in view.state.writers.items()},
            view.state.covered.ends(),
            commits[-1].timestamp_ms if commits else None,
        )

    # Upkeep.

    def compact(self) -> Compacted:
        """Make few files of many small ones; writers may go on meanwhile."""
        return upkeep.compact(self._store, self._target)

    def keep_tidy(self, small_files: int = 100, keep: timedelta = timedelta(days=5)) -> Compacted | None:
        """Compact and expire if so many small files have gathered; returns what was compacted, if anything.

        For whoever commits often, to call now and then, as `materialize` and Spark's writers do.
        """
        if sum(len(files) for files in upkeep.small_files(self._store.load(), self._target)) < small_files:
            return None
        done = self.compact()
        self.expire(keep)
        return done

    def expire(self, older_than: timedelta, keep: int = 1, orphans_after: timedelta | None = None) -> Expired:
        """Forget commits older than that, not the newest `keep`; remove the files that nobody needs then.

        Files of no commit at all go once they are older than `orphans_after`, a day if not given: younger
        ones may belong to a batch that is about to be committed.
        """
        return upkeep.expire(self._store, older_than, keep, orphans_after)


def open_table(spec: TableSpec, *, create: bool = True) -> Table:
    """Open a table; with `create`, make it if it is not there, and add columns that its declaration gained.

    Workers pass `create=False`: whoever drives them has opened it before. Raises NoSuchTable then, if it is
    not there, and SchemaConflict if declared columns do not fit.
    """
    store = _store(spec)
    declared = table_schema(spec)
    if create:
        store.create(declared)
        for _ in range(ATTEMPTS):
            view = store.load()
            wanted = grown(spec.name, view.schema, declared)
            if (found := store.partitioned_by(view)) != spec.partition_by:
                raise SchemaConflict(
                    f"table {spec.name} is partitioned by {', '.join(found) or 'nothing'}, declared "
                    f"as partitioned by {', '.join(spec.partition_by) or 'nothing'}: "
                    "a table keeps its partitions"
                )
            if wanted is None or store.evolve(view, wanted):
                break
    elif spec.schema:
        # Who only reads need not know the columns, and declares none.
        grown(spec.name, store.load().schema, declared)
    else:
        store.load()
    return Table(spec, store)


def drop_table(spec: TableSpec) -> None:
    """Remove a table with all of its rows and files. There is no way back."""
    _store(spec).destroy()


def _store(spec: TableSpec) -> Store:
    # Each format imports its library when it is used, and says what to install if it is not there.
    match spec.format:
        case "parquet":
            from everlog.tables.parquet_store import ParquetStore

            return ParquetStore(spec)
        case "iceberg":
            from everlog.tables.iceberg_store import IcebergStore

            return IcebergStore(spec)
        case "delta":
            from everlog.tables.delta_store import DeltaStore

            return DeltaStore(spec)


def _seen(rows: Rows, topic: str, partition: str, offset: str) -> OffsetRanges:
    if not rows.num_rows:
        return OffsetRanges()
    spans = rows.group_by([topic, partition]).aggregate([(offset, "min"), (offset, "max")]).to_pylist()
    return OffsetRanges.of(
        {
            (each[topic], each[partition]): (each[f"{offset}_min"], each[f"{offset}_max"] + 1)
            for each in spans
            if None not in (each[topic], each[partition], each[f"{offset}_min"])
        }
    )
