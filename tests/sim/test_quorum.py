"""Row R8: a quorum on disks that forget, fail and tear, over connections that break, agrees on one log.

`EVERLOG_SIM_QUORUM_SEEDS` says how many seeds.
"""

import os

import pytest

from tests.sim.quorum_world import run_quorum_seed

_SEEDS = int(os.environ.get("EVERLOG_SIM_QUORUM_SEEDS", "1100"))
_CHUNK = 100


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
