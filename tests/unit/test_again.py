"""Tests that failed are run once more by themselves; whoever fails twice has failed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import again

UNSTEADY = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("sign", ["@", "]"])
@pytest.mark.xdist_group("pair")
def test_unsteady(sign):
    mark = Path(__file__).with_name(f"ran{ord(sign)}")
    ran_before = mark.exists()
    mark.touch()
    assert ran_before

def test_steady():
    pass
"""


def first_run(root: Path, tests: str, *options: str, ends_as: int = 1) -> None:
    (root / "test_them.py").write_text(tests)
    (root / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.again", *options]
    environ = {**os.environ, "PYTHONPATH": str(Path(again.__file__).parents[1])}
    done = subprocess.run(command, cwd=root, env=environ, stdout=subprocess.DEVNULL, timeout=120)
    assert done.returncode == ends_as


def test_what_passes_alone_is_named_and_fails_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first_run(tmp_path, UNSTEADY, "-n", "2", "--dist", "loadgroup")

    assert again.main(tmp_path) == 0

    said = capfd.readouterr()
    assert "2 passed" in said.out
    assert "not steady" in said.err
    assert "test_them.py::test_unsteady[@]\n" in said.err


def test_what_fails_again_has_failed(tmp_path: Path) -> None:
    first_run(tmp_path, UNSTEADY + "\ndef test_broken():\n    assert False\n")

    assert again.main(tmp_path) == 1


def test_many_are_not_run_again(tmp_path: Path) -> None:
    failing = "def test_{0}():\n    open('again{0}', 'x').close()\n    assert False\n"
    first_run(tmp_path, "".join(map(failing.format, range(again.MOST + 1))))
    for made in tmp_path.glob("again*"):
        made.unlink()

    assert again.main(tmp_path) == 1
    assert not list(tmp_path.glob("again*"))


def test_a_run_that_was_cut_off_has_failed(tmp_path: Path) -> None:
    cut_off = "\ndef test_the_last():\n    raise KeyboardInterrupt\n"
    first_run(tmp_path, UNSTEADY + cut_off, ends_as=2)

    assert again.main(tmp_path) == 1


def test_no_run_is_no_success(tmp_path: Path) -> None:
    assert again.main(tmp_path) == 1
