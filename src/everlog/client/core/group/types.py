"""What an application and its group tell each other: offsets with their metadata, listeners, membership."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol

from everlog.model.topics import TopicPartition

NO_GENERATION = -1
"""The generation of whoever is in no group."""


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: that of the record to read next, and what was said with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    """Of the last record before it, by which a log that lost records can be told; -1 if not known."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """In whose name offsets are committed. `Consumer.group_metadata` gives it, a transaction takes it."""

    group_id: str
    generation: int = NO_GENERATION
    """The generation of a classic group, the member's epoch in one of the consumer protocol."""
    member_id: str = ""
    instance_id: str | None = None


class RebalanceListener(Protocol):
    """What an application does when its partitions change; inherit from it and define what is needed.

    Methods run within `poll` and `close`, on the thread that calls them. For `everlog.aio` they may be
    coroutines.
    """

    def on_revoked(self, places: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Finish with partitions that another member gets next: the last moment to commit their offsets."""
        return None

    def on_lost(self, places: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Give up partitions that others may read already; it is too late to commit."""
        return self.on_revoked(places)

    def on_assigned(self, places: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Begin with partitions that were added; `seek` decides where. May be called with none."""
        return None
