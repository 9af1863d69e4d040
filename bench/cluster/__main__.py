"""`python -m bench.cluster`: three brokers of Everlog beside three of Apache Kafka on this machine."""

import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
from tests import apache_kafka

from bench import report
from bench.brokers import EVERLOG, KAFKA, KINDS, Kind
from bench.chart import svg_chart
from bench.cluster.failover import failover
from bench.cluster.loads import Load
from bench.cluster.metrics import PACES, SHAPES
from bench.cluster.trios import Trio
from bench.machine import QUIET_CORES, ForeignCpu, this_machine, wait_quiet
from bench.memory import BackedMemory
from bench.samples import Results, Sample, Values
from bench.stage import FULL, QUICK, Plan
from everlog.model.errors import EverlogError

_ROOT = Path(__file__).resolve().parent.parent.parent
_FAILURES = (RuntimeError, OSError, ValueError, EverlogError)
_GROUPS = ("produce", "latency", "failover", "failover.controller")
_PLANS = {False: FULL, True: replace(QUICK, produce_bytes=1 << 26)}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Short runs and few kills: some minutes, with a wide spread.")
@click.option("--repeats", type=click.IntRange(1), help="Samples of each row on each cluster [5; quick: 1].")
@click.option("--kills", type=click.IntRange(1), help="Kills of a leader of Everlog [100; quick: 5].")
@click.option("--kafka-kills", type=click.IntRange(1), help="Kills of a leader of Kafka [20; quick: 5].")
@click.option("--only", multiple=True, type=click.Choice(_GROUPS), help="Groups of rows.")
@click.option("--brokers", default="everlog,kafka", show_default=True, help="Which clusters to run.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Where the samples are kept.")
@click.option("--chart", "chart_path", type=click.Path(path_type=Path), help="Draw the chart here.")
@click.option(
    "--render", type=click.Path(path_type=Path, exists=True), help="Run nothing; report on kept samples."
)
@click.option("--markdown", is_flag=True, help="Print the table for a document.")
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="Where the brokers keep their data."
)
@click.option("--quiet-timeout", default=30.0, show_default=True, help="Seconds to wait for a quiet machine.")
def main(
    quick: bool,
    repeats: int | None,
    kills: int | None,
    kafka_kills: int | None,
    only: tuple[str, ...],
    brokers: str,
    json_path: Path | None,
    chart_path: Path | None,
    render: Path | None,
    markdown: bool,
    directory: Path | None,
    quiet_timeout: float,
) -> None:
    """Compare a cluster of three brokers with one of Apache Kafka: replication 3, acks=all, two in sync.

    \b
    Examples:
      python -m bench.cluster --quick
      python -m bench.cluster --only failover --brokers everlog --kills 100
      python -m bench.cluster --render bench/results/2026-01-31-cluster-epyc.json --chart docs/img/cluster.svg
    """
    # Unwind on SIGTERM too: brokers must not outlive us, and samples taken so far are kept.
    signal.signal(signal.SIGTERM, _end)
    if render is not None:
        results = Results.load(render)
    else:
        kinds = _kinds(brokers)
        results = Results(
            machine=this_machine(),
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            command="python -m bench.cluster " + shlex.join(sys.argv[1:]),
            versions={kind.title: kind.version() for kind in kinds},
        )
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix="everlog-bench-", dir=directory))
        course = _Course(place, _PLANS[quick], repeats or (1 if quick else 5), quiet_timeout, results)
        counts = {
            EVERLOG.name: kills or (5 if quick else 100),
            KAFKA.name: kafka_kills or (5 if quick else 20),
        }
        try:
            course.run(kinds, only or _GROUPS, counts)
        finally:
            results.save(json_path or _default_path(results))
            shutil.rmtree(place, ignore_errors=True)
    print(report.markdown_table(results) if markdown else report.text_table(results))
    if chart_path is not None:
        chart_path.parent.mkdir(parents=True, exist_ok=True)
        chart_path.write_text(svg_chart(results))
    if results.failures:
        raise SystemExit(1)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _kinds(names: str) -> tuple[Kind, ...]:
    for name in names.split(","):
        if name not in KINDS:
            raise click.BadParameter(f"no broker is named {name!r}; there are {', '.join(KINDS)}")
    kinds = tuple(KINDS[name] for name in names.split(","))
    if KAFKA in kinds and isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        raise click.ClickException(f"Apache Kafka cannot be run here: {jars.reason} (try --brokers everlog)")
    return kinds


def _default_path(results: Results) -> Path:
    cpu = re.sub(r"[^a-z0-9]+", "-", results.machine.cpu.lower()).strip("-")
    return _ROOT / "bench" / "results" / f"{results.date}-cluster-{cpu}.json"


class _Course:
    """Takes the samples: the clusters in turn, each on a quiet machine, each repeat the same way."""

    def __init__(
        self, directory: Path, plan: Plan, repeats: int, quiet_timeout_s: float, results: Results
    ) -> None:
        self._directory = directory
        self._plan = plan
        self._repeats = repeats
        self._quiet_timeout_s = quiet_timeout_s
        self._results = results

    def run(self, kinds: tuple[Kind, ...], groups: tuple[str, ...], kills: dict[str, int]) -> None:
        rows = self._rows(groups)
        with ExitStack() as stack:
            _say("touching memory")
            stack.enter_context(closing(BackedMemory()))
            trios: list[Trio] = []
            for kind in kinds:
                _say(f"starting three brokers of {kind.title}")
                trios.append(stack.enter_context(Trio(kind, self._directory / kind.name)))
                if rows:
                    _say(f"warming {kind.title} up")
                    Load(trios[-1], self._plan).warm_up()
            for name, take in rows:
                for repeat in range(self._repeats):
                    for trio in trios:
                        self._sample(f"{name} {repeat + 1}/{self._repeats}", name, trio, trios, take)
            for group in ("failover", "failover.controller"):
                for trio in trios if group in groups else ():
                    take = partial(_failover, kills[trio.kind.name], group == "failover.controller")
                    self._sample(group, f"cluster.{group}", trio, trios, take)

    def _rows(self, groups: tuple[str, ...]) -> list[tuple[str, Callable[[Load], Values]]]:
        rows: list[tuple[str, Callable[[Load], Values]]] = []
        if "produce" in groups:
            rows += [(f"cluster.produce.{n}p", partial(Load.produce, partitions=n)) for n, _ in SHAPES]
        if "latency" in groups:
            rows += [(f"cluster.latency.{pace}", partial(Load.latency, pace=pace)) for pace in PACES]
        return rows

    def _sample(
        self, label: str, name: str, trio: Trio, trios: list[Trio], take: Callable[[Load], Values]
    ) -> None:
        try:
            ours = [pid for one in trios for pid in one.pids]
            before = wait_quiet(ours, QUIET_CORES, self._quiet_timeout_s)
            load = Load(trio, self._plan)
            foreign = ForeignCpu(trio.pids)
            values = take(load)
            # A broker that is killed takes its clock along: what others used just before must do then.
            cores = before if name.startswith("cluster.failover") else foreign.cores(load.loader_cpu_s)
            sample = Sample(name, trio.kind.name, values, cores, load.loader_cpu_s)
        except _FAILURES as failure:
            self._results.failures.append(f"{name} on {trio.kind.title}: {failure}")
            _say(f"FAILED {self._results.failures[-1]}")
            return
        self._results.samples.append(sample)
        figures = "  ".join(f"{value:,.4g}" for value in values.values())
        _say(f"{label:28} {trio.kind.name:8} {figures}  (foreign {sample.foreign_cores:.2f} cores)")


def _failover(kills: int, of_controller: bool, load: Load) -> Values:
    return failover(load.trio, kills, _say, of_controller=of_controller)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
