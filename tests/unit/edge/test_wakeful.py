"""Staying awake between requests that follow each other closely, and only then (P4, O1)."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from everlog.edge.wakeful import CROWDED_NS, FEW, LARGE_BYTES, LOOK_NS, SURE, Wakeful

ONE_US = 1_000


class Loop:
    """A loop that calls what it was given, one after the other, when it is told to."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.calls.append(callback)

    def turn(self) -> bool:
        """Call what waits; says whether that was anything, so that the loop did not sleep."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()
        return bool(calls)


class Core:
    """Time on one core: a look takes a microsecond, and others may take the core when it is offered."""

    def __init__(self) -> None:
        self.now_ns = 10 * LOOK_NS
        self.others_take_ns = 0
        self.offered = 0
        self.loop = Loop()
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.wakeful = Wakeful(loop, lambda: self.now_ns, self._offer)

    def _offer(self) -> None:
        self.offered += 1
        self.now_ns += ONE_US + self.others_take_ns

    def rounds(self, count: int, *, apart_ns: int, connections: int = 1, size: int = 100) -> None:
        """Requests that come so long after the answers to those before them."""
        for _ in range(count):
            until = self.now_ns + apart_ns
            while self.now_ns < until and self.loop.turn():
                pass
            self.now_ns = max(self.now_ns, until)
            self.wakeful.round_begins()
            self.wakeful.round_ends(connections, size)

    def looks_for_us(self) -> float:
        """How long the loop stays awake when nothing comes."""
        began = self.now_ns
        for _ in range(10_000):
            if not self.loop.turn():
                return (self.now_ns - began) / ONE_US
        raise AssertionError("the loop never sleeps again")


def test_requests_that_follow_closely_are_waited_for_awake_and_not_for_long() -> None:
    core = Core()

    # The first follows nothing.
    core.rounds(SURE, apart_ns=LOOK_NS // 2)
    assert core.looks_for_us() == 0
    core.rounds(1, apart_ns=LOOK_NS // 2)

    assert core.looks_for_us() == LOOK_NS / ONE_US
    assert core.looks_for_us() == 0


def test_requests_that_come_at_leisure_are_slept_for() -> None:
    core = Core()

    core.rounds(100, apart_ns=5 * LOOK_NS)

    assert core.offered == 0


def test_half_of_the_requests_coming_soon_is_not_enough() -> None:
    core = Core()

    for _ in range(100):
        core.rounds(1, apart_ns=LOOK_NS // 2)
        core.rounds(1, apart_ns=5 * LOOK_NS)

    assert core.offered == 0


def test_it_ends_when_requests_become_rare() -> None:
    core = Core()
    core.rounds(100, apart_ns=LOOK_NS // 2)

    core.rounds(3, apart_ns=5 * LOOK_NS)

    assert core.looks_for_us() == 0


def test_a_core_that_others_want_is_left_to_them() -> None:
    core = Core()
    core.rounds(100, apart_ns=LOOK_NS // 2)
    core.others_take_ns = CROWDED_NS
    core.offered = 0

    core.looks_for_us()
    core.rounds(SURE - 1, apart_ns=LOOK_NS // 2)

    assert core.offered == 1


@pytest.mark.parametrize("other", [{"connections": FEW + 1}, {"size": LARGE_BYTES + 1}])
def test_many_connections_are_let_gather_and_large_requests_slept_for(other: dict[str, int]) -> None:
    core = Core()
    core.rounds(100, apart_ns=LOOK_NS // 2, connections=FEW, size=LARGE_BYTES)
    assert core.offered > 0
    # The first of the others finds the loop awake, and is the last that does.
    core.rounds(1, apart_ns=LOOK_NS // 2, **other)
    core.offered = 0

    core.rounds(100, apart_ns=LOOK_NS // 2, **other)

    assert core.offered == 0
