"""A lake table that takes in batches exactly once: the face of this room, the same for all three formats."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from everlog.model.topics import TopicPartition
from everlog.tables.offsets import Coverage, OffsetRanges
from everlog.tables.spec import TableSpec
from everlog.tables.staging import Staged

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Committed:
    """The batch is in the table since this commit."""

    version: str
    """The commit's name in the table's own history: a snapshot id or a version."""
    rows: int
    """Rows that the batch added or changed; rows that were in the table already are not counted."""
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Already:
    """The batch was in the table before; nothing was changed."""

    last_batch: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry of a table's history, newest last."""

    version: str
    timestamp_ms: int
    operation: str
    """`create`, `batch`, `compact`, `schema`, or what another tool calls it."""
    writer: str | None
    batch_id: int | None
    offsets: OffsetRanges
    files: int
    """Files in the table after it."""
    rows: int
    """Rows in the table after it."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    files_before: int
    files_after: int
    rows: int


@dataclass(frozen=True, slots=True)
class Expired:
    """What expiry removed."""

    commits: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Description:
    """A table at a glance."""

    spec: TableSpec
    version: str
    files: int
    rows: int
    size_bytes: int
    small_files: int
    """Files below half of the target size: what compaction would take."""
    writers: dict[str, int]
    """The last batch of each writer."""
    offsets: dict[TopicPartition, int]
    last_commit_ms: int | None


class Table:
    """A table, opened. Safe to be opened by many processes at once; not to be shared between threads."""

    spec: TableSpec

    @property
    def schema(self) -> "pa.Schema":
        """The columns of the table, with the `_…` columns."""
        raise NotImplementedError

    def write_files(self, batches: "Iterable[pa.RecordBatch]") -> Staged:
        """Write rows into files that no reader sees before a commit; on any machine that has the location.

        Columns are matched by name; missing ones become null, unknown ones are refused.
        """
        raise NotImplementedError

    def commit(
        self, writer: str, batch_id: int, staged: Sequence[Staged], offsets: OffsetRanges | None = None
    ) -> Committed | Already:
        """Make staged rows part of the table, once: (writer, batch id) is in the table's own history.

        A writer's batch ids grow; one that is not above the last is there `Already`. Without `offsets`
        the ranges are those of the rows, joined to where this writer's last batch ended. Rows whose
        offsets the table has taken in from any writer are left out.
        """
        raise NotImplementedError

    def last_batch(self, writer: str) -> int | None:
        """The id of the last batch of a writer that is in the table."""
        raise NotImplementedError

    def offsets(self) -> dict[TopicPartition, int]:
        """For each partition the offset from which the table has yet to be fed: the end of what it holds."""
        raise NotImplementedError

    def coverage(self) -> Coverage:
        """All offsets that the table has taken in, gaps included: for backfill."""
        raise NotImplementedError

    def history(self) -> list[Commit]:
        """Commits that have not expired, oldest first."""
        raise NotImplementedError

    def read(self, columns: Sequence[str] | None = None) -> "pa.Table":
        """All rows."""
        raise NotImplementedError

    def files(self) -> list[str]:
        """Paths of the files that hold the rows now, such as `spark.read.parquet` takes them."""
        raise NotImplementedError

    def compact(self) -> Compacted:
        """Make few files of many small ones; writers may go on meanwhile."""
        raise NotImplementedError

    def expire(self, older_than: timedelta, keep: int = 1, orphans_after: timedelta | None = None) -> Expired:
        """Forget commits older than that, but not the newest `keep`; remove the files that nobody needs then.

        Files of no commit at all go once they are older than `orphans_after`, a day if not given: younger ones
        may belong to a batch that is about to be committed.
        """
        raise NotImplementedError

    def describe(self) -> Description:
        """The table at a glance."""
        raise NotImplementedError


def open_table(spec: TableSpec, *, create: bool = True) -> Table:
    """Open a table; with `create`, make it if it is not there and add the columns that the declaration has gained.

    Workers pass `create=False`: whoever drives them has opened it before. Raises NoSuchTable then, if it is
    not there, and SchemaConflict if declared columns do not fit.
    """
    raise NotImplementedError


def table_kinds() -> dict[str, Any]:
    """For each format whether its libraries are there: None, or what to install."""
    raise NotImplementedError
