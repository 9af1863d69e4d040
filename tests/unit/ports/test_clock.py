"""What every clock promises, real or simulated."""

import pytest

from everlog.edge.clock import SystemClock
from everlog.ports.clock import Clock
from everlog.sim.clock import SimClock


@pytest.fixture(params=["real", "simulated"])
def clock(request: pytest.FixtureRequest) -> Clock:
    return SystemClock() if request.param == "real" else SimClock()


def test_instants_never_go_back(clock: Clock) -> None:
    seen = [clock.now() for _ in range(1000)]

    assert seen == sorted(seen)
    assert seen[0] >= 0


def test_wall_time_is_milliseconds_since_1970(clock: Clock) -> None:
    assert 1_600_000_000_000 < clock.wall() < 4_000_000_000_000


def test_a_simulated_clock_moves_when_it_is_told_to_and_only_its_wall_jumps() -> None:
    clock = SimClock()
    now, wall = clock.now(), clock.wall()

    clock.advance(250)
    clock.jump(-3_600_000)

    assert (clock.now() - now, clock.wall() - wall) == (250, 250 - 3_600_000)
