"""The compiled kernels are there where they could be built: nothing would fail without them."""

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.records.columns import columns_are_compiled
from everlog.records.rows import rows_are_compiled
from everlog.records.skim import kernel_is_loaded


def _cannot_build() -> str | None:
    if os.environ.get("EVERLOG_PURE_PYTHON", "") not in ("", "0"):
        return "EVERLOG_PURE_PYTHON asks for plain Python"
    compiler = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler.split()[0]) is None and shutil.which("cc") is None:
        return "there is no C compiler"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "Python's headers are not installed"
    return None


def test_where_there_is_a_compiler_the_kernels_are_built() -> None:
    """The installation goes on without them, and the tests of their compiled halves are skipped."""
    if (reason := _cannot_build()) is not None:
        pytest.skip(reason)

    assert {
        "records._kernel": kernel_is_loaded(),
        "records._rows": rows_are_compiled(),
        "records._columns": columns_are_compiled(),
        "broker._lanes": lanes_are_built(),
    } == dict.fromkeys(("records._kernel", "records._rows", "records._columns", "broker._lanes"), True)
