"""`python -m bench.spark`: run the jobs in turn, print the tables, keep the samples."""

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import click

from bench.brokers import EVERLOG, Broker
from bench.machine import (
    QUIET_CORES,
    in_quiet,
    machine_cpu_s,
    process_cpu_s,
    this_machine,
    wait_quiet,
)
from bench.memory import BackedMemory
from bench.runner import free_port_pair
from bench.spark import report
from bench.spark.jobs import JOBS, Job
from bench.spark.place import Place, peer_versions
from bench.spark.samples import Latency, Rate, Results

_ROOT = Path(__file__).resolve().parents[2]
_FULL, _QUICK = 3_000_000, 800_000
"""Rows of 100 bytes in a sample; of larger ones there are fewer."""
_WARM_UPS = 2
_CORES = 2
"""As many partitions have the topics of a latency: each is a task."""
_PULSE = (50.0, 10.0, 20.0)
"""Records a second, seconds that are not counted, seconds that are."""
_PULSE_LIMIT_S = 240.0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="A quarter of the rows and two repeats: some minutes.")
@click.option("--repeats", type=click.IntRange(1), help="Samples of each job [5; quick: 2].")
@click.option("--only", multiple=True, metavar="TEXT", help="Jobs whose name contains this.")
@click.option("--size", "sizes", multiple=True, type=int, help="Bytes of a value [100 and 1000].")
@click.option("--records", type=click.IntRange(1000), help="Rows of 100 bytes in a sample [3 million].")
@click.option("--settings", multiple=True, metavar="KEY=VALUE", help="Settings of Spark's session.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Where the samples are kept.")
@click.option(
    "--render", type=click.Path(path_type=Path, exists=True), help="Run nothing; report on kept samples."
)
@click.option("--quiet-timeout", default=30.0, show_default=True, help="Seconds to wait for a quiet machine.")
@click.option("--check", is_flag=True, help="Exit with 1 if a goal is missed, or a sample was not quiet.")
def main(
    quick: bool,
    repeats: int | None,
    only: tuple[str, ...],
    sizes: tuple[int, ...],
    records: int | None,
    settings: tuple[str, ...],
    json_path: Path | None,
    render: Path | None,
    quiet_timeout: float,
    check: bool,
) -> None:
    """Compare our source and sink of Spark with Spark's own connector for Kafka, on Everlog.

    \b
    Examples:
      python -m bench.spark --quick
      python -m bench.spark --only read --size 100 --repeats 7 --json spark.json
    """
    if render is not None:
        print(report.text_tables(Results.load(render)))
        return
    jobs = [job for job in JOBS if not only or any(text in job.name for text in only)]
    results = _new_results()
    _say("touching memory")
    with tempfile.TemporaryDirectory(prefix="everlog-spark-") as directory, closing(BackedMemory()):
        folder = Path(directory)
        with Broker(EVERLOG, port := free_port_pair(), folder / f"everlog-{port}") as broker:
            broker.wait_listening()
            place = Place(f"127.0.0.1:{port}", folder, dict(setting.split("=", 1) for setting in settings))
            if place.jvm_reason is not None:
                _say(f"without Spark's own connector: {place.jvm_reason}")
                jobs = [job for job in jobs if job.format != "kafka"]
            course = Course(
                place,
                broker,
                results,
                repeats or (2 if quick else 5),
                records or (_QUICK if quick else _FULL),
                quiet_timeout,
            )
            try:
                for size in sizes or (100, 1000):
                    course.read([job for job in jobs if job.kind == "read"], size)
                    course.write([job for job in jobs if job.kind == "write"], size)
                course.latency([job for job in jobs if job.kind == "latency"])
            finally:
                place.close()
                if json_path is not None:
                    results.save(json_path)
    print(report.text_tables(results))
    if results.failures or (check and (results.noisy()[0] or report.missed(results))):
        raise SystemExit(1)


class Course:
    """Takes samples, the jobs in turn."""

    def __init__(
        self, place: Place, broker: Broker, results: Results, repeats: int, rows: int, quiet_timeout_s: float
    ) -> None:
        self._place = place
        self._broker = broker
        self._results = results
        self._repeats = repeats
        self._rows = rows
        self._quiet_timeout_s = quiet_timeout_s

    def read(self, jobs: list[Job], size: int) -> None:
        """Rates of jobs that read one topic to nowhere."""
        if not jobs:
            return
        place, count = self._place, self._count(size)
        with place.topic() as topic:
            place.fill(topic, count, size)
            for job in jobs:
                found = place.frame(job, topic).count()
                assert found == count, f"{job.name}: {found} rows, expected {count}"
            for repeat in range(-_WARM_UPS, self._repeats):
                for job in jobs:
                    self._rate(job, size, repeat, count, partial(place.read, job, topic))
            place.drop(topic)

    def write(self, jobs: list[Job], size: int) -> None:
        """Rates of jobs that write rows, each to a new topic."""
        place, count = self._place, self._count(size)
        for repeat in range(-_WARM_UPS, self._repeats):
            for job in jobs:
                with place.topic() as topic:
                    self._rate(
                        job,
                        size,
                        repeat,
                        count,
                        partial(place.write, job, topic, count, size),
                    )
                    # Once is enough: whoever loses rows does so the first time, too.
                    if repeat == -_WARM_UPS and job.format != "noop":
                        found = place.count(topic)
                        assert found == count, f"{job.name}: {found} records were written, expected {count}"

    def latency(self, jobs: list[Job]) -> None:
        """Latencies of queries from topic to topic."""
        if jobs:
            self._place.turn_to_latency()
        for repeat in range(self._repeats if jobs else 0):
            for job in jobs:
                with self._place.topic(_CORES) as source, self._place.topic(_CORES) as target:
                    self._wait_quiet()
                    before, began = self._used(), time.perf_counter()
                    with self._place.query(job, source, target) as query:
                        cpu_before, batch_before = self._place.cpu_s(), query.lastProgress["batchId"]
                        took = self._pulse(job, source, target)
                        cpu_s = self._place.cpu_s() - cpu_before
                        batches = max(1, query.lastProgress["batchId"] - batch_before)
                        if query.exception() is not None:
                            raise RuntimeError(str(query.exception()))
                    foreign = self._foreign(before, began)
                latency = Latency(
                    job.name,
                    repeat,
                    len(took),
                    float(f"{statistics.median(took):.4g}"),
                    float(f"{statistics.quantiles(took, n=100)[98]:.4g}"),
                    foreign,
                    float(f"{cpu_s / batches * 1000:.4g}"),
                )
                self._results.latencies.append(latency)
                _say(
                    f"{job.name:48} p50 {latency.p50_ms:8.1f} ms  p99 {latency.p99_ms:8.1f} ms"
                    f"  {latency.cpu_ms_a_batch:6.1f} CPU ms a batch"
                )

    def _pulse(self, job: Job, source: str, target: str) -> list[float]:
        isolation = "read_committed" if job.guarantee == "exactly_once" else "read_uncommitted"
        figures = [str(figure) for figure in _PULSE]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "bench.spark.pulse",
                self._place.bootstrap,
                source,
                target,
                *figures,
                isolation,
            ],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=_PULSE_LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{job.name}: {done.stderr.strip()[-1500:]}")
        took: list[float] = json.loads(done.stdout)
        return took

    def _rate(self, job: Job, size: int, repeat: int, count: int, run: Callable[[], object]) -> None:
        def take() -> Rate:
            self._wait_quiet()
            before, cpu_before, began = self._used(), self._place.cpu_s(), time.perf_counter()
            run()
            seconds, cpu_s = time.perf_counter() - began, self._place.cpu_s() - cpu_before
            rate = Rate(
                job.name,
                size,
                repeat,
                count,
                float(f"{count / seconds:.5g}"),
                float(f"{cpu_s / count * 1e6:.5g}"),
                self._foreign(before, began),
            )
            _say(
                f"{size:5} B  {job.name:48} {'warm' if repeat < 0 else f'{repeat + 1}/{self._repeats}'} "
                f"{rate.rows_per_s:>12,.0f} rows/s {rate.cpu_s_per_million:8.3f} CPU s/million"
                f"  (foreign {rate.foreign_cores:.2f} cores)"
            )
            return rate

        if repeat < 0:
            take()
        else:
            self._results.rates.append(in_quiet(take, lambda rate: rate.foreign_cores))

    def _count(self, size: int) -> int:
        return self._rows if size < 500 else self._rows // 4

    def _wait_quiet(self) -> None:
        wait_quiet([*self._broker.pids], QUIET_CORES, self._quiet_timeout_s)

    def _used(self) -> float:
        """CPU seconds of all on the machine that is not ours."""
        ours = self._place.cpu_s() + sum(process_cpu_s(pid) for pid in self._broker.pids)
        return machine_cpu_s() - ours

    def _foreign(self, before: float, began: float) -> float:
        return float(f"{max(0.0, (self._used() - before) / (time.perf_counter() - began)):.3g}")


def _new_results() -> Results:
    return Results(
        machine=this_machine(),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        command="python -m bench.spark " + shlex.join(sys.argv[1:]),
        versions={
            "Everlog": EVERLOG.version(),
            **{name: version(name) for name in ("pyspark", "pyarrow")},
            **peer_versions(),
        },
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
