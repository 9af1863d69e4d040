"""What can go wrong with a table.

TableError
├── TableMisdeclared    a declaration has a value it cannot have
├── SchemaConflict      the declared columns do not fit those that the table has
├── NoSuchTable         there is no such table, or no declaration of that name
├── StagedLost          a staged file is gone before its commit
├── CommitContended     others commit so often that this commit found no gap
├── Unreadable          a record cannot become a row; named so in its dead letter
├── BadRecords          there are such records, and no dead-letter topic
├── DataLost            records that the table has yet to take in are gone from the log
└── ExtraMissing        a library is not installed
"""

from everlog.model.errors import EverlogError


class TableError(EverlogError):
    """A table cannot do what it was asked to."""


class TableMisdeclared(TableError):
    """A declaration has a value that it cannot have; the message names it and what was expected."""


class SchemaConflict(TableError):
    """The declared columns do not fit those that the table has."""


class NoSuchTable(TableError):
    """There is no table at that place, or no declaration of that name."""


class StagedLost(TableError):
    """A staged file is gone: the removal of orphans was quicker than the commit."""


class CommitContended(TableError):
    """Other writers committed each time this one tried to; nothing of it is in the table."""


class Unreadable(TableError):
    """A record cannot become a row; the message says why."""


class BadRecords(TableError):
    """Records cannot become rows, and no dead-letter topic is declared that would take them."""


class DataLost(TableError):
    """Records that the table has yet to take in are not in the log any more."""


class ExtraMissing(TableError):
    """A library is not installed; the message says what to install."""


def extra_missing(library: str, what: str) -> ExtraMissing:
    """The error for a library that is not there."""
    return ExtraMissing(f"{what} needs {library}, which is not installed: pip install everlog[lake]")
