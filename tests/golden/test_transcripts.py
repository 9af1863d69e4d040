"""Transcripts: commands as a user types them, and all that the program answers.

A transcript is a text of commands, each after a `$`, and what they print, stdout and stderr in one. An
exit code other than 0 stands behind it in brackets. Lines that begin with `#` are for the reader. Each
transcript has a directory and, if it needs one, a broker of its own. What differs from run to run is
replaced by a word in capitals.
"""

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import brokers
from tests.e2e.program import environment

pytestmark = pytest.mark.e2e

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
NEEDS_NO_BROKER = {"help", "usage"}

_VOLATILE = [
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])"), "ID"),
    (re.compile(r'"timestamp": \d{13}'), '"timestamp": TIME'),
    (re.compile(r"(?<=\()127\.0\.0\.1:\d+(?=\))"), "ADDRESS"),
    (re.compile(r'"port": \d+'), '"port": PORT'),
    (re.compile(r"(?<= )3\.\d+\.\d+$", re.M), "PYTHON"),
]


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Generator[dict[str, str]]:
    """The environment of a shell in which `everlog` is our program, with a broker where one is needed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "everlog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m everlog.cli "$@"\n')
    program.chmod(0o755)
    environ = {**environment(COLUMNS="100"), "PATH": f"{programs}:{os.environ['PATH']}"}
    (tmp_path / "work").mkdir()
    if request.node.callspec.id in NEEDS_NO_BROKER:
        yield environ
        return
    broker = brokers.start_up(tmp_path / "work" / "data", tmp_path / "stderr")
    try:
        yield {**environ, "EVERLOG_BOOTSTRAP": broker.bootstrap}
    finally:
        broker.stop()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_the_program_answers_as_the_transcript_says(
    path: Path, shell: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    expected = path.read_text()

    found = _replay(expected, shell, tmp_path / "work")

    if request.config.getoption("--rewrite", default=False):
        path.write_text(found)
    assert found == expected or request.config.getoption("--rewrite", default=False), (
        f"{path.name} differs; `pytest tests/golden --rewrite` writes it anew\n{found}"
    )


def _replay(transcript: str, environ: dict[str, str], directory: Path) -> str:
    """Run the commands of a transcript in order and return the transcript that they make."""
    written: list[str] = []
    for line in transcript.splitlines():
        if line.startswith("#"):
            written.append(line)
        elif line.startswith("$ "):
            written += [line, *_run(line[2:], environ, directory)]
    return "\n".join(written) + "\n"


def _run(command: str, environ: dict[str, str], directory: Path) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    output = done.stdout.replace(str(directory), "DIR")
    for pattern, word in _VOLATILE:
        output = pattern.sub(word, output)
    lines = [line.rstrip() for line in output.splitlines()]
    return lines if done.returncode == 0 else [*lines, f"[exit {done.returncode}]"]
