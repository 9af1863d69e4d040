"""How the demo looks: lines that grow while it runs, and the summary. Colour only on a terminal."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from everlog.cli.demo_orders import Minute, Written
from everlog.cli.output import Cell, Fields, Table
from everlog.cli.shapes import size_text

if TYPE_CHECKING:
    from everlog.cli.demo_results import Checks, ClusterFound, TableFound
    from everlog.pipelines.tally import FlowTally

WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_REDRAW_SECONDS = 0.2


def bar(share: float, width: int = WIDTH) -> str:
    """A bar of so many eighths of a cell; something, however small, is shown of what is not nothing."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def minute_line(name: str, minute: Minute, largest: int) -> str:
    """One minute of the chart."""
    shown = bar(minute.orders / max(1, largest))
    return f"  {name[11:16]}  {shown:<{WIDTH}}  {minute.orders:>7,} orders  {money(minute.volume_cents):>12}"


def serving_line(addresses: Sequence[str], seconds: float) -> str:
    """What is said once brokers serve."""
    if len(addresses) == 1:
        return f"A broker serves at {addresses[0]}, {seconds:.2f} s after its start."
    return f"{len(addresses)} brokers serve at {', '.join(addresses)}, {seconds:.2f} s after their start."


def copies_text(copies: int, in_sync: int) -> str:
    """How many copies there are, and whether each has everything."""
    return "1" if copies == 1 else f"{copies}, {'all' if in_sync == copies else in_sync} in sync"


def total_line(minutes: Sequence[Minute], written: int) -> str:
    """The line below the chart; `written` are all orders, of which the last minute's are not out yet."""
    orders, cents = (
        sum(counts) for counts in zip(*((m.orders, m.volume_cents) for m in minutes), strict=True)
    )
    still_open = written - orders
    note = f"   ({still_open:,} more in the minute that is not over)" if still_open else ""
    return f"  {'in all':<{WIDTH + 7}}  {orders:>7,} orders  {money(cents):>12}{note}"


def money(cents: int) -> str:
    """Cents as people read them."""
    return f"{cents // 100:,}.{cents % 100:02d}"


def pace(written: Written) -> str:
    """How much, how fast."""
    seconds = max(written.seconds, 1e-9)
    return f"{size_text(written.size_bytes)}, {written.records / seconds:,.0f}/s"


class DemoView:
    """Writes to stdout unless `quiet`; one line on a terminal's stderr says what is going on."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._status_shown = not quiet and sys.stderr.isatty()
        self._coloured = not quiet and sys.stdout.isatty()
        self._drawn_at = 0.0
        self._has_status = False

    def say(self, text: str = "") -> None:
        """A line that stays."""
        if self._quiet:
            return
        self._wipe()
        click.echo(text)
        sys.stdout.flush()

    def heading(self, text: str) -> None:
        """A line above others."""
        self.say()
        self.say(self._paint(text, "1"))

    def status(self, text: str) -> None:
        """A line that the next one replaces; only for who watches."""
        now = time.monotonic()
        if self._status_shown and now - self._drawn_at >= _REDRAW_SECONDS:
            self._drawn_at = now
            self._has_status = True
            sys.stderr.write(f"\r\x1b[2K{self._paint(text, '2')}")
            sys.stderr.flush()

    def mark(self, *, good: bool) -> str:
        """A sign for what holds, and for what does not."""
        return self._paint("✓", "32") if good else self._paint("✗", "31")

    def summary(
        self,
        cluster: "ClusterFound",
        written: Written,
        table: "TableFound",
        flows: "Sequence[FlowTally]",
        checks: "Checks",
        lag: int | None,
        groups: Sequence[str],
    ) -> None:
        """All that is worth telling in the end."""
        self.heading("From topic to topic and to a table")
        kept = f"{table.commits} commits, {table.files} files, {size_text(table.size_bytes)}"
        rows: list[tuple[str, Cell]] = [
            ("  brokers", ", ".join(cluster.brokers)),
            ("  copies of each topic", copies_text(cluster.copies, cluster.in_sync)),
            ("  orders written", f"{written.records:,}   {pace(written)}"),
            (f"  rows in the {table.format} table", f"{table.rows:,}   {kept}"),
            ("  lag of " + ", ".join(groups), "-" if lag is None else f"{lag:,}"),
        ]
        self._lines(Fields(rows).lines())
        self.heading("How Spark kept up")
        header = ("  FLOW", "BATCHES", "ROWS", "ROWS/S", "LAG")
        cells = [
            (f"  {one.flow}", one.batches, f"{one.rows_in:,}", f"{one.rate:,.0f}", one.lag) for one in flows
        ]
        self._lines(Table(header, cells).lines())
        self.heading("Exactly once")
        for text in checks.held:
            self.say(f"  {self.mark(good=True)} {text}")
        for text in checks.broken:
            self.say(f"  {self.mark(good=False)} {text}")

    def close(self) -> None:
        """Leave the terminal clean."""
        self._wipe()

    def _lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.say(line)

    def _wipe(self) -> None:
        if self._has_status:
            self._has_status = False
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured else text
