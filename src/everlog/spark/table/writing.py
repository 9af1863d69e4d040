"""What tasks and the driver do to bring a batch into a table; Spark calls it by way of `writers`."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from everlog.client import Admin
from everlog.model.errors import ConfigError, EverlogError
from everlog.spark.table.covered import batch_covers
from everlog.spark.table.options import RECORD, WHENCE
from everlog.tables.batch import commit_batch
from everlog.tables.letters import LetterBox
from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Already, Committed
from everlog.tables.spec import TableSpec
from everlog.tables.staging import Staged
from everlog.tables.table import Table, open_table
from everlog.tables.upkeep import TIDY_BATCHES

BATCH_WRITER = "spark-batch"
"""Who writes where nobody gave a name: batch queries, which have no id that outlives them."""

MAX_BATCH_TRIES = 100
PIECE_BYTES = 128 << 20
"""Rows that a task gathers for a file: as many as a table's files have."""

_log = logging.getLogger("everlog.spark.table")


@dataclass(frozen=True, slots=True)
class Target:
    """A table, and what kind of rows come for it. Made by the planner, for tasks and committers."""

    spec: TableSpec
    records: bool
    """Whether rows are records of the format `everlog`, whose values are yet to be read."""
    checkpoint: str | None = None
    client: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of clients for dead letters and the group that shows the table's lag."""


def stage(target: Target, batches: Iterable[Any], writer: str | None, batch_id: int | None) -> Staged:
    """Write a task's rows to files that no reader sees; nothing if the table has the batch already."""
    table = open_table(target.spec, create=False)
    if writer is not None and batch_id is not None:
        last = table.last_batch(writer)
        if last is not None and last >= batch_id:
            # A driver died between the table's commit and Spark's note of it. The driver of today only
            # has to hear of it: its commit finds the batch there, too.
            return Staged()
    staged = Staged()
    for piece in pieces(batches, PIECE_BYTES):
        if target.records:
            done = table.stage(piece)
        else:
            done = table.write_files(table_rows(target.spec, piece))
        staged = _together(staged, done)
    return staged


def pieces(batches: Iterable[Any], size_bytes: int) -> Iterator[list[Any]]:
    """Batches in lots of about that size, so that a task holds no more than one of them."""
    lot: list[Any] = []
    held = 0
    for batch in batches:
        lot.append(batch)
        held += batch.nbytes
        if held >= size_bytes:
            yield lot
            lot, held = [], 0
    if lot:
        yield lot


def _together(one: Staged, other: Staged) -> Staged:
    return Staged(
        one.files + other.files,
        one.changes + other.changes,
        one.bad + other.bad,
        one.rows + other.rows,
        one.bad_rows + other.bad_rows,
        one.seen.hull(other.seen),
    )


def table_rows(spec: TableSpec, batches: Iterable[Any]) -> Iterator[Any]:
    """Rows with a table's names for where they came from, in place of those of the format `everlog`.

    A column that the table declares itself keeps its name; others of a record are left out.
    """
    declared = set(spec.columns.names)
    for batch in batches:
        names: list[str] = batch.schema.names
        kept: list[tuple[str, str]] = []
        for name in names:
            if name in declared or name not in RECORD:
                kept.append((name, name))
            elif name in WHENCE and WHENCE[name] not in names:
                kept.append((name, WHENCE[name]))
        yield batch.select([name for name, _ in kept]).rename_columns([name for _, name in kept])


def commit(
    target: Target, writer: str, batch_id: int, staged: Sequence[Staged], *, repeats: bool = False
) -> Committed | Already:
    """Make the batch part of the table, once; a batch without rows as well, as its offsets count.

    Now and then the table is tidied up behind it.

    A query `repeats` no rows: Spark runs a batch again under its number alone. Its rows may well come after
    others of their offsets: from a second source of the topic, or out of a state that kept them.
    """
    seen = OffsetRanges()
    for each in staged:
        seen = seen.hull(each.seen)
    covers = batch_covers(seen, target.checkpoint, batch_id)
    table = open_table(target.spec, create=False)
    with LetterBox(target.spec, writer, target.client) as letters:
        done = commit_batch(table, writer, batch_id, staged, covers, letters, repeats=repeats)
    _tell_group(target, table)
    rows = sum(each.rows for each in staged)
    if isinstance(done, Committed) and target.spec.mode == "append" and done.rows < rows:
        _log.warning(
            "table %s: %d of %d rows of batch %d were left out: another writer has brought their offsets",
            target.spec.name, rows - done.rows, rows, batch_id,
        )  # fmt: skip
    if isinstance(done, Committed) and batch_id % TIDY_BATCHES == TIDY_BATCHES - 1:
        _keep_tidy(table)
    return done


def _keep_tidy(table: Table) -> None:
    """Few files of many small ones, now and then: a query that commits every second makes them all day."""
    try:
        table.keep_tidy()
    except Exception as error:  # noqa: BLE001  libraries of three formats: the batch is committed, whatever it is
        _log.warning("table %s: not tidied up, a later batch tries again: %s", table.spec.name, error)


def _tell_group(target: Target, table: Table) -> None:
    """Commit the table's offsets to its group, for tools to show its lag; the table stays the truth."""
    if target.spec.bootstrap is None:
        return
    offsets = table.offsets()
    if not offsets:
        return
    try:
        with Admin(target.spec.bootstrap, **target.client) as admin:
            admin.alter_group_offsets(f"everlog-table.{target.spec.name}", offsets)
    except EverlogError as error:
        _log.warning(
            "table %s: its lag is shown late, as its group took no offsets: %s", target.spec.name, error
        )


def commit_alone(
    target: Target, writer: str | None, batch_id: int | None, staged: Sequence[Staged]
) -> Committed | Already:
    """Commit a batch query: once for a (writer, batch id) that the user gave, else as one more batch."""
    if writer is not None and batch_id is not None:
        return commit(target, writer, batch_id, staged)
    name = writer or BATCH_WRITER
    table = open_table(target.spec, create=False)
    for _ in range(MAX_BATCH_TRIES):
        last = table.last_batch(name)
        # Its rows may be those of an earlier query, which had the same name and another number.
        done = commit(target, name, 0 if last is None else last + 1, staged, repeats=True)
        if isinstance(done, Committed):
            return done
        # Another query took that number between the two calls; its rows are its own.
        table = open_table(target.spec, create=False)
    raise ConfigError(
        f"table {target.spec.name}: others commit as {name!r} all the time; give this query a writer"
    )


def abort(target: Target, staged: Sequence[Staged | None]) -> int:
    """Remove the files of a batch that will never be committed; returns how many.

    If all tasks are done, the commit may have been tried, and nobody knows for sure that it failed:
    files that the table does not have are left to expiry then.
    """
    if all(each is not None for each in staged):
        return 0
    return open_table(target.spec, create=False).discard([each for each in staged if each is not None])
