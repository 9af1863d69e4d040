"""How results look: text for people, or one JSON envelope for programs.

The envelope is `{"command": …, "version": 1, …}`. Within one version fields are added, never renamed or
removed; docs/cli.md lists the fields of each command.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

SCHEMA_VERSION = 1

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below a header; numbers are set to the right, the rest to the left."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def lines(self) -> list[str]:
        """The table as lines of plain text without trailing blanks."""
        texts = [[_cell(cell) for cell in row] for row in self.rows]
        widths = [
            max([len(name), *(len(row[column]) for row in texts)]) for column, name in enumerate(self.header)
        ]
        numeric = [
            bool(self.rows) and all(_is_number(row[column]) for row in self.rows)
            for column in range(len(self.header))
        ]
        return [
            "  ".join(
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(row, widths, numeric, strict=True)
            ).rstrip()
            for row in [list(self.header), *texts]
        ]


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and values, one pair a line."""

    pairs: Sequence[tuple[str, Cell]]

    def lines(self) -> list[str]:
        """The pairs with their values below each other."""
        width = max((len(name) for name, _ in self.pairs), default=0)
        return [f"{name.ljust(width)}  {_cell(value)}".rstrip() for name, value in self.pairs]


@dataclass(frozen=True, slots=True)
class Line:
    """One line, or several, as they are."""

    text: str

    def lines(self) -> list[str]:
        """The text's lines."""
        return self.text.splitlines() or [""]


Block = Table | Fields | Line


@dataclass(frozen=True, slots=True)
class Report:
    """What a command found or did: `data` for programs, `blocks` for people, `errors` for what failed.

    A report with errors still shows its results; the errors go to stderr and the exit code is 1.
    """

    data: Mapping[str, object]
    blocks: Sequence[Block] = ()
    errors: Sequence[str] = field(default=())


def show(report: Report, command: str, *, as_json: bool) -> int:
    """Write a report to stdout and its errors to stderr; return the exit code."""
    if as_json:
        click.echo(envelope(command, report.data))
    else:
        for index, block in enumerate(report.blocks):
            if index and isinstance(block, Table):
                click.echo()
            for line in block.lines():
                click.echo(line)
    for error in report.errors:
        click.echo(f"error: {error}", err=True)
    return 1 if report.errors else 0


def envelope(command: str, data: Mapping[str, object]) -> str:
    """Return one line of JSON that says which command made it, and by which version of the schema."""
    from json import dumps

    return dumps({"command": command, "version": SCHEMA_VERSION, **data}, ensure_ascii=False)


def _cell(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return str(value)


def _is_number(value: Cell) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
