"""`everlog table compact|expire`."""

import re
import time
from datetime import timedelta

import click

from everlog.cli.command import command
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, yes_option
from everlog.cli.output import Line, Report
from everlog.cli.shapes import counted, size_text, span_text
from everlog.cli.table_place import find_spec, table_argument
from everlog.tables.table import open_table

COMPACT_EXAMPLES = """
$ everlog table compact orders --dry-run
$ everlog table compact orders
"""


@command("compact", examples=COMPACT_EXAMPLES)
@table_argument
@dry_run_option
@bootstrap_option
def compact(*, name: str, dry_run: bool, bootstrap: str, timeout: float) -> Report:
    """Make few files of many small ones. Writers and readers may go on meanwhile.

    The old files stay until `everlog table expire` removes them, for readers of earlier commits.
    """
    table = open_table(find_spec(bootstrap, timeout, name), create=False)
    data: dict[str, object] = {"dry_run": dry_run, "table": name}
    if dry_run:
        small = table.describe().small_files
        data |= {"files_before": small, "files_after": None, "rows": None}
        return Report(data, [Line(f"would rewrite {counted(small, 'small file')} of table {name}")])
    done = table.compact()
    data |= {"files_before": done.files_before, "files_after": done.files_after, "rows": done.rows}
    if not done.files_before:
        return Report(data, [Line(f"table {name} has no small files to put together")])
    text = f"{counted(done.files_before, 'file')} of table {name} became {done.files_after}"
    return Report(data, [Line(f"{text}, {counted(done.rows, 'row')}")])


EXPIRE_EXAMPLES = """
$ everlog table expire orders --older-than 7d --dry-run
$ everlog table expire orders --older-than 7d --keep 10
$ everlog table expire orders --older-than 0s --orphans-after 1h --yes
"""

_SPAN = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def read_span(option: str, text: str) -> timedelta:
    """A span of time such as `7d` or `1h30m`; anything else is wrong usage."""
    if not text or _SPAN.sub("", text):
        raise click.UsageError(f"--{option} {text!r}: expected a span such as 7d, 12h, 1h30m")
    return timedelta(seconds=sum(int(count) * _SECONDS[unit] for count, unit in _SPAN.findall(text)))


def _span(_ctx: click.Context, param: click.Parameter, text: str) -> timedelta:
    return read_span((param.name or "").replace("_", "-"), text)


@command("expire", examples=EXPIRE_EXAMPLES)
@table_argument
@click.option(
    "--older-than",
    default="7d",
    show_default=True,
    metavar="SPAN",
    callback=_span,
    help="Forget commits of before.",
)
@click.option(
    "--keep", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Not the newest N."
)
@click.option(
    "--orphans-after",
    default="1d",
    show_default=True,
    metavar="SPAN",
    callback=_span,
    help="Remove files of no commit once they are that old.",
)
@yes_option
@dry_run_option
@bootstrap_option
def expire(
    *,
    name: str,
    older_than: timedelta,
    keep: int,
    orphans_after: timedelta,
    yes: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Forget old commits of a table, and remove the files that only they needed. The rows of today stay.

    Files that belong to no commit, such as those of writers that died, go once they are older than
    --orphans-after; younger ones may belong to a batch that is about to be committed.
    """
    table = open_table(find_spec(bootstrap, timeout, name), create=False)
    history = table.history()
    age = span_text(int(older_than.total_seconds() * 1000))
    data: dict[str, object] = {"dry_run": dry_run, "table": name}
    if dry_run:
        before = int((time.time() - older_than.total_seconds()) * 1000)
        old = [commit for commit in history[: max(0, len(history) - keep)] if commit.timestamp_ms < before]
        data |= {"commits": len(old), "files": None, "bytes": None}
        return Report(
            data, [Line(f"would forget up to {counted(len(old), 'commit')} of table {name} older than {age}")]
        )
    if not confirm(f"Forget commits of table {name} older than {age}, and remove their files?", yes=yes):
        raise click.Abort
    done = table.expire(older_than, keep, orphans_after)
    data |= {"commits": done.commits, "files": done.files, "bytes": done.bytes}
    text = f"forgot {counted(done.commits, 'commit')} of table {name}, removed {counted(done.files, 'file')}"
    return Report(data, [Line(f"{text} ({size_text(done.bytes)})")])
