"""A member of a consumer group: what it told of itself, and which partitions it has."""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from everlog.model.dataclass import dataclass
from everlog.model.ids import Uuid

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class TopicIdPartition(NamedTuple):
    """One partition of one topic, which a topic made anew under the same name does not have."""

    topic_id: Uuid
    partition: int


Partitions = frozenset[TopicIdPartition]
Assigned = Mapping[TopicIdPartition, int]
"""Partition to the member epoch in which the member got it (KIP-1251)."""

NO_PARTITIONS: Partitions = frozenset()
NOTHING_ASSIGNED: Assigned = MappingProxyType({})


class MemberState(IntEnum):
    """How far a member is on its way to its target, with the numbers that records carry."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It was told to give up partitions, and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others still have."""
    UNKNOWN = 127
    """A state that only a later version knows."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What a member that still speaks the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Assignor to subscription, in the order of its liking."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member told of itself; a record of type 5 holds it."""

    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    """None where it has none; the empty text is taken for none too."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None
    """None for a member that speaks this protocol itself."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member; it never changes, a record makes another one of it."""

    id: str
    subscription: Subscription
    epoch: int = JOIN_EPOCH
    """The target that it has reached: at most the group's assignment epoch; -2 while a static one is away."""
    previous_epoch: int = JOIN_EPOCH
    """The epoch before, with which it comes again if the answer with the new one was lost."""
    state: MemberState = MemberState.STABLE
    assigned: Assigned = field(default_factory=lambda: NOTHING_ASSIGNED)
    pending_revocation: Assigned = field(default_factory=lambda: NOTHING_ASSIGNED)
    """What it had and must give up; nobody else gets it before. Apart from `assigned`."""
    partitions: Partitions = field(init=False, compare=False)
    """The keys of `assigned`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", frozenset(self.assigned))

    @property
    def instance_id(self) -> str | None:
        """The name that a static member keeps over restarts."""
        return self.subscription.instance_id

    @property
    def speaks_classic(self) -> bool:
        """Whether it came with JoinGroup."""
        return self.subscription.classic is not None

    def subscribed(self, subscription: Subscription) -> "Member":
        """The same member with another subscription."""
        return replace(self, subscription=subscription)

    def moved(
        self, state: MemberState, epoch: int, assigned: Assigned, pending_revocation: Assigned
    ) -> "Member":
        """The same member one step further."""
        return Member(self.id, self.subscription, epoch, self.epoch, state, assigned, pending_revocation)


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[Uuid, list[int]]:
    """The partitions of each topic, in order."""
    found: dict[Uuid, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return found
