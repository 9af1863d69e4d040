"""A clock that moves when it is told to."""

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
