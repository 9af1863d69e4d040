"""`everlog table to-topic`."""

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import client_settings
from everlog.cli.options import bootstrap_option, dry_run_option
from everlog.cli.output import Line, Report
from everlog.cli.progress import Progress
from everlog.cli.shapes import counted
from everlog.cli.table_place import find_spec, table_argument
from everlog.tables.back import Sent, send_back
from everlog.tables.table import open_table

EXAMPLES = """
$ everlog table to-topic orders orders.restored --dry-run
$ everlog table to-topic orders orders.restored
$ everlog table to-topic customers customers.again --key id
$ everlog table to-topic orders orders.restored --group once-more     # all rows again
"""


@command("to-topic", examples=EXAMPLES)
@table_argument
@click.argument("topic", shell_complete=complete_topics)
@click.option("--key", metavar="COLUMN,…", help="Columns that make the key.  [default: the key the row had]")
@click.option(
    "--group", metavar="GROUP", help="Who remembers what was sent; another one sends all rows again."
)
@dry_run_option
@bootstrap_option
def to_topic(
    *,
    name: str,
    topic: str,
    key: str | None,
    group: str | None,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Send the rows of a table to a topic as JSON, once each.

    What was sent is remembered by a group of consumers. A run that is cut short goes on where it was; a later
    one sends the rows that came since. Rows that left an upsert table since are not told, and rows that name
    no offset, such as aggregates, go again with each new commit of the table.
    """
    spec = find_spec(bootstrap, timeout, name)
    rows = open_table(spec, create=False).describe().rows
    data: dict[str, object] = {"dry_run": dry_run, "table": name, "topic": topic}
    if dry_run:
        data |= {"rows": rows, "seconds": None, "table_version": None}
        text = f"would send what was not sent yet of {counted(rows, 'row')} of table {name} to {topic}"
        return Report(data, [Line(text)])
    columns = [column.strip() for column in (key or "").split(",") if column.strip()]
    with Progress(f"{name} to {topic}", rows, "rows") as progress:
        shown = 0

        def step(sent: Sent) -> None:
            nonlocal shown
            progress.step(sent.rows - shown)
            shown = sent.rows

        sent = send_back(
            spec, topic, key=columns or None, group=group, on_progress=step, client=client_settings(timeout)
        )
    data |= {"rows": sent.rows, "seconds": round(sent.seconds, 3), "table_version": sent.version}
    return Report(data, [Line(f"sent {counted(sent.rows, 'row')} of table {name} to {topic}")])
