"""TxnShard: one partition of `__transaction_state`."""

from everlog.coordinator.machine import Machine, ProducerStamp
from everlog.coordinator.records import CoordinatorRecord
from everlog.coordinator.shards import ShardWorld
from everlog.metadata.delta import Changes
from everlog.model.ids import Instant, Offset


class TxnShard:
    """The transactional ids whose names fall into one partition."""

    def __init__(self, world: ShardWorld) -> None:
        self.world = world
        self.machine = Machine({}, self, world.journal, world.clock.wall, world.epoch)

    def apply(self, record: CoordinatorRecord, offset: Offset, producer: ProducerStamp | None) -> None:
        """Take in one record, live or in replay."""

    def end_transaction(self, producer: ProducerStamp, commit: bool) -> None:
        """Nobody writes markers here."""

    def activated(self, now: Instant) -> None:
        """Begin time-outs: the log is read."""

    def image_changed(self, changes: Changes) -> None:
        """Take note of another cluster image."""

    def tick(self, now: Instant) -> None:
        """Do what is due."""

    def deadline(self) -> Instant | None:
        """When `tick` wants to be called next."""
        return None

    def close(self) -> None:
        """Coordinate no more."""
        self.machine.close()
