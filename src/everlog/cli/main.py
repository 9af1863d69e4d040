"""The program `everlog`: finds the command, runs it, and turns failures into one line and an exit code."""

import gc
import os
import sys
from typing import NoReturn

import click

from everlog import __version__
from everlog.cli.lazy import Lazy, LazyGroup, OutputClosed
from everlog.model.errors import EverlogError

COMMANDS = {
    "up": Lazy("everlog.cli.up", "up", "Start a local broker in the foreground."),
    "server": Lazy("everlog.cli.server", "server", "Run one node from a properties file."),
    "topic": Lazy("everlog.cli.topic", "topic", "Create, list, describe, change and delete topics."),
    "produce": Lazy("everlog.cli.produce", "produce", "Write records from lines of text or JSON."),
    "consume": Lazy("everlog.cli.consume", "consume", "Read records by partition, offset, time or range."),
    "group": Lazy("everlog.cli.group", "group", "List and describe groups with their lag, reset offsets."),
    "txn": Lazy("everlog.cli.txn", "txn", "List, describe and abort transactions."),
    "dead-letters": Lazy(
        "everlog.cli.dead_letters", "dead_letters", "List records that failed, and send them back."
    ),
    "mirror": Lazy("everlog.cli.mirror", "mirror", "Move groups to a mirror on another cluster."),
    "table": Lazy("everlog.cli.table", "table", "Keep topics as lake tables: declare, run, look, compact."),
    "config": Lazy("everlog.cli.config", "config", "Describe and change settings of topics and brokers."),
    "cluster": Lazy("everlog.cli.cluster", "cluster", "Look after brokers: health, moves, elections."),
    "quorum": Lazy("everlog.cli.quorum", "quorum", "Look at the quorum of controllers."),
    "log": Lazy("everlog.cli.log", "log", "Look into the files of a log on disk, and check them."),
    "pipeline": Lazy("everlog.cli.pipeline", "pipeline", "Declare and run data pipelines on Spark."),
    "chaos": Lazy("everlog.cli.chaos", "chaos", "Break a cluster on purpose, and judge what it does."),
    "perf": Lazy("everlog.cli.perf", "perf", "Measure producing, consuming and latency."),
    "completion": Lazy("everlog.cli.completion", "completion", "Print the completion script of a shell."),
    "version": Lazy("everlog.cli.version", "version", "Print the version."),
}

EXAMPLES = """
$ everlog up                                   # a broker on 127.0.0.1:9092, data in ./everlog-data
$ everlog topic create orders --partitions 3
$ echo 'customer-42:{"total": 12}' | everlog produce orders --key-separator :
$ everlog consume orders --exit-at-end
"""


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"everlog {__version__}")
        ctx.exit(0)


cli = LazyGroup(
    "everlog",
    COMMANDS,
    "Everlog: a commit log that speaks the Kafka protocol.\n\n"
    "Commands that talk to a cluster find it by --bootstrap, by the variable EVERLOG_BOOTSTRAP, or at "
    "127.0.0.1:9092. It may as well be a cluster of Apache Kafka. "
    "Exit codes: 0 done, 1 failed, 2 wrong usage.",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version and exit.",
        )
    ],
    examples=EXAMPLES,
)


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with 0 when it did what was asked, 1 when it failed, 2 on wrong usage."""
    # Most of what a command makes are modules, and they stay: looking for cycles among them is a tenth of a
    # start.
    gc.set_threshold(100_000, 20, 50)
    sys.exit(_run(args))


def _run(args: list[str] | None) -> int:
    try:
        outcome: object = cli.main(args, prog_name="everlog", standalone_mode=False)
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except click.UsageError as error:
        _say(error.format_message())
        if error.ctx is not None:
            click.echo(f"Try '{error.ctx.command_path} --help' for help.", err=True)
        return 2
    except click.ClickException as error:
        _say(error.format_message())
        return 1
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return 1
    except (OutputClosed, BrokenPipeError):
        # Whoever read our output has all they wanted (`everlog consume … | head`). Python would complain
        # once more when it flushes at exit, so stdout is pointed at nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (EverlogError, OSError) as error:
        _say(str(error))
        return 1
    except Exception as error:
        if os.environ.get("EVERLOG_DEBUG"):
            raise
        _say(f"internal error, {type(error).__name__}: {error} (EVERLOG_DEBUG=1 shows where)")
        return 1


def _say(message: str) -> None:
    click.echo(f"error: {message}", err=True)


if __name__ == "__main__":
    main()
