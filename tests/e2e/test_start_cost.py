"""What a broker does before it serves, by counts that do not depend on the machine.

A start is nearly all Python's own work: modules, classes, functions that are compiled. Who adds to it without
need finds out here, and who needs more raises a limit knowingly: of these, 100 modules take about 50 ms.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.e2e

SOURCE = str(Path(__file__).resolve().parents[2] / "src")

PROGRAM = """
import gc, json, os, signal, sys

calls = compiled = 0

def called(frame, event, argument):
    global calls
    calls += event == "call"

def heard(event, arguments):
    global compiled
    compiled += event == "compile" and arguments[1] == "<string>"

sys.addaudithook(heard)
sys.setprofile(called)
from everlog.cli import up
from everlog.cli.main import main

def announce(bootstrap):
    sys.setprofile(None)
    collections = gc.get_stats()[1]["collections"]
    print(json.dumps([sorted(sys.modules), calls, compiled, collections]), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

up.announce = announce
main(["up", "--port", "0", "--dir", sys.argv[1]])
"""


class Start(NamedTuple):
    """A start up to the moment at which clients are served."""

    modules: list[str]
    calls: int
    compiled: int
    """Functions written at run time: of dataclasses, named tuples and messages."""
    collections: int
    """Of what has lived through one already: nearly all there is."""

    @property
    def ours(self) -> list[str]:
        return [name for name in self.modules if name.startswith("everlog.")]


def start(directory: Path) -> Start:
    """Run `everlog up` until it serves, then end it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return Start(*json.loads(done.stdout))


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Start, Start]:
    """In a directory that is not there yet, and after a clean stop."""
    directory = tmp_path_factory.mktemp("start") / "data"
    return start(directory), start(directory)


def test_a_start_loads_and_does_no_more_than_it_did(starts: tuple[Start, Start]) -> None:
    for one in starts:
        assert len(one.ours) <= 272, one.ours
        assert len(one.modules) <= 462, one.modules
        assert one.compiled <= 215
        assert one.calls <= 85_000
        assert one.collections <= 4


def test_a_start_loads_nothing_that_only_others_need(starts: tuple[Start, Start]) -> None:
    for one in starts:
        unneeded = [
            name
            for name in one.ours
            if name.startswith(
                (
                    "everlog.chaos",
                    "everlog.cli.output",
                    "everlog.cli.up_cluster",
                    "everlog.client",
                    "everlog.coordinator.group",
                    "everlog.coordinator.txn.joining",
                    "everlog.edge.links",
                    "everlog.embedded",
                    "everlog.log.compaction_run",
                    "everlog.raft.transport",
                    "everlog.raft.wire",
                    "everlog.sim",
                    "everlog.values",
                )
            )
        ]
        assert not unneeded
        assert not {"difflib", "hashlib", "rich", "tempfile"} & set(one.modules)
