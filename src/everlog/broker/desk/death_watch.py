"""Brokers whose processes have ended, noticed long before their sessions have (R5).

The connection that a broker beats on closes when its process ends, whatever has ended it. It may close for
other reasons too, so the broker is connected to: where nobody listens any more, no process is there. What
cannot be reached in any other way is left to the session time-out: it may be alive, and only out of sight.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from everlog.metadata.image import BrokerImage
from everlog.model.ids import BrokerId


class Neighbour(Protocol):
    """Another broker, as this node reaches it."""

    def find_out_if_gone(self, done: Callable[[bool], None]) -> None:
        """Say whether the process there has ended."""
        ...


class DeathWatch:
    """The part of the active controller that looks for brokers that have died."""

    def __init__(
        self,
        find: Callable[[BrokerId], Neighbour | None],
        gone: Callable[[BrokerId, int], None],
    ) -> None:
        """`find` knows where brokers listen; `gone` is told of one that lives no more, with its epoch.

        It is to be fenced then, unless it was registered anew.
        """
        self._find = find
        self._gone = gone
        self._beats: dict[BrokerId, tuple[int, int]] = {}
        """Each broker's epoch, and the connection that it beat on last."""
        self._lead = 0
        """Counts leads: what was begun in an earlier one is nobody's affair."""
        self._leads = False

    def took_over(self, brokers: Iterable[BrokerImage], me: BrokerId) -> None:
        """This node's controller is active: see which of the brokers that should be alive are not."""
        self._lead += 1
        self._leads = True
        for broker in brokers:
            if not broker.fenced and broker.id != me:
                self._look(broker.id, broker.epoch)

    def stood_down(self) -> None:
        """Another controller is active: it looks by itself."""
        self._lead += 1
        self._leads = False
        self._beats.clear()

    def beat(self, broker: BrokerId, epoch: int, connection: int) -> None:
        """A broker that is known by this epoch has beaten on a connection, by its number."""
        self._beats[broker] = (epoch, connection)

    def hung_up(self, connection: int) -> None:
        """A connection to this node has closed."""
        if not self._leads:
            return
        for broker, (epoch, beat_on) in list(self._beats.items()):
            if beat_on == connection:
                self._look(broker, epoch)

    def _look(self, broker: BrokerId, epoch: int) -> None:
        neighbour = self._find(broker)
        if neighbour is None:
            return
        lead, beat = self._lead, self._beats.get(broker)

        def found(gone: bool) -> None:
            # Who has beaten since, on another connection, is alive: it was not there for a moment only.
            if gone and self._lead == lead and self._beats.get(broker) == beat:
                self._beats.pop(broker, None)
                self._gone(broker, epoch)

        neighbour.find_out_if_gone(found)
