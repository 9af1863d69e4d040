import subprocess
import sys
from pathlib import Path

import pytest

from everlog.spark.quick_python import NAME, use_quick_python


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **more}


def test_the_script_takes_the_archive_of_pyspark_away_and_nothing_else(tmp_path: Path) -> None:
    found = environment(tmp_path)
    use_quick_python("local[2]", found)
    assert Path(found["PYSPARK_PYTHON"]).name == NAME
    assert found["PYSPARK_DRIVER_PYTHON"] == found["PYSPARK_PYTHON"]

    given = "/spark/python/lib/pyspark.zip:/a b/c*:/spark/python/lib/py4j-src.zip:/d"
    done = subprocess.run(
        [
            found["PYSPARK_PYTHON"],
            "-c",
            "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:])",
            "x y",
        ],
        env=environment(tmp_path, PYTHONPATH=given),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["/a b/c*:/spark/python/lib/py4j-src.zip:/d", "['x y']"]


def test_the_script_runs_this_python(tmp_path: Path) -> None:
    found = environment(tmp_path)
    use_quick_python("local[2]", found)
    done = subprocess.run(
        [found["PYSPARK_PYTHON"], "-c", "import sys, pyspark; print(sys.executable)"],
        env=found,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == sys.executable


def test_a_python_of_the_users_choice_stays(tmp_path: Path) -> None:
    found = environment(tmp_path, PYSPARK_PYTHON="/opt/python")
    use_quick_python("local[2]", found)
    assert found["PYSPARK_PYTHON"] == "/opt/python"
    assert Path(found["PYSPARK_DRIVER_PYTHON"]).name == NAME


def test_workers_elsewhere_get_the_python_itself_also_after_a_session_here(tmp_path: Path) -> None:
    found = environment(tmp_path)
    use_quick_python("local[2]", found)
    use_quick_python("spark://10.0.0.5:7077", found)
    assert found["PYSPARK_PYTHON"] == sys.executable


def test_another_spark_than_that_of_pip_is_left_alone(tmp_path: Path) -> None:
    found = environment(tmp_path, SPARK_HOME="/opt/spark")
    use_quick_python("local[2]", found)
    assert found["PYSPARK_PYTHON"] == sys.executable


def test_without_a_home_it_works_as_before(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("no directory")
    found = environment(tmp_path)
    use_quick_python("local[2]", found)
    assert found["PYSPARK_PYTHON"] == found["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.parametrize("name", ["Jo Smith", "jo's", "a$b", "a;b"])
def test_a_home_whose_name_a_shell_takes_apart_has_no_script(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    found = environment(tmp_path / name)
    use_quick_python("local[2]", found)
    assert found["PYSPARK_PYTHON"] == found["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_a_home_with_an_umlaut_has_a_script(tmp_path: Path) -> None:
    (tmp_path / "jürgen#2").mkdir()
    found = environment(tmp_path / "jürgen#2")
    use_quick_python("local[2]", found)
    assert Path(found["PYSPARK_DRIVER_PYTHON"]).name == NAME


def test_a_script_where_all_may_write_is_not_run(tmp_path: Path) -> None:
    found = environment(tmp_path)
    use_quick_python("local[2]", found)
    (tmp_path / ".cache" / "everlog").chmod(0o777)
    found = environment(tmp_path)

    use_quick_python("local[2]", found)

    assert found["PYSPARK_PYTHON"] == found["PYSPARK_DRIVER_PYTHON"] == sys.executable
