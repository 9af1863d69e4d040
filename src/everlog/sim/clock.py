"""Clocks that move when they are told to, and clocks that run a little wrong."""

from collections.abc import Callable

from everlog.model.ids import Instant, Timestamp

MIDNIGHT = Timestamp(1_700_000_000_000)
"""Where the wall clock of a simulation begins, unless told otherwise."""


class SimClock:
    """Both clocks of one simulated machine; neither moves by itself."""

    def __init__(self, wall: Timestamp = MIDNIGHT) -> None:
        self._now = 0
        self._wall = int(wall)

    def now(self) -> Instant:
        """Milliseconds that never go back, from 0."""
        return Instant(self._now)

    def wall(self) -> Timestamp:
        """Milliseconds since 1970 UTC; may jump either way."""
        return Timestamp(self._wall)

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass on both clocks."""
        assert ms >= 0, ms
        self._now += ms
        self._wall += ms

    def jump(self, ms: int) -> None:
        """Set the wall clock forward, or back where `ms` is negative; no time passes."""
        self._wall += ms

    def until(self, deadline: Instant) -> int:
        """How many milliseconds of the world pass before it shows `deadline`; 0 if it does already."""
        return max(0, deadline - self._now)


_MILLION = 1_000_000


class DriftingClock:
    """Both clocks of one machine of several: they follow the world's time, each at a rate of its own."""

    def __init__(self, world_ms: Callable[[], int], drift_ppm: int = 0, began_ms: int = 0) -> None:
        """Run `drift_ppm` millionths too fast, and show `began_ms` at the world's beginning."""
        self._world_ms = world_ms
        self._rate = _MILLION + drift_ppm
        self._began_ms = began_ms
        self._jumped_ms = 0

    def now(self) -> Instant:
        """Milliseconds that never go back."""
        return Instant(self._began_ms + self._world_ms() * self._rate // _MILLION)

    def wall(self) -> Timestamp:
        """Milliseconds since 1970 UTC; may jump either way."""
        return Timestamp(MIDNIGHT + self._world_ms() * self._rate // _MILLION + self._jumped_ms)

    def jump(self, ms: int) -> None:
        """Set the wall clock forward, or back where `ms` is negative; no time passes."""
        self._jumped_ms += ms

    def until(self, deadline: Instant) -> int:
        """How many milliseconds of the world pass before it shows `deadline`; 0 if it does already."""
        shown = -(-(deadline - self._began_ms) * _MILLION // self._rate)
        return max(0, shown - self._world_ms())
