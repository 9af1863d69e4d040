"""A few kilobytes that unpack to half a gigabyte are refused in little more memory than their bound (O5)."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.unit.records.bombs import BOMBS, MAX_BYTES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads its peak of memory from Linux")

ROOM_KIB = 2 * 1024
"""What a piece on its way and the libraries' own state may take above the bound."""


@cache
def outcomes() -> dict[str, tuple[str, int]]:
    """Run the bombs in a process of their own, whose peak of memory nobody else has raised."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.records.bombs"],
        cwd=root,
        env={"PYTHONPATH": f"{root / 'src'}:{root}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = (line.split() for line in done.stdout.splitlines())
    return {name: (outcome, int(kib)) for name, outcome, kib in lines}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_within_its_bound(name: str) -> None:
    outcome, risen_kib = outcomes()[name]

    assert outcome == "refused"
    assert risen_kib <= MAX_BYTES // 1024 + ROOM_KIB


def test_the_bombs_are_bombs() -> None:
    for name, (_, build) in BOMBS.items():
        assert len(build()) < 32 << 20, name
