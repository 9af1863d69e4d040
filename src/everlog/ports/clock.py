"""Time, as a core may see it."""

from typing import Protocol

from everlog.model.ids import Instant, Timestamp


class Clock(Protocol):
    """Two clocks that never mix: one for waiting, one for what records say."""

    def now(self) -> Instant:
        """Milliseconds that never go back."""
        ...

    def wall(self) -> Timestamp:
        """Milliseconds since 1970 UTC; may jump either way."""
        ...
