"""Rows R1-R8, P4, P5, C2: whole clusters from a seed, with faults, and nothing that must hold is broken.

`EVERLOG_SIM_CLUSTER_SEEDS` says how many; `python -m everlog.sim --cluster --seed N --trace` repeats one.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from everlog.sim.checkers import summary
from everlog.sim.client_world import run_cluster_client_seed
from everlog.sim.cluster_plan import draw_cluster
from everlog.sim.cluster_world import ClusterResult, run_cluster_plan, run_cluster_seed

_SEEDS = int(os.environ.get("EVERLOG_SIM_CLUSTER_SEEDS", "120"))
_CHUNK = 12
_FIRST = range(1, 25)
"""Seeds of which is told, too, what they reach."""
_PINNED = [
    (int(line.split()[0]), line.split()[1])
    for line in (Path(__file__).parent / "cluster_pinned.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def _sound(seed: int, kind: str = "busy") -> ClusterResult:
    result = run_cluster_plan(draw_cluster(seed, quiet=kind == "quiet"))
    found = "\n".join([summary(result.violations), *result.problems[:5]])
    assert result.sound, (
        f"{result.plan}\n{found}\nreplay: python -m everlog.sim --cluster --seed {seed} --trace"
    )
    return result


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(_FIRST.stop, _SEEDS + 1, _CHUNK))
def test_nothing_that_must_hold_is_broken(first: int) -> None:
    for seed in range(first, min(first + _CHUNK, _SEEDS + 1)):
        result = _sound(seed)
        if seed % 100 == 0:
            assert run_cluster_seed(seed).fingerprint == result.fingerprint


def _assert_clients_got_through(result: ClusterResult) -> None:
    found = "\n".join([summary(result.violations), *result.problems[:5]])
    assert result.sound, f"{result.plan}\n{found}"


@pytest.mark.parametrize(("seed", "kind"), _PINNED)
def test_what_was_found_once_stays_mended(seed: int, kind: str) -> None:
    if kind == "clients":
        _assert_clients_got_through(run_cluster_client_seed(seed))
    else:
        _sound(seed, kind)


@pytest.mark.parametrize("seed", [3, 7])
def test_a_seed_repeats_to_the_last_byte(seed: int) -> None:
    first, again = run_cluster_seed(seed), run_cluster_seed(seed)

    assert first.fingerprint == again.fingerprint
    assert first.history == again.history
    assert first.events == again.events
    assert first.fingerprint != run_cluster_seed(seed + 1).fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 11])
def test_the_public_clients_get_through(first: int) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(first, first + 10):
        result = run_cluster_client_seed(seed)
        _assert_clients_got_through(result)
        kinds.update(f"{operation.kind} {operation.outcome}" for operation in result.history.operations)

    # As with one broker: in ten worlds some are nothing but faults, and the others have work to show.
    for kind, least in {"send ok": 500, "poll ok": 50, "txn ok": 2, "txn fail": 1, "join ok": 5}.items():
        assert kinds[kind] >= least, kinds


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_seeds_are_sound_and_reach_what_they_are_for() -> None:
    """A sound run proves nothing if its clients got nothing done, or nothing was broken."""
    kinds: dict[str, int] = {}
    struck: dict[str, int] = {}
    for seed in _FIRST:
        result = _sound(seed)
        for operation in result.history.operations:
            name = f"{operation.kind} {operation.outcome}"
            kinds[name] = kinds.get(name, 0) + 1
        for blow, count in result.struck.items():
            struck[blow] = struck.get(blow, 0) + count

    wanted = {"send ok": 200, "send info": 10, "poll ok": 200, "txn ok": 10, "commit ok": 5, "join ok": 5}
    assert all(kinds.get(name, 0) >= least for name, least in wanted.items()), kinds
    assert len(struck) >= 12, struck
    assert sum(struck.values()) >= 60, struck
