"""Clocks that run a little wrong: never back, and right about how long a wait takes."""

import pytest

from everlog.model.ids import Instant
from everlog.sim.clock import MIDNIGHT, DriftingClock


@pytest.mark.parametrize("drift_ppm", [-1_000, 0, 1, 1_000])
def test_a_wait_ends_at_the_first_millisecond_that_shows_its_end(drift_ppm: int) -> None:
    world = [123_456]
    clock = DriftingClock(lambda: world[0], drift_ppm, began_ms=1_000)
    deadline = Instant(clock.now() + 10_000)

    wait = clock.until(deadline)
    world[0] += wait - 1
    assert clock.now() < deadline
    world[0] += 1
    assert clock.now() >= deadline
    assert clock.until(deadline) == 0


def test_a_fast_clock_gains_a_thousandth() -> None:
    clock = DriftingClock(lambda: 1_000_000, 1_000)

    assert clock.now() == 1_001_000
    assert clock.wall() == MIDNIGHT + 1_001_000


def test_a_jump_moves_the_wall_clock_alone() -> None:
    clock = DriftingClock(lambda: 5_000)
    clock.jump(-3_600_000)

    assert clock.now() == 5_000
    assert clock.wall() == MIDNIGHT + 5_000 - 3_600_000
