"""Assignors of the classic protocol: the leader of a group shares its partitions out among the members (C3).

Here live pure functions from who wants and has what to who gets what; whoever leads a group calls them.
Results are those of Apache Kafka's assignors, so that it does not matter which client leads. A custom one
is any object with the attributes of `Assignor`, given as `partition_assignment_strategy`.
What always holds: every partition that somebody subscribes to goes to one of those who do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from everlog.client.core.group.types import NO_GENERATION
from everlog.model.topics import TopicPartition


class RebalanceProtocol(Enum):
    """How members come from one assignment to the next."""

    EAGER = "eager"
    """All give up all that they have, then take what they are given."""
    COOPERATIVE = "cooperative"
    """They keep what stays, and give up what moves in a first round; it is given on in a second (KIP-429)."""


EAGER_ONLY = (RebalanceProtocol.EAGER,)
BOTH_PROTOCOLS = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

Layout = Mapping[str, Sequence[frozenset[str]]]
"""Topics by name: for each partition in order, the racks that have a replica of it (none where unknown)."""

Shares = Mapping[str, Iterable[TopicPartition]]
"""Partitions by member id."""


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member of a group as its leader sees it."""

    topics: frozenset[str]
    """What it subscribes to; some may not exist."""
    owned: frozenset[TopicPartition] = frozenset()
    """What it has now; an eager member has nothing while the group rebalances."""
    generation: int = NO_GENERATION
    """In which it got what it owns."""
    instance_id: str | None = None
    """Of a static member."""
    rack: str | None = None
    user_data: bytes = b""
    """What its own assignor said; see `user_data`."""


class Assignor(Protocol):
    """Shares the partitions of a group out among its members."""

    @property
    def name(self) -> str:
        """What it is called on the wire; members of a group choose one that all of them have."""
        ...

    @property
    def protocols(self) -> Sequence[RebalanceProtocol]:
        """The ways of rebalancing that it supports, best first.

        An assignor that supports COOPERATIVE need not mind who owns what: what it moves from one member to
        another is held back by the leader until the former owner has given it up.
        """
        ...

    def assign(self, members: Mapping[str, AssignedMember], topics: Layout) -> Shares:
        """Say who gets what, given members by id and the topics that exist. A member may be left out."""
        ...


@runtime_checkable
class SpeaksOfItself(Protocol):
    """An assignor that also tells the leader something about each member, in bytes of its own."""

    def user_data(
        self, topics: Sequence[str], had: Sequence[TopicPartition], generation: int
    ) -> bytes | None:
        """What the leader shall know, given what this member was last assigned, and in which generation."""
        ...


def in_order(members: Mapping[str, AssignedMember]) -> list[str]:
    """The members' ids as Kafka sorts them: static members by instance id, then the others by member id."""
    return sorted(
        members,
        key=lambda member_id: (
            members[member_id].instance_id is None,
            members[member_id].instance_id or member_id,
        ),
    )


def hold_back_moving(
    members: Mapping[str, AssignedMember], shares: Shares
) -> dict[str, list[TopicPartition]]:
    """Leave out what a member would get while another has it still (KIP-429).

    Who has a partition is whoever claims it in the latest generation (KIP-792): an older claim is of a
    member that was away when the partition was given on. If two claim it in the same, nobody gets it; both
    give it up, and in the next round it is free.
    """
    owners: dict[TopicPartition, tuple[int, set[str]]] = {}
    for member_id, member in members.items():
        for place in member.owned:
            latest, claimants = owners.get(place, (member.generation, set[str]()))
            if member.generation > latest:
                owners[place] = (member.generation, {member_id})
            elif member.generation == latest:
                owners[place] = (latest, {*claimants, member_id})
    return {
        member_id: [
            place
            for place in sorted(shares.get(member_id, ()))
            if place not in owners or owners[place][1] == {member_id}
        ]
        for member_id in members
    }
