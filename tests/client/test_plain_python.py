"""Clients without the compiled kernels: the same records, by Python alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.client.conftest import NewTopic

ROOT = Path(__file__).parents[2]


def test_records_and_columns_go_there_and_back_without_the_kernels(
    bootstrap: str, new_topic: NewTopic
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.round_trip", bootstrap, new_topic(2)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "EVERLOG_PURE_PYTHON": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)

    rows = [[str(number), f"row {number}", str(number)] for number in range(100)]
    sent = [*rows, [None, "without a key"], ["c", "column 1"], [None, "column 2"]]
    assert read["compiled"] == [False] * 4
    assert sorted(read["poll"], key=str) == sorted(sent, key=str)
    assert sorted(read["poll_arrow"], key=str) == sorted(sent, key=str)
