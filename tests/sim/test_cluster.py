"""Rows R1-R8, P4, P5, C2: whole clusters from a seed, with faults, and nothing that must hold is broken.

`EVERLOG_SIM_CLUSTER_SEEDS` says how many; `python -m everlog.sim --cluster --seed N --trace` repeats one.
"""

import os
from pathlib import Path

import pytest

from everlog.sim.checkers import summary
from everlog.sim.cluster_world import ClusterResult, run_cluster_seed

_SEEDS = int(os.environ.get("EVERLOG_SIM_CLUSTER_SEEDS", "300"))
_CHUNK = 20
_PINNED = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "cluster_pinned.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def _sound(seed: int) -> ClusterResult:
    result = run_cluster_seed(seed)
    found = "\n".join([summary(result.violations), *result.problems[:5]])
    assert result.sound, (
        f"{result.plan}\n{found}\nreplay: python -m everlog.sim --cluster --seed {seed} --trace"
    )
    return result


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, _SEEDS + 1, _CHUNK))
def test_nothing_that_must_hold_is_broken(first: int) -> None:
    for seed in range(first, min(first + _CHUNK, _SEEDS + 1)):
        result = _sound(seed)
        if seed % 100 == 0:
            assert run_cluster_seed(seed).fingerprint == result.fingerprint


@pytest.mark.parametrize("seed", _PINNED)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    _sound(seed)


@pytest.mark.parametrize("seed", [3, 7])
def test_a_seed_repeats_to_the_last_byte(seed: int) -> None:
    first, again = run_cluster_seed(seed), run_cluster_seed(seed)

    assert first.fingerprint == again.fingerprint
    assert first.history == again.history
    assert first.events == again.events
    assert first.fingerprint != run_cluster_seed(seed + 1).fingerprint
