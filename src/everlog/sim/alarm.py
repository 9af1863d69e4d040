"""An alarm that rings when the simulation lets time pass."""

from everlog.model.ids import Instant


class SimAlarm:
    """Remembers the earliest time that was asked for."""

    def __init__(self) -> None:
        self.deadline: Instant | None = None
        """When somebody wants to be woken, if anybody does."""

    def ring_by(self, deadline: Instant) -> None:
        """Remember a time, if it is earlier than the one known."""
        if self.deadline is None or deadline < self.deadline:
            self.deadline = deadline
