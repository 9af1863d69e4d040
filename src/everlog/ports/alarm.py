"""Being woken, as a core may ask for it."""

from typing import Protocol

from everlog.model.ids import Instant


class Alarm(Protocol):
    """Calls the core's `tick` when it asked to be called."""

    def ring_by(self, deadline: Instant) -> None:
        """See to it that `tick` is called at `deadline`, or a little later; earlier calls are harmless."""
        ...
