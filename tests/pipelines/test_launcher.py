"""The process of a run: what its parent hears when it fails or dies, and that nothing of it is left."""

import os
import signal
from pathlib import Path

from everlog.pipelines.events import RunEnded
from everlog.pipelines.launcher import RunProcess
from everlog.pipelines.runner import Job


def a_job(spec: Path) -> Job:
    return Job(str(spec), "local[1]", {}, {}, [], [])


def test_a_project_that_went_away_ends_the_run_with_its_problem(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"

    with RunProcess(a_job(tmp_path / "spark-pipeline.yml"), log) as process:
        *_, ended = process.events()

    assert isinstance(ended, RunEnded)
    assert ended.problem is not None
    assert "spark-pipeline.yml" in ended.problem
    assert "Traceback" in (ended.detail or "")
    assert "Traceback" in log.read_text()


def test_a_process_that_is_killed_is_told_as_such_and_leaves_nothing(tmp_path: Path) -> None:
    with RunProcess(a_job(tmp_path / "spark-pipeline.yml"), tmp_path / "spark.log") as process:
        os.kill(process.pid, signal.SIGKILL)
        *_, ended = process.events()

    assert isinstance(ended, RunEnded)
    assert ended.problem == "the process that runs Spark was killed by SIGKILL before the run was over"
    assert not _lives(process.pid)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
