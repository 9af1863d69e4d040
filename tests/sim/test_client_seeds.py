"""P4, P5, C2-C4: the public clients in seeded worlds, and nothing that must hold is broken.

`EVERLOG_SIM_CLIENT_SEEDS` says how many; `python -m everlog.sim --workload clients --seed N` repeats one.
"""

import gc
import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from everlog.client.core import surroundings
from everlog.sim import client_world
from everlog.sim.checkers import summary
from everlog.sim.client_world import run_client_seed
from everlog.sim.world import Result, World

_SEEDS = int(os.environ.get("EVERLOG_SIM_CLIENT_SEEDS", "50"))
_CHUNK = 10
_QUICK = 20
_PINNED = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "pinned_clients.txt").read_text().splitlines()
    if line and not line.startswith("#")
]

_PROGRAM = """
from everlog.sim.client_world import run_client_seed
result = run_client_seed({seed})
print(result.fingerprint, result.events, len(result.history.operations))
"""


def _assert_sound(result: Result) -> None:
    found = "\n".join([summary(result.violations), *result.problems[:5]])
    replay = f"python -m everlog.sim --workload clients --seed {result.plan.seed}"
    assert result.sound, f"{result.plan}\n{found}\nreplay: {replay}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "first",
    [
        *range(1, _QUICK + 1, _CHUNK),
        *(pytest.param(first, marks=pytest.mark.slow) for first in range(_QUICK + 1, _SEEDS + 1, _CHUNK)),
    ],
)
def test_nothing_that_must_hold_is_broken(first: int) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(first, min(first + _CHUNK, _SEEDS + 1)):
        result = run_client_seed(seed)
        _assert_sound(result)
        kinds.update(f"{operation.kind} {operation.outcome}" for operation in result.history.operations)

    # A sound run proves nothing if its clients got nothing done; in ten worlds some are nothing but faults.
    for kind, least in {"send ok": 500, "poll ok": 50, "txn ok": 2, "txn fail": 1, "join ok": 5}.items():
        assert kinds[kind] >= least, kinds


@pytest.mark.parametrize("seed", _PINNED)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    _assert_sound(run_client_seed(seed))


@pytest.mark.parametrize("seed", [2, 4, 17])
def test_a_seed_repeats_to_the_last_byte(seed: int) -> None:
    first, again = run_client_seed(seed), run_client_seed(seed)

    assert first.fingerprint == again.fingerprint
    assert first.history == again.history
    assert first.events == again.events


@pytest.mark.timeout(120)
def test_a_seed_means_the_same_in_another_process() -> None:
    """No order comes from a set, whose order changes from process to process."""
    told = [
        subprocess.run(
            [sys.executable, "-c", _PROGRAM.format(seed=12)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert told[0] == told[1] != ""


@pytest.mark.parametrize("seed", [3, 14])
def test_nothing_of_a_killed_client_outlives_its_world(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds: list[weakref.ref[World]] = []

    def kept_an_eye_on(*given: Any) -> World:
        world = World(*given)
        worlds.append(weakref.ref(world))
        return world

    monkeypatch.setattr(client_world, "World", kept_an_eye_on)
    # Whoever keeps what is logged keeps the errors in it, and where those came from.
    logging.disable()
    try:
        run_client_seed(seed)
    finally:
        logging.disable(logging.NOTSET)
    gc.collect()

    assert [world() for world in worlds] == [None]


def test_clients_outside_have_the_system_s_time_and_chance_again() -> None:
    before = surroundings.monotonic, surroundings.time_ns, surroundings.chance

    run_client_seed(3)

    assert (surroundings.monotonic, surroundings.time_ns, surroundings.chance) == before


def test_a_client_on_another_thread_neither_sees_the_world_nor_takes_its_chance() -> None:
    over, strange = threading.Event(), list[float]()

    def draw() -> None:
        """What a client does that was left open, and tries to reach its broker."""
        while not over.wait(0.0005):
            surroundings.chance.random()
            surroundings.chance.shuffle([1, 2, 3])
            if abs(surroundings.monotonic() - time.monotonic()) > 60:
                strange.append(surroundings.monotonic())

    alone = run_client_seed(2)
    left_open = threading.Thread(target=draw)
    left_open.start()
    try:
        beside = run_client_seed(2)
    finally:
        over.set()
        left_open.join()

    assert beside.fingerprint == alone.fingerprint
    assert not strange
