"""Row R8: a quorum on disks that forget, fail and tear, over connections that break, agrees on one log.

`EVERLOG_SIM_QUORUM_SEEDS` says how many seeds.
"""

import os

import pytest

from tests.sim.quorum_world import run_quorum_seed, slow_world

_SEEDS = int(os.environ.get("EVERLOG_SIM_QUORUM_SEEDS", "550"))
_CHUNK = 50


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(1, _SEEDS + 1, _CHUNK))
def test_members_agree_on_what_is_committed(first: int) -> None:
    for seed in range(first, min(first + _CHUNK, _SEEDS + 1)):
        assert run_quorum_seed(seed) > 0


def test_a_member_dies_of_what_came_while_it_was_paused() -> None:
    """Connections that its machine took for it meanwhile are gone with it: an error of the simulator once."""
    assert run_quorum_seed(271) > 0


@pytest.mark.parametrize("seed", [128, 228, 379, 392])
def test_a_member_whose_disk_failed_comes_back(seed: int) -> None:
    """In these seeds the time to try again was lost, as the alarm had rung for others."""
    assert run_quorum_seed(seed) > 0


@pytest.mark.parametrize(
    ("disk_ms", "stall_ms", "bound_ms"),
    [(0, 0, 1_500), (1_000, 0, 5_000), (3_000, 0, 15_000), (800, 1_200, 15_000)],
)
def test_a_leader_is_replaced_while_another_disk_is_slow(disk_ms: int, stall_ms: int, bound_ms: int) -> None:
    """Of three voters one is dead then, and each vote and each commit has to wait for the slow one.

    Candidates once began epoch after epoch, as the slow vote for each came when it was over; and leaders
    stepped down since the slow one was too busy with its disk to fetch in time.
    """
    for seed in range(12):
        took_ms, more_epochs = slow_world(seed, voters=3).fail_over(disk_ms, stall_ms)
        assert (took_ms <= bound_ms, more_epochs) == (True, 0), (seed, took_ms, more_epochs)


@pytest.mark.parametrize("disk_ms", [0, 1_000])
def test_a_leader_is_replaced_while_two_of_five_are_dead_and_one_is_slow(disk_ms: int) -> None:
    for seed in range(6):
        took_ms, more_epochs = slow_world(seed, voters=5).fail_over(disk_ms, dead=2)
        assert (took_ms <= 15_000, more_epochs) == (True, 0), (seed, took_ms, more_epochs)
