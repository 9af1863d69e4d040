"""`everlog table run|backfill`."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import click

from everlog.cli.client_config import client_config
from everlog.cli.command import command
from everlog.cli.connect import client_settings
from everlog.cli.options import bootstrap_option, dry_run_option
from everlog.cli.output import Block, Fields, Line, Report
from everlog.cli.shapes import counted, span_text
from everlog.cli.table_place import find_spec, table_argument
from everlog.cli.table_view import topic_ends
from everlog.cli.table_watch import Tally, Watch
from everlog.tables.errors import NoSuchTable
from everlog.tables.materialize import Pace, Progress, materialize
from everlog.tables.offsets import Coverage
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table

RUN_EXAMPLES = """
$ everlog table run orders                       # follow the topic until Ctrl-C
$ everlog table run orders --once                # up to what is the end now
$ everlog table run orders --engine spark --master 'local[4]' --once
$ everlog table run orders --every 60 --json
"""

BACKFILL_EXAMPLES = """
$ everlog table backfill orders --dry-run
$ everlog table backfill orders
"""

BACKFILL = "backfill"


@command("run", examples=RUN_EXAMPLES)
@table_argument
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="This process, or Spark.",
)
@click.option("--once/--continuous", "once", default=False, help="End at what is the end now, or go on.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Commit that often, if there is something.",
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Where to begin with partitions that the table has nothing of.",
)
@click.option("--skip-lost", is_flag=True, help="Go on behind records that left the log unread.")
@click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Spark: where it runs.")
@click.option("--checkpoint", metavar="DIR|URI", help="Spark: its checkpoint.  [default: beside the table]")
@click.option("--conf", "confs", multiple=True, metavar="KEY=VALUE", help="Spark: a setting; repeatable.")
@bootstrap_option
def run(
    *,
    name: str,
    engine: str,
    once: bool,
    every: float,
    start: str,
    skip_lost: bool,
    master: str,
    checkpoint: str | None,
    confs: tuple[str, ...],
    bootstrap: str,
    timeout: float,
) -> Report:
    """Keep a table up to date with its topic, each record once, until Ctrl-C or, with --once, the end.

    Both engines may take turns: where to go on is in the table itself. On a terminal the line shows rates and
    lag while it runs.
    """
    spec = find_spec(bootstrap, timeout, name)
    pace = Pace(
        until_end=once,
        batch_s=every,
        start="latest" if start == "latest" else "earliest",
        skip_lost=skip_lost,
    )
    with stopped_by_signals() as stop, Watch(name) as watch:
        if engine == "local":
            tally = _run_local(spec, pace, stop, watch, timeout)
        else:
            from everlog.cli.table_spark import SparkRun, run_on_spark

            wanted = SparkRun(
                spec, pace, master, checkpoint, confs, client_settings(timeout), client_config()
            )
            tally = run_on_spark(wanted, stop, watch)
    return _report(spec, tally, engine=engine, lag=_lag_now(spec, bootstrap, timeout))


@command("backfill", examples=BACKFILL_EXAMPLES)
@table_argument
@click.option("--skip-lost", is_flag=True, help="Go on behind records that left the log unread.")
@dry_run_option
@bootstrap_option
def backfill(*, name: str, skip_lost: bool, dry_run: bool, bootstrap: str, timeout: float) -> Report:
    """Bring all that a table has missed into it, from offset 0 to what is the end now.

    What it has is not read again, and a writer that follows the topic meanwhile is not disturbed.
    """
    spec = find_spec(bootstrap, timeout, name)
    try:
        coverage = open_table(spec, create=False).coverage()
    except NoSuchTable:
        coverage = Coverage()
    ends = topic_ends(bootstrap, timeout, spec)
    missing = sum(
        end - sum(min(stop, end) - begin for begin, stop in coverage.spans.get(place, ()) if begin < end)
        for place, end in ends.items()
    )
    if dry_run:
        text = f"would read {counted(missing, 'offset')} that table {name} has not taken in"
        return Report({"dry_run": True, "table": name, "offsets": missing, "rows": None}, [Line(text)])
    with stopped_by_signals() as stop, Watch(name) as watch:
        pace = Pace(until_end=True, skip_lost=skip_lost)
        tally = _run_local(spec, pace, stop, watch, timeout, writer=BACKFILL)
    report = _report(spec, tally, engine="local", lag=_lag_now(spec, bootstrap, timeout))
    return Report({"dry_run": False, **report.data, "offsets": missing}, report.blocks)


@contextmanager
def stopped_by_signals() -> Generator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second Ctrl-C ends the program at once.

    A second SIGTERM does not: `timeout` sends two, one to the process and one to its group.
    """
    stop = threading.Event()

    def ask(number: int, _frame: FrameType | None) -> None:
        stop.set()
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_local(
    spec: TableSpec,
    pace: Pace,
    stop: threading.Event,
    watch: Watch,
    timeout: float,
    *,
    writer: str | None = None,
) -> Tally:
    def step(progress: Progress) -> None:
        watch.batch(progress.rows, progress.bad, progress.total_lag)

    named = {} if writer is None else {"writer": writer}
    materialize(spec, pace, on_progress=step, stop=stop, client=client_settings(timeout), **named)
    return watch.tally()


def _lag_now(spec: TableSpec, bootstrap: str, timeout: float) -> int:
    offsets = open_table(spec, create=False).offsets()
    return sum(
        max(0, end - offsets.get(place, 0)) for place, end in topic_ends(bootstrap, timeout, spec).items()
    )


def _report(spec: TableSpec, tally: Tally, *, engine: str, lag: int) -> Report:
    data: dict[str, object] = {
        "table": spec.name,
        "engine": engine,
        "batches": tally.batches,
        "rows": tally.rows,
        "dead_letters": tally.bad,
        "seconds": round(tally.seconds, 3),
        "rows_per_second": round(tally.rows_per_second, 1),
        "lag": lag,
    }
    blocks: list[Block] = [
        Line(f"table {spec.name}: {counted(tally.rows, 'row')} in {counted(tally.batches, 'commit')}"),
        Fields(
            [
                ("time", span_text(int(tally.seconds * 1000))),
                ("rate", f"{tally.rows_per_second:,.0f} rows/s"),
                ("dead letters", tally.bad),
                ("behind", counted(lag, "record")),
            ]
        ),
    ]
    return Report(data, blocks)
