"""A few kills of jobs into tables, on the tests' session; `tests.spark.kills` has more (D2, D6)."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import NewTopic
from tests.spark.kills_table.job import run
from tests.spark.kills_table.scene import Scene


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("table_format", "mode", "moment"),
    [
        ("parquet", "append", "mid-write"),
        ("iceberg", "append", "commit-planned"),
        ("delta", "upsert", "commit-made"),
        ("parquet", "rows", "commit-made"),
    ],
)
def test_each_input_is_in_the_table_once_after_a_kill(
    spark: Any,
    everlog_bootstrap: str,
    new_topic: NewTopic,
    tmp_path: Path,
    table_format: str,
    mode: str,
    moment: str,
) -> None:
    scene = Scene.on(everlog_bootstrap, tmp_path, new_topic(partitions=2), table_format, mode)
    scene.feed(90)
    scene.order(moment, ["self"])

    said = run(spark, scene.job, 60)

    assert said is not None
    assert scene.fired()
    assert run(spark, scene.job, 60) is None
    assert scene.problem() is None


def test_tables_of_a_query_in_small_hold_each_row_once_after_kills() -> None:
    # By itself: it forks, which delta-rs does not allow a process that has used it.
    command = [sys.executable, "-m", "tests.spark.kills_table", "--kills", "20", "--seed", "7"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=280)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("20 kills, 9 tables without a JVM, 0 wrong"), done.stdout


def test_a_row_that_is_lost_in_a_table_is_told_and_the_files_are_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.kills_table", "--kills", "1", "--lose-row", "0"]

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, env={**os.environ, "TMPDIR": str(tmp_path)}
    )

    assert done.returncode == 1, done.stdout + done.stderr
    # A row of an upsert table that a later one replaces is missed by nobody.
    assert {line for line in done.stdout.splitlines() if "append" in line} == {
        f"WRONG {form} append: 1 missing, 0 twice" for form in ("parquet", "iceberg", "delta")
    }
    (kept,) = tmp_path.glob("everlog-kills-table-*")
    assert f"all files are kept in {kept}" in done.stdout
