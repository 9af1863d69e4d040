"""The benchmark of Spark: what is made of samples, and that a job's cost has its ended processes in it."""

import subprocess
import sys
from pathlib import Path

from bench.machine import this_machine
from bench.spark import report
from bench.spark.cost import JobCost
from bench.spark.jobs import JVM, OURS, PARQUET, READY
from bench.spark.place import jar_versions
from bench.spark.samples import Latency, Rate, Results

READ, READ_JVM, READ_PARQUET = f"read, {OURS}", f"read, {JVM}", f"read, {PARQUET}"


def a_rate(job: str, repeat: int, rows_per_s: float, cpu: float = 1.0, foreign: float = 0.0) -> Rate:
    return Rate(job, 100, repeat, 1000, rows_per_s, cpu, foreign)


def a_run(*rates: Rate, latencies: tuple[Latency, ...] = ()) -> Results:
    return Results(this_machine(), "2026-01-31", "python -m bench.spark", {}, [*rates], [*latencies])


def test_the_peer_is_named_by_its_jars() -> None:
    jars = ("commons-pool2-2.13.1.jar", "kafka-clients-3.9.2.jar", "spark-sql-kafka-0-10_2.13-4.2.0.jar")

    assert jar_versions(Path("libs") / jar for jar in jars) == {
        "kafka-clients": "3.9.2",
        "spark-sql-kafka-0-10_2.13": "4.2.0",
    }


def test_a_ratio_is_that_of_runs_of_the_same_repeat() -> None:
    results = a_run(
        a_rate(READ, 0, 300.0, cpu=1.0),
        a_rate(READ_JVM, 0, 100.0, cpu=2.0),
        a_rate(READ, 1, 50.0, cpu=2.0),
        a_rate(READ_JVM, 1, 100.0, cpu=2.0),
        a_rate(READ, 2, 1e9),  # Its neighbour failed.
    )

    faster, thriftier = results.ratio(100, READ, READ_JVM), results.cpu_ratio(100, READ, READ_JVM)

    assert faster is not None
    assert thriftier is not None
    assert (faster.least, faster.median, faster.most) == (0.5, 1.75, 3.0)
    assert (thriftier.least, thriftier.most) == (1.0, 2.0)
    assert results.ratio(1000, READ, READ_JVM) is None


def test_what_is_missed_is_said_in_words() -> None:
    slow = Latency(f"latency exactly once, {OURS}", 0, 1000, 151.0, 300.0, 0.0)
    theirs = Latency(f"latency at least once, {JVM}", 0, 1000, 900.0, 999.0, 0.0)
    results = a_run(
        a_rate(READ, 0, 100.0),
        a_rate(READ_JVM, 0, 99.0),
        a_rate(READ_PARQUET, 0, 200.0),
        latencies=(slow, theirs),
    )

    assert report.missed(results) == [
        f"{READ} is 0.50x {READ_PARQUET} at 100 B, floor 0.7x",
        f"latency exactly once, {OURS}: half of the records need 151 ms, limit 150 ms",
    ]
    assert "BELOW THE FLOOR" in report.text_tables(results)
    assert "PROVISIONAL" not in report.text_tables(results)


def test_what_only_tells_how_much_can_be_reached_has_no_floor_to_miss() -> None:
    results = a_run(a_rate(f"read, {READY}", 0, 100.0), a_rate(READ_PARQUET, 0, 200.0))

    assert report.missed(results) == []
    assert "0.50x" in report.text_tables(results)
    assert "FLOOR" not in report.text_tables(results)


def test_samples_beside_a_busy_neighbour_are_told() -> None:
    results = a_run(a_rate(READ, 0, 1.0), a_rate(READ, 1, 1.0, foreign=1.5))

    assert results.noisy() == (1, 2)
    assert "PROVISIONAL: 1 of 2 samples" in report.text_tables(results)


def test_results_come_back_as_they_were_saved(tmp_path: Path) -> None:
    results = a_run(a_rate(READ, 0, 1.0), latencies=(Latency("x", 0, 1, 1.0, 2.0, 0.0),))

    results.save(tmp_path / "results.json")

    assert Results.load(tmp_path / "results.json") == results


def test_the_cost_of_a_job_has_its_ended_processes_in_it() -> None:
    """Also those whose parent ignores their end, as Spark's daemon does."""
    work = "import time\nwhile time.process_time() < 1.0: pass\n"
    parent = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {work!r}])\n"
        "child.wait()\nprint(flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as root:
        cost = JobCost(root.pid)
        assert root.stdout is not None
        root.stdout.readline()
        used = cost.cpu_s()
        cost.close()
        root.communicate()

    assert used >= 0.6
