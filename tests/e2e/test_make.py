"""The Makefile's environment where Python's own venv does not work, as on Debian without python3-venv."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

MAKEFILE = Path(__file__).parents[2] / "Makefile"
AS_ON_DEBIAN = """#!/bin/sh
if [ "$1" = -m ] && [ "$2" = venv ]; then
    {python} -m venv --without-pip "$3"
    echo "The virtual environment was not created successfully because ensurepip is not available."
    exit 1
fi
exec {python} "$@"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with our Makefile, and a `python` whose venv stops half way."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    shutil.copy(MAKEFILE, tmp_path / "Makefile")
    python = tmp_path / "python"
    python.write_text(AS_ON_DEBIAN.format(python=sys.executable))
    python.chmod(0o755)
    return tmp_path


def make(place: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["make", "PYTHON=./python", ".venv/bin/python"],
        cwd=place,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_virtualenv_takes_its_place(place: Path) -> None:
    fetched = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", "found", "virtualenv"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if fetched.returncode != 0:
        pytest.skip(f"pip cannot fetch virtualenv here: {fetched.stderr.strip()[-200:]}")

    made = make(place)

    assert made.returncode == 0, made.stdout + made.stderr
    asked = subprocess.run(
        [place / ".venv" / "bin" / "python", "-m", "pip", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert str(place / ".venv") in asked.stdout
    # What was fetched for it lies in a directory that `make clean` removes.
    assert (place / ".work" / "virtualenv" / "virtualenv").is_dir()


def test_where_neither_works_it_says_so_and_leaves_nothing_half_made(place: Path) -> None:
    made = make(place, PIP_NO_INDEX="1")

    assert made.returncode != 0
    assert "ensurepip is not available" in made.stderr
    assert "No matching distribution found for virtualenv" in made.stderr
    assert "No environment can be made with ./python" in made.stderr
    # A half of it would be taken for the whole by the next make.
    assert not (place / ".venv").exists()
