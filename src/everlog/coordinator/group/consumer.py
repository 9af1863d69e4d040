"""The consumer protocol of groups."""

from typing import TYPE_CHECKING

from everlog.coordinator.records import CoordinatorRecord
from everlog.metadata.delta import Changes
from everlog.model.ids import Instant

if TYPE_CHECKING:
    from everlog.coordinator.group.shard import GroupShard


class ConsumerProtocol:
    """The groups of one shard that speak the consumer protocol."""

    def __init__(self, shard: "GroupShard") -> None:
        self._shard = shard

    def apply(self, record: CoordinatorRecord) -> None:
        """Take in one record, live or in replay."""

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
        """Answer all who wait with NOT_COORDINATOR."""
