"""What a writer on any machine hands to the one that commits: names of files, never their bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from everlog.tables.offsets import OffsetRanges


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table, or one that may become part of it."""

    path: str
    """Where it is: relative to the table's location for Parquet and Delta, absolute for Iceberg."""
    rows: int
    size_bytes: int
    partition: Mapping[str, str | None]
    """Values of the partition columns, as text; empty if the table is not partitioned."""
    native: bytes = b""
    """What the format has to know besides; opaque here."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that lie in files and are in no table yet. Small and picklable; forgotten, it costs an orphan."""

    files: tuple[DataFile, ...] = ()
    """Rows in append mode: data files as the table will have them."""
    changes: tuple[DataFile, ...] = ()
    """Rows in upsert mode: the newest change of each key, for the commit to apply."""
    bad: tuple[DataFile, ...] = ()
    """Records that could not be read, for the dead-letter topic."""
    rows: int = 0
    bad_rows: int = 0
    seen: OffsetRanges = field(default_factory=OffsetRanges)
    """From the lowest to the highest offset among the rows, good and bad."""

    @property
    def size_bytes(self) -> int:
        """Size of the files."""
        return sum(file.size_bytes for file in (*self.files, *self.changes, *self.bad))
