"""The README's short session, typed as it stands there: every command, and all that it prints.

Only the port differs, so that a broker which somebody has on 9092 is left alone.
"""

import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import environment

pytestmark = pytest.mark.e2e

README = Path(__file__).resolve().parents[2] / "README.md"
TIMEOUT_S = 60.0


def session() -> list[tuple[str, list[str]]]:
    """The commands of the session, each with the lines that it prints."""
    found = re.search(
        r"^## A short session\n+```console\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    steps: list[tuple[str, list[str]]] = []
    for line in found[1].splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return [(command, "\n".join(printed).rstrip().splitlines()) for command, printed in steps]


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], TIMEOUT_S)
    assert readable, f"nothing was printed within {TIMEOUT_S:.0f} s"
    return process.stdout.readline().rstrip("\n")


def test_the_short_session_prints_what_the_readme_shows(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "everlog"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m everlog.cli "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    environ = environment(PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    (start, ready), *others = session()
    assert start == "everlog up &"

    broker = subprocess.Popen(
        [str(program), "up", "--port", "0"], cwd=work, env=environ, stdout=subprocess.PIPE, text=True
    )
    try:
        said = first_line(broker)
        assert [re.sub(r":\d+$", ":9092", said)] == ready
        environ["EVERLOG_BOOTSTRAP"] = said.removeprefix("ready bootstrap=")
        for command, printed in others:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=work,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT_S,
            )
            assert [line.rstrip() for line in done.stdout.splitlines()] == printed, f"$ {command}"
            assert done.returncode == 0, f"$ {command}"
        assert len(others) >= 4
        broker.terminate()
        assert broker.wait(TIMEOUT_S) == 0
    finally:
        broker.kill()
        broker.wait()
