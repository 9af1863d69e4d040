"""`everlog chaos run`."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import click

from everlog.chaos.page import render_page
from everlog.chaos.run import ChaosRun, RunSettings
from everlog.chaos.steps import SCENARIOS, Scenario, Verb, parse_steps
from everlog.chaos.target import GivenCluster, OwnCluster
from everlog.chaos.verdict import Limits, judge
from everlog.cli.chaos_report import run_report
from everlog.cli.command import command
from everlog.cli.options import key_values
from everlog.cli.output import Report
from everlog.model.errors import ConfigError

_SMALL_DISK_BYTES = 256 * 1024 * 1024

EXAMPLES = """
$ everlog chaos run                                        # three brokers of its own, about a minute
$ everlog chaos run --scenario kill --rate 1000 --html chaos.html --json
$ everlog chaos run --steps "load:5 pause:controller:20 await-writable heal load:5"
$ everlog chaos run --bootstrap 10.0.0.1:9092 --nodes 1 --scenario stop \\
    --pid-command "systemctl show -p MainPID --value everlog@{id}" \\
    --start-command "systemctl start everlog@{id}"
"""


@command("run", examples=EXAMPLES)
@click.option(
    "--scenario",
    "name",
    type=click.Choice(list(SCENARIOS)),
    default="failover",
    show_default=True,
    help="What happens; `everlog chaos list` tells more.",
)
@click.option("--steps", metavar='"STEP …"', help="These steps instead of a scenario's.")
@click.option(
    "--brokers",
    type=click.IntRange(1, 9),
    metavar="N",
    default=3,
    show_default=True,
    help="How many to start.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where they keep their data.  [default: a temporary directory]",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting of theirs; repeatable."
)
@click.option(
    "--bootstrap", "-b", metavar="HOST:PORT[,…]", help="Brokers that run already; needs the next three."
)
@click.option("--nodes", metavar="ID,…", help="Which of them run on this machine and may be broken.")
@click.option("--pid-command", metavar="COMMAND", help="Prints the pid of broker {id}.")
@click.option("--start-command", metavar="COMMAND", help="Starts broker {id} again.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    default=6,
    show_default=True,
    help="Of the topic.",
)
@click.option(
    "--min-isr",
    type=click.IntRange(min=1),
    metavar="N",
    help="min.insync.replicas.  [default: the scenario's]",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=1),
    metavar="N",
    default=200.0,
    show_default=True,
    help="Records a second.",
)
@click.option(
    "--transactions",
    type=click.FloatRange(min=0),
    metavar="N",
    help="Transactions a second beside them.  [default: the scenario's]",
)
@click.option(
    "--size", type=click.IntRange(min=0), metavar="N", default=100, show_default=True, help="Bytes of each."
)
@click.option(
    "--lag",
    "lag_ms",
    type=click.IntRange(min=100),
    metavar="MS",
    default=1_000,
    show_default=True,
    help="replica.lag.time.max.ms of brokers that it starts; slow disks are slower than that.",
)
@click.option(
    "--max-unavailable",
    type=click.FloatRange(min=0),
    metavar="MS",
    help="For how long after a fault a partition may take no records.  [default: the scenario's]",
)
@click.option(
    "--max-pause",
    type=click.FloatRange(min=0),
    metavar="MS",
    default=10_000.0,
    show_default=True,
    help="For how long scaling the group may keep a partition from being read.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page with a timeline.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write all that was done as JSON lines.",
)
def run(
    *,
    name: str,
    steps: str | None,
    brokers: int,
    directory: Path | None,
    overrides: tuple[str, ...],
    bootstrap: str | None,
    nodes: str | None,
    pid_command: str | None,
    start_command: str | None,
    partitions: int,
    min_isr: int | None,
    rate: float,
    transactions: float | None,
    size: int,
    lag_ms: int,
    max_unavailable: float | None,
    max_pause: float,
    html: Path | None,
    history: Path | None,
) -> Report:
    """Break a cluster under load on purpose, and judge what it does.

    Starts brokers as processes, or takes those that are there; writes records at a steady rate with acks=all
    and idempotence while a group reads; carries out the scenario; in the end reads everything and checks that
    nothing that was acknowledged is lost, twice, or out of order. The exit code is 1 if the verdict is bad.
    What this machine has no means for is skipped and told.
    """
    given = Given(nodes, pid_command, start_command)
    with ExitStack() as stack:
        try:
            scenario = _scenario(name, steps)
            own: OwnCluster | None = None
            if bootstrap is None:
                home = directory or Path(stack.enter_context(_a_directory()))
                own = _own(brokers, home, overrides, lag_ms, given, small_disks=_fills_disks(scenario))
            target = given.cluster(bootstrap) if bootstrap is not None else own
            assert target is not None
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        replication = min(3, brokers)
        settings = RunSettings(
            topic=f"everlog-chaos-{uuid4().hex[:8]}",
            partitions=partitions,
            replication=replication,
            min_isr=min(replication, scenario.min_isr if min_isr is None else min_isr),
            rate=rate,
            transactions=scenario.transactions if transactions is None else transactions,
            size_bytes=size,
            lag_ms=lag_ms,
        )
        if own is not None:
            stack.callback(own.close)
            own.open()
        chaos = ChaosRun(target, scenario.steps, settings, lambda words: click.echo(words, err=True))
        notes = chaos.run()
    unavailable_ms = scenario.unavailable_ms if max_unavailable is None else max_unavailable
    verdict = judge(notes, Limits(unavailable_ms, max_pause))
    if history is not None:
        notes.recorder.history().write(history)
    if html is not None:
        facts = {
            "brokers": str(brokers if bootstrap is None else bootstrap),
            "partitions": str(partitions),
            "min.insync.replicas": str(settings.min_isr),
            "records a second": f"{rate:g}",
            "transactions a second": f"{settings.transactions:g}",
        }
        html.write_text(render_page(f"everlog chaos: {scenario.name}", facts, notes, verdict))
    return run_report(scenario, settings, notes, verdict, html, history)


@dataclass(frozen=True, slots=True)
class Given:
    """What is said of brokers that run already."""

    nodes: str | None
    pid_command: str | None
    start_command: str | None

    def named(self) -> dict[str, str | None]:
        """The options with what was given."""
        return {
            "--nodes": self.nodes,
            "--pid-command": self.pid_command,
            "--start-command": self.start_command,
        }

    def cluster(self, bootstrap: str) -> GivenCluster:
        """The brokers; ConfigError where not enough is said of them."""
        missing = [option for option, value in self.named().items() if value is None]
        if self.nodes is None or self.pid_command is None or self.start_command is None:
            raise ConfigError(
                f"--bootstrap names brokers that run already: expected {', '.join(missing)} as well"
            )
        parts = [part.strip() for part in self.nodes.split(",")]
        if not all(part.isdecimal() for part in parts):
            raise ConfigError(f"--nodes {self.nodes!r} cannot be read: expected ids such as 1,2,3")
        return GivenCluster(bootstrap, [int(part) for part in parts], self.pid_command, self.start_command)


def _own(
    brokers: int,
    home: Path,
    overrides: tuple[str, ...],
    lag_ms: int,
    given: Given,
    *,
    small_disks: bool,
) -> OwnCluster:
    needless = [option for option, value in given.named().items() if value is not None]
    if needless:
        raise ConfigError(f"{needless[0]} is about brokers that run already: expected --bootstrap as well")
    settings: dict[str, object] = {
        "replica.lag.time.max.ms": lag_ms,
        "offsets.topic.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        **key_values(overrides, "--override"),
    }
    return OwnCluster(brokers, home, settings, _SMALL_DISK_BYTES if small_disks else None)


def _fills_disks(scenario: Scenario) -> bool:
    return any(step.verb is Verb.FILL_DISK for step in scenario.steps)


def _a_directory() -> "TemporaryDirectory[str]":
    return TemporaryDirectory(prefix="everlog-chaos-", ignore_cleanup_errors=True)


def _scenario(name: str, steps: str | None) -> Scenario:
    if steps is None:
        return SCENARIOS[name]
    parsed = parse_steps(steps.split())
    if not parsed:
        raise ConfigError("--steps names none, expected some, such as load:5 kill:leader await-writable")
    return Scenario("steps", "", parsed)
