"""Whether anybody listens at an address."""

from collections.abc import Callable
from typing import Final

from everlog.model.ids import Instant
from everlog.ports.links import Link

PROBE_TIMEOUT_MS: Final = 1_000


class Probe:
    """An attempt to connect that ends as soon as its outcome is known; `done` gets whether it was refused."""

    __slots__ = ("_done", "deadline", "link")

    link: Link

    def __init__(self, deadline: Instant, done: Callable[[bool], None]) -> None:
        self.deadline = deadline
        self._done: Callable[[bool], None] | None = done

    @property
    def ended(self) -> bool:
        """Whether `done` was called."""
        return self._done is None

    def end_if_late(self, now: Instant) -> None:
        """Give up: that nothing came back says nothing of whether somebody is there."""
        if not self.ended and self.deadline <= now:
            self.link.close()
            self._end(refused=False)

    def opened(self) -> None:
        """Somebody is there."""
        self.link.close()
        self._end(refused=False)

    def received(self, frame: memoryview) -> None:
        """Nothing was asked."""

    def lost(self, reason: str, *, refused: bool) -> None:
        """Nobody is, if it was refused."""
        self._end(refused=refused)

    def _end(self, *, refused: bool) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(refused)
