"""pip installs Everlog where there is no compiler, and what it installs serves (L1)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
OF_A_BUILD = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")

ROUND_TRIP = """
import json

import everlog
from tests.client.round_trip import main

with everlog.Cluster(processes=True, settings={"num.partitions": 2}) as cluster:
    found = main(cluster.bootstrap_servers, "there-and-back")
print(json.dumps({"home": everlog.__file__, **found}))
"""


def test_without_a_compiler_pip_succeeds_and_records_go_there_and_back(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(ROOT / "src", source / "src", ignore=OF_A_BUILD)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)

    # Nothing from an index: the setuptools that builds it is the one of this environment.
    alone = ["--no-build-isolation", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "install", *alone, "--target", target, source],
        env={**os.environ, "CC": "/bin/false", "CXX": "/bin/false", "LDSHARED": "/bin/false"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert installed.returncode == 0, installed.stdout + installed.stderr
    assert not list(tmp_path.rglob("*.so"))
    # All but what a compiler reads: templates, the Java for Spark, and the packages that it finds by name.
    wanted = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and path.suffix not in {".c", ".h", ".so", ".pyc"} and "egg-info" not in str(path)
    }
    assert wanted >= {
        "pyspark_everlog/__init__.py",
        "pyspark_everlog_table/__init__.py",
        "everlog/pipelines/templates/README.md",
        "everlog/pipelines/templates/starter/data/orders.py",
        "everlog/pipelines/templates/starter/transformations/revenue.sql",
        "everlog/spark/columnar/ColumnarRule.java",
    }
    assert {path for path in wanted if not (target / path).is_file()} == set()

    done = subprocess.run(
        [sys.executable, "-c", ROUND_TRIP],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert Path(found["home"]).is_relative_to(target)
    assert found["compiled"] == [False] * 4
    rows = [[str(number), f"row {number}", str(number)] for number in range(100)]
    sent = [*rows, [None, "without a key"], ["c", "column 1"], [None, "column 2"]]
    assert sorted(found["poll"], key=str) == sorted(found["poll_arrow"], key=str) == sorted(sent, key=str)
