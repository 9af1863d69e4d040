"""`python -m bench`: run the comparison, print the table, keep the samples, draw the chart."""

import platform
import re
import shlex
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click
from tests import apache_kafka

from bench import report, runner, scenarios
from bench.brokers import KAFKA, KINDS, Kind, compile_everlog
from bench.chart import svg_chart
from bench.machine import this_machine
from bench.samples import Results
from bench.scenarios.scenario import Scenario
from bench.stage import FULL, QUICK

_ROOT = Path(__file__).resolve().parent.parent
_CHART = _ROOT / "docs" / "img" / "bench.svg"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="The headline rows with short runs: about two minutes.")
@click.option("--repeats", type=click.IntRange(1), help="Samples of each row on each broker [5; quick: 2].")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Groups or scenarios, by the start of their name."
)
@click.option("--brokers", default="everlog,kafka", show_default=True, help="Which brokers to run.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Where the samples are kept.")
@click.option(
    "--chart",
    "chart_path",
    type=click.Path(path_type=Path),
    help=f"Draw the chart here, e.g. {_CHART.relative_to(_ROOT)}.",
)
@click.option(
    "--render", type=click.Path(path_type=Path, exists=True), help="Run nothing; report on kept samples."
)
@click.option("--markdown", is_flag=True, help="Print the table for a document.")
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="Where the brokers keep their data."
)
@click.option("--quiet-timeout", default=30.0, show_default=True, help="Seconds to wait for a quiet machine.")
@click.option("--split-cpus", is_flag=True, help="Broker on cpu 0, loaders on cpu 1; not for comparisons.")
@click.option("--check", is_flag=True, help="Exit with 1 if a floor is missed, or a sample was not quiet.")
@click.option("--list", "list_only", is_flag=True, help="Name the scenarios and leave.")
def main(
    quick: bool,
    repeats: int | None,
    only: tuple[str, ...],
    brokers: str,
    json_path: Path | None,
    chart_path: Path | None,
    render: Path | None,
    markdown: bool,
    directory: Path | None,
    quiet_timeout: float,
    split_cpus: bool,
    check: bool,
    list_only: bool,
) -> None:
    """Compare Everlog with Apache Kafka on this machine.

    \b
    Examples:
      python -m bench --quick
      python -m bench --only produce --only consume --repeats 7
      python -m bench --render bench/results/2026-01-31-epyc.json --chart docs/img/bench.svg
    """
    # Unwind on SIGTERM too: brokers must not outlive us, and samples taken so far are kept.
    signal.signal(signal.SIGTERM, _end)
    chosen = _chosen(only, quick)
    if list_only:
        for scenario in chosen:
            print(scenario.name)
        return
    if render is not None:
        results = Results.load(render)
    else:
        kinds = _kinds(brokers)
        compile_everlog()
        results = _new_results(kinds)
        plan = replace(QUICK if quick else FULL, split_cpus=split_cpus)
        with _directory(directory) as place:
            course = runner.Course(
                chosen, kinds, repeats or (2 if quick else 5), plan, quiet_timeout, Path(place)
            )
            try:
                runner.run(course, results)
            finally:
                results.save(json_path or _default_path(results))
    print(report.markdown_table(results) if markdown else report.text_table(results))
    if chart_path is not None:
        chart_path.parent.mkdir(parents=True, exist_ok=True)
        chart_path.write_text(svg_chart(results))
    if results.failures or (check and (report.missed(results) or report.provisional(results))):
        raise SystemExit(1)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _chosen(only: tuple[str, ...], quick: bool) -> tuple[Scenario, ...]:
    chosen = tuple(
        scenario
        for scenario in scenarios.ALL
        if (not only or scenario.name.startswith(only)) and (scenario.headline or not quick)
    )
    if not chosen:
        raise click.BadParameter(f"nothing is named {', '.join(only)}; groups: {', '.join(scenarios.GROUPS)}")
    return chosen


def _kinds(names: str) -> tuple[Kind, ...]:
    for name in names.split(","):
        if name not in KINDS:
            raise click.BadParameter(f"no broker is named {name!r}; there are {', '.join(KINDS)}")
    kinds = tuple(KINDS[name] for name in names.split(","))
    if KAFKA in kinds and isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        raise click.ClickException(f"Apache Kafka cannot be run here: {jars.reason} (try --brokers everlog)")
    return kinds


def _new_results(kinds: tuple[Kind, ...]) -> Results:
    return Results(
        machine=this_machine(),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        command="python -m bench " + shlex.join(sys.argv[1:]),
        versions={kind.title: kind.version() for kind in kinds},
    )


def _default_path(results: Results) -> Path:
    cpu = re.sub(r"[^a-z0-9]+", "-", results.machine.cpu.lower()).strip("-")
    return _ROOT / "bench" / "results" / f"{results.date}-{cpu or platform.machine()}.json"


class _directory:
    """A place for data: the one given, or a temporary one."""

    def __init__(self, given: Path | None) -> None:
        if given is not None:
            given.mkdir(parents=True, exist_ok=True)
        self._path = tempfile.mkdtemp(prefix="everlog-bench-", dir=given)

    def __enter__(self) -> str:
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


if __name__ == "__main__":
    main()
