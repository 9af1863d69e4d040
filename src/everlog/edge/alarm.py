"""The alarm clock of a core, on an event loop."""

import asyncio
from collections.abc import Callable

from everlog.model.ids import Instant
from everlog.ports.clock import Clock


class LoopAlarm:
    """Calls `tick` at the earliest of the times that were asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._tick: Callable[[Instant], None] | None = None
        self._armed_for: int | None = None
        self._handle: asyncio.TimerHandle | None = None

    def wakes(self, tick: Callable[[Instant], None]) -> None:
        """Say whom to wake; until then nobody is."""
        self._tick = tick

    def ring_by(self, deadline: Instant) -> None:
        """See to it that `tick` is called at `deadline`, or a little later."""
        if self._armed_for is not None and self._armed_for <= deadline:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._armed_for = deadline
        wait_ms = max(0, deadline - self._clock.now())
        self._handle = self._loop.call_later(wait_ms / 1000, self._ring)

    def stop(self) -> None:
        """Wake nobody any more."""
        self._tick = None
        if self._handle is not None:
            self._handle.cancel()

    def _ring(self) -> None:
        now = self._clock.now()
        if self._armed_for is not None and now < self._armed_for:
            # The loop's clock is finer than ours and may be a fraction early.
            self._handle = self._loop.call_later((self._armed_for - now) / 1000, self._ring)
            return
        self._armed_for = None
        self._handle = None
        if self._tick is not None:
            self._tick(now)
