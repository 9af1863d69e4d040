"""What a table answers."""

from dataclasses import dataclass

from everlog.model.topics import TopicPartition
from everlog.tables.offsets import OffsetRanges
from everlog.tables.spec import TableSpec


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
    """One entry of a table's history."""

    version: str
    timestamp_ms: int
    operation: str
    """`create`, `batch`, `compact`, `schema`, or what another tool calls it."""
    writer: str | None
    batch_id: int | None
    offsets: OffsetRanges
    """What the batch held."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    files_before: int
    """Files that it replaced."""
    files_after: int
    """Files that it put in their place; both are 0 if there was nothing to do."""
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
