"""The process of a run: what its parent hears when it fails or dies, and that nothing of it is left."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from everlog.pipelines.declared import PassWanted
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


def test_the_process_of_the_declared_flows_ends_in_mid_pass_with_the_one_that_started_it(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "everlog.pipelines.declared"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        unanswered = socket.create_server(("127.0.0.1", 0))
        unanswered.settimeout(120)
        wanted = PassWanted(
            1, unanswered.getsockname()[1], str(tmp_path / "spark-pipeline.yml"), {"a": "b"}, {}
        )
        process.stdin.write(json.dumps(asdict(wanted)).encode() + b"\n")
        process.stdin.flush()
        connection, _ = unanswered.accept()

        process.stdin.close()

        assert process.wait(60) == 0
    connection.close()
    unanswered.close()
