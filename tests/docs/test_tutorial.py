"""The tutorial's commands run, in order, as one shell session against a broker of its own, with a real Spark.

`<!-- not run: why -->` stands before what is left out, `<!-- file: path -->` before what is written to a
file. Lines below a command that begin without `$` are what it prints, if the command is followed by some.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import everlog

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>not run|file): (?P<what>[^\n]*?) -->\n)?"
    r"```(?P<kind>console|python)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("pipeline")
def test_the_tutorial_runs(tmp_path: Path, java_for_runs: dict[str, str]) -> None:
    ran = 0
    with everlog.Cluster(processes=True) as cluster:
        environment = {
            **os.environ,
            **java_for_runs,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "EVERLOG_BOOTSTRAP": cluster.bootstrap_servers,
        }
        for block in _BLOCK.finditer(TUTORIAL.read_text()):
            if block["note"] == "not run":
                continue
            if block["note"] == "file":
                (tmp_path / block["what"]).write_text(block["text"])
                continue
            assert block["kind"] == "console", block["text"]
            for command, printed in commands(block["text"]):
                done = subprocess.run(
                    command,
                    shell=True,
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=280,
                )
                assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
                if printed:
                    assert done.stdout.splitlines() == printed, command
                ran += 1
        with everlog.Admin(cluster.bootstrap_servers) as admin:
            assert {entry.lag for entry in admin.group_lag("large-orders")} == {0}
    assert ran >= 12
