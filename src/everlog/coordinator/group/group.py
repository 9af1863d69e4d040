"""What every group offers, whichever protocol it speaks, and the directory of groups of a shard."""

from collections.abc import Callable, Iterator
from typing import Protocol

from everlog.coordinator.records import CoordinatorRecord
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Timestamp, Uuid

CLASSIC = "classic"
CONSUMER = "consumer"
CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups of consumers, as opposed to Connect's and others'."""

CheckPartition = Callable[[Uuid, int], None]
"""Refuses the commit of one partition, by topic id and index (STALE_MEMBER_EPOCH, KIP-1251)."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A classic group as DescribeGroups shows it."""

    state: str
    protocol_type: str
    protocol: str
    """The assignor that was chosen; empty unless the group is stable."""
    members: tuple[DescribedMember, ...]


class Group(Protocol):
    """A group with members, or one that had some. What is read here never changes anything."""

    @property
    def id(self) -> str:
        """The group's name."""
        ...

    @property
    def type(self) -> str:
        """`classic` or `consumer`."""
        ...

    @property
    def state(self) -> str:
        """Kafka's name of it: Empty, PreparingRebalance, Stable and so on."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, joining ones included."""
        ...

    @property
    def empty_since(self) -> Timestamp | None:
        """When it lost its last member; None while it has some, or where nobody wrote it down."""
        ...

    @property
    def protocol_type(self) -> str:
        """`consumer` for consumers; empty where nobody has joined yet."""
        ...

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic; yes where that cannot be known, as while it rebalances."""
        ...

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, api_version: int
    ) -> CheckPartition | None:
        """Refuse a commit that this member may not make; else what each partition is checked with, if any.

        `epoch` is the generation of a classic member and the member epoch of the others; -1 without a member
        id is a commit from outside the group.
        """
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Refuse a fetch of offsets that this member may not make; no member id and -1 may always."""
        ...

    def heard_from(self, member_id: str) -> None:
        """A member has committed offsets, which counts as a heartbeat. Soft state only."""
        ...

    def describe(self) -> DescribedGroup | None:
        """What DescribeGroups shows; None for a group that is none of its business."""
        ...

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The records that remove the group; its offsets are not among them."""
        ...


class SimpleGroup:
    """A group that nobody joined: somebody commits offsets in its name, and that is all there is of it."""

    type = CLASSIC
    state = "Empty"
    is_empty = True
    empty_since: Timestamp | None = None
    protocol_type = ""

    def __init__(self, group_id: str) -> None:
        self.id = group_id

    def subscribes_to(self, topic: str) -> bool:
        """Nobody is there to subscribe."""
        return False

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, api_version: int
    ) -> CheckPartition | None:
        """Refuse whoever takes himself for a member."""
        if epoch < 0:
            return None
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID, f"the group {self.id!r} has no members, found {member_id!r}"
        )

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Anybody may."""

    def heard_from(self, member_id: str) -> None:
        """There is no member to hear from."""

    def describe(self) -> DescribedGroup:
        """An empty group."""
        return DescribedGroup(self.state, self.protocol_type, "", ())

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """Nothing was written about it but its offsets."""
        return ()


class Groups:
    """The groups of one shard that somebody joined, by id. Groups of offsets alone are not among them."""

    def __init__(self) -> None:
        self._by_id: dict[str, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, group_id: str) -> Group | None:
        """The group of that name, of whichever type."""
        return self._by_id.get(group_id)

    def put(self, group: Group) -> None:
        """Take a group in, in place of any other of its name."""
        self._by_id[group.id] = group

    def remove(self, group_id: str) -> None:
        """Let a group go, if it is there."""
        self._by_id.pop(group_id, None)
