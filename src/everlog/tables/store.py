"""What each format has to be able to do; all else is the same for all of them.

A store keeps a set of files, a schema and our state, and replaces them as one, if nobody else did meanwhile.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from everlog.tables.arrow import Rows, Schema
from everlog.tables.directory import Directory
from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Commit
from everlog.tables.staging import DataFile
from everlog.tables.state import State


@dataclass(frozen=True)
class View:
    """A table at one moment."""

    version: str
    schema: Schema
    """In our plain types."""
    state: State
    list_files: Callable[[], Iterable[DataFile]]
    native: Any = None
    """What the store needs to go on from here."""

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """The files that hold the rows. Listed when asked for: to append, nobody needs them."""
        return tuple(sorted(self.list_files(), key=lambda file: file.path))


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit does to a view."""

    operation: str
    state: State
    add: Sequence[DataFile] = ()
    remove: Sequence[DataFile] = ()
    writer: str | None = None
    batch_id: int | None = None
    offsets: OffsetRanges = field(default_factory=OffsetRanges)


class Store(Protocol):
    """One format's way to keep a table."""

    directory: Directory

    def create(self, schema: Schema) -> None:
        """Make an empty table, if there is none."""
        ...

    def load(self, version: str | None = None) -> View:
        """The table as it is now, or as it was; NoSuchTable if there is none, or not any more."""
        ...

    def partitioned_by(self, view: View) -> tuple[str, ...]:
        """The columns by whose values files are kept apart; a table keeps them as long as it lives."""
        ...

    def evolve(self, view: View, schema: Schema) -> bool:
        """Have the columns of a schema that is the view's and more behind; False if others were quicker."""
        ...

    def write(self, view: View, rows: Iterable[Rows]) -> list[DataFile]:
        """Write rows of the view's schema to new files that are no part of the table yet."""
        ...

    def read(self, view: View, files: Sequence[DataFile], columns: Sequence[str] | None = None) -> Rows:
        """Rows of files of the view, in its schema; columns that a file lacks are null."""
        ...

    def swap(self, view: View, change: Change) -> str | None:
        """Make a change the newest commit, all at once, if the view still is; else None.

        What is returned is the name of the commit. If it raises, the commit may have been made or not.
        """
        ...

    def destroy(self) -> None:
        """Remove the table and all of its files."""
        ...

    def history(self) -> list[Commit]:
        """Commits that have not expired, oldest first."""
        ...

    def forget(self, before_ms: int, keep: int) -> int:
        """Forget commits before a time, not the newest `keep` and never the newest; returns how many."""
        ...

    def needed(self, before_ms: int, keep: int) -> set[str]:
        """Files that the commits need which `forget` leaves, and those of the log itself."""
        ...
