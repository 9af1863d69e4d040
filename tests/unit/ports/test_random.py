"""What every source of chance promises, the kernel's or a seed's."""

import pytest

from everlog.edge.chance import SystemRandom
from everlog.model.ids import uuid_from_text, uuid_text
from everlog.ports.random import Random
from everlog.sim.chance import SimRandom


@pytest.fixture(params=["real", "simulated"])
def chance(request: pytest.FixtureRequest) -> Random:
    return SystemRandom() if request.param == "real" else SimRandom(1)


def test_ids_are_fresh_and_never_begin_with_a_dash(chance: Random) -> None:
    # One in 64 would begin with a dash if nothing were done about it.
    ids = [chance.uuid() for _ in range(2000)]

    assert len(set(ids)) == 2000
    assert not any(uuid_text(uuid).startswith("-") for uuid in ids)
    assert all(uuid_from_text(uuid_text(uuid)) == uuid for uuid in ids)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 256, 257])
def test_numbers_below_a_bound_are_all_drawn_and_no_others(chance: Random, bound: int) -> None:
    assert {chance.below(bound) for _ in range(bound * 40)} == set(range(bound))


def test_a_seed_gives_the_same_run_again_and_a_fork_does_not_shift_it() -> None:
    one, other = SimRandom(7), SimRandom(7)
    one.fork("disk").below(100)

    assert [one.below(1000) for _ in range(20)] == [other.below(1000) for _ in range(20)]
    assert one.fork("disk").uuid() == other.fork("disk").uuid() != one.fork("net").uuid()
