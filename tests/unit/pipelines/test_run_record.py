import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from everlog.model.errors import ConfigError
from everlog.pipelines.project import Project
from everlog.pipelines.run_record import RunRecord, only_run, read_record, running_process, write_record


def a_project(root: Path) -> Project:
    return Project(root, root / "spark-pipeline.yml", "shop", (root / "storage").as_uri(), ())


def test_a_second_run_is_refused_with_the_first_ones_process(tmp_path: Path) -> None:
    project = a_project(tmp_path)

    with only_run(project):
        assert running_process(project) == os.getpid()
        with (
            pytest.raises(ConfigError, match=f"'shop' is running already, as process {os.getpid()}"),
            only_run(project),
        ):
            pass

    assert running_process(project) is None
    with only_run(project):
        pass


def test_a_run_whose_command_was_killed_is_waited_for_until_it_has_ended(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    reading, writing = os.pipe()
    code = (
        "import os, pathlib, subprocess\n"
        "from tests.unit.pipelines.test_run_record import *\n"
        f"with only_run(a_project(pathlib.Path({str(tmp_path)!r}))) as lock:\n"
        f"    subprocess.Popen(['cat'], stdin={reading}, pass_fds=[lock])\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, pass_fds=[reading])
    os.close(reading)
    assert running_process(project) is not None
    told = threading.Event()

    def end() -> None:
        told.set()
        os.close(writing)

    threading.Timer(0.2, end).start()
    with only_run(project):
        assert told.is_set()
        assert running_process(project) == os.getpid()


def test_a_run_whose_process_died_is_not_shown_as_running(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    code = (
        "import os, pathlib\n"
        "from tests.unit.pipelines.test_run_record import *\n"
        f"project = a_project(pathlib.Path({str(tmp_path)!r}))\n"
        "with only_run(project):\n"
        "    write_record(project, RunRecord('running', 'local', 'h:1', 5))\n"
        "    os.kill(os.getpid(), 9)\n"
    )

    subprocess.run([sys.executable, "-c", code], check=False)

    record = read_record(project)
    assert record is not None
    assert (record.state, record.problem) == ("failed", "its process is gone")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    assert read_record(project) is None
    record = RunRecord("completed", "local", "h:1", 5, 9, 1, None, [{"flow": "a", "rows_in": 3}])

    with only_run(project):
        write_record(project, record)

    assert read_record(project) == record
