"""Work of requests that takes long and is done a little at a time, so that others have turns between."""

from collections import deque
from collections.abc import Callable

from everlog.model.ids import Instant
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock

SLICE_MS = 4
"""How long others wait for one slice."""
_MOST_LOOKS = 256
"""Where time stands still, a slice ends here."""

Step = Callable[[Callable[[], bool]], bool]
"""Goes on until the function that it is given says that it was enough; returns whether all is done."""


class Slices:
    """The long work of a broker, in turn. Whoever owns it calls `tick` when the alarm rings."""

    def __init__(self, clock: Clock, alarm: Alarm) -> None:
        self._clock = clock
        self._alarm = alarm
        self._waiting: deque[tuple[Step, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def run(self, step: Step, then: Callable[[], None]) -> None:
        """Have `step` do its work, and call `then` once it is done; at once if the first slice does it."""
        if step(self._slice()):
            then()
            return
        self._waiting.append((step, then))
        self._alarm.ring_by(self._clock.now())

    def tick(self, now: Instant) -> None:
        """Go on for a slice with what has waited longest for it."""
        if not self._waiting:
            return
        step, then = self._waiting.popleft()
        if step(self._slice()):
            then()
        else:
            self._waiting.append((step, then))
        if self._waiting:
            self._alarm.ring_by(self._clock.now())

    def _slice(self) -> Callable[[], bool]:
        until = self._clock.now() + SLICE_MS
        looks = 0

        def enough() -> bool:
            nonlocal looks
            looks += 1
            return looks > _MOST_LOOKS or self._clock.now() >= until

        return enough
