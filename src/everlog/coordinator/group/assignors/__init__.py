"""Assignors: which member is to have which partition, worked out on the broker (KIP-848).

Here live pure functions from who subscribes to what and who was to have what to who is to have what. Groups,
records and members as they come and go do not. `ConsumerProtocol` calls them when a group's epoch has risen.
Every partition that somebody subscribes to goes to one of those who do, and the same question has one answer.
"""

from collections.abc import Callable, Mapping

from everlog.coordinator.group.consumer_member import NO_PARTITIONS, Partitions
from everlog.model.dataclass import dataclass
from everlog.model.ids import Uuid


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it."""

    topics: frozenset[Uuid]
    """What it subscribes to."""
    had: Partitions = NO_PARTITIONS
    """What it was to have before."""
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Subscriber], Mapping[Uuid, int]], dict[str, Partitions]]
"""Subscribers by member id, and how many partitions each topic has, to the partitions of each member.

Topics that do not exist have no count and are left out; every member is in the answer.
"""
