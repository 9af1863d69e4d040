"""Committed offsets of one shard, and those that wait for the end of a transaction."""

from typing import TYPE_CHECKING

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.records import CoordinatorRecord
from everlog.metadata.delta import Changes
from everlog.model.ids import Instant, Offset

if TYPE_CHECKING:
    from everlog.coordinator.group.shard import GroupShard


class Offsets:
    """What was committed in the name of each group."""

    def __init__(self, shard: "GroupShard") -> None:
        self._shard = shard

    def knows(self, group_id: str) -> bool:
        """Whether anything was committed in the name of the group, pending commits included."""
        return False

    def apply(self, record: CoordinatorRecord, offset: Offset, producer: ProducerStamp | None) -> None:
        """Take in one record, live or in replay."""

    def end_transaction(self, producer: ProducerStamp, commit: bool) -> None:
        """Make the offsets of a transaction count, or drop them."""

    def activated(self, now: Instant) -> None:
        """Begin to expire: the log is read."""

    def image_changed(self, changes: Changes) -> None:
        """Take note of deleted topics."""

    def tick(self, now: Instant) -> None:
        """Do what is due."""

    def deadline(self) -> Instant | None:
        """When `tick` wants to be called next."""
        return None

    def close(self) -> None:
        """Nobody waits here."""
