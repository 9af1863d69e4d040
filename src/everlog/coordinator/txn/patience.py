"""Those who wait to begin a transaction while the markers of the one before are being written.

A client that pipelines its first produce right behind its EndTxn gets there before the markers are written.
Letting it wait a moment is cheaper than letting it send all its records again.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from everlog.coordinator.machine import Done
from everlog.coordinator.shards import ShardWorld
from everlog.coordinator.txn.joining import AddPartitions
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant


class _Waiting(NamedTuple):
    command: AddPartitions
    done: Done[None]
    until: Instant


class Patience:
    """All who wait in one shard, by transactional id, in the order of coming."""

    def __init__(self, world: ShardWorld, add: Callable[[AddPartitions, Done[None]], None]) -> None:
        self._world = world
        self._add = add
        self._waiting: dict[str, deque[_Waiting]] = {}

    def has(self, transactional_id: str) -> bool:
        """Whether somebody waits already; whoever comes now has to queue behind him."""
        return transactional_id in self._waiting

    def wait(self, command: AddPartitions, done: Done[None], patience_ms: int) -> None:
        """Try again when the transaction before is over, or when the patience is."""
        until = Instant(self._world.clock.now() + patience_ms)
        self._waiting.setdefault(command.transactional_id, deque()).append(_Waiting(command, done, until))
        self._world.alarm.ring_by(until)

    def resume(self, transactional_id: str) -> None:
        """The transaction before is over."""
        for one in self._waiting.pop(transactional_id, ()):
            self._add(one.command, one.done)

    def tick(self, now: Instant) -> None:
        """Serve those who have waited long enough, and those before them in the queue."""
        for transactional_id, queue in list(self._waiting.items()):
            if any(one.until <= now for one in queue):
                self.resume(transactional_id)

    def deadline(self) -> Instant | None:
        """When the first loses his patience."""
        return min((one.until for queue in self._waiting.values() for one in queue), default=None)

    def close(self) -> None:
        """Send everybody to the next coordinator."""
        waiting, self._waiting = self._waiting, {}
        for queue in waiting.values():
            for one in queue:
                one.done(Refused(ErrorCode.NOT_COORDINATOR, "another broker coordinates this"))
