"""A classic group: its generation, its state, its members, and the record that keeps them."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from everlog.coordinator.group.classic_commands import GroupProtocol, Joined
from everlog.coordinator.group.classic_members import Member, Members, told_to_leader
from everlog.coordinator.group.classic_subscription import subscribed_topics
from everlog.coordinator.group.group import (
    CLASSIC,
    CONSUMER_PROTOCOL_TYPE,
    CheckPartition,
    DescribedGroup,
    DescribedMember,
)
from everlog.coordinator.group.kinds import CLASSIC_GROUP
from everlog.coordinator.records import CoordinatorRecord
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_TIMESTAMP, Timestamp
from everlog.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue, MemberMetadata

_VALUE_VERSION = 3
"""The version that Kafka writes; we read all."""


class State(StrEnum):
    """Where a group is, with Kafka's words."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    """Members are asked to join again, and wait until all have."""
    COMPLETING = "CompletingRebalance"
    """All have joined; the leader works out who does what."""
    STABLE = "Stable"


class Changed(NamedTuple):
    """How a record changed who is a member."""

    came: list[Member]
    went: list[Member]


class ClassicGroup:
    """One group. What `take_in` sets is kept in the log; the rest is soft and begins anew after a restart.

    Between two records the state, the generation and the members run ahead of what is kept: a generation that
    its leader has not assigned yet is forgotten by a restart, and its members join again.
    """

    type = CLASSIC

    def __init__(self, group_id: str, heard: Callable[["ClassicGroup", Member], None]) -> None:
        self.id = group_id
        self._heard = heard
        self.state = State.EMPTY
        self.is_kept = False
        """Whether the log knows it."""
        self.empty_since: Timestamp | None = None
        self.generation = 0
        """Grows with each rebalance, also when the group is empty after it."""
        self.protocol_type = ""
        """What the group is for; that of its first member, and kept when it is empty."""
        self.protocol: str | None = None
        """The protocol that was chosen for this generation; None in an empty group."""
        self.members = Members()
        self.pending: dict[str, None] = {}
        """Ids that were given out and did not join yet; never a member's."""
        self.unsynced: dict[str, None] = {}
        """The members of this generation that did not ask for their assignment yet."""
        self.is_initial = False
        """Whether the rebalance under way began with nobody, so that it waits for more to come."""
        self.has_grown = False
        """Whether somebody came since the wait for more began."""
        self.wait_left_ms = 0
        """By how much that wait may still be made longer."""
        self._topics: frozenset[str] | None = None
        self._topics_of: int | None = None
        """The generation whose topics `_topics` are."""

    @property
    def is_empty(self) -> bool:
        """Whether nobody is a member or about to be."""
        return self.state is State.EMPTY and not self.pending

    @property
    def is_for_consumers(self) -> bool:
        """Whether its members speak the consumers' protocol, as opposed to Connect's or another."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missing who might join this rebalance."""
        return self.members.joining == len(self.members) and not self.pending

    def can_take(self, protocol_type: str, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether one of the protocols is known to all members; an empty group takes whatever comes."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and self.members.know_one_of(protocols)

    def joined(self, member_id: str) -> Joined:
        """What a member of this generation is told; the leader hears of all the others."""
        leads = member_id == self.members.leader
        return Joined(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.members.leader or "",
            members=told_to_leader(self.members, self.protocol) if leads else (),
        )

    # --- what every group offers

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic; for consumers yes where their words cannot be read."""
        if not self.is_for_consumers:
            return False
        if self._topics_of != self.generation or self.state is State.PREPARING:
            self._topics = self._read_topics()
            self._topics_of = self.generation
        return self._topics is None or topic in self._topics

    def _read_topics(self) -> frozenset[str] | None:
        topics: set[str] = set()
        for member in self.members:
            of_member = subscribed_topics(member.metadata(self.protocol))
            if of_member is None:
                return None
            topics |= of_member
        return frozenset(topics)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, api_version: int
    ) -> CheckPartition | None:
        """Refuse the commit of who is no member of this generation, or has no assignment in it yet."""
        if epoch < 0 and self.state is State.EMPTY:
            return None
        if epoch >= 0 or member_id or instance_id is not None:
            self.members.find(member_id, instance_id)
            self.check_generation(epoch)
        elif not transactional and self.state is not State.EMPTY:
            raise Refused(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"the group {self.id!r} has members, and the commit comes from none of them",
            )
        if not transactional and self.state is State.COMPLETING:
            raise Refused(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"generation {self.generation} of group {self.id!r} has no assignment yet",
            )
        return None

    def check_generation(self, generation: int) -> None:
        """Refuse what is said in another generation's name."""
        if generation != self.generation:
            raise Refused(
                ErrorCode.ILLEGAL_GENERATION,
                f"the group {self.id!r} is in generation {self.generation}, found {generation}",
            )

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Anybody may fetch what a classic group has committed."""

    def heard_from(self, member_id: str) -> None:
        """Begin the member's session anew: it has committed."""
        member = self.members.get(member_id)
        if member is not None and self.state in (State.STABLE, State.PREPARING):
            self._heard(self, member)

    def describe(self) -> DescribedGroup:
        """The group as DescribeGroups shows it; what members say about themselves only while it is stable."""
        stable = self.state is State.STABLE
        return DescribedGroup(
            self.state,
            self.protocol_type,
            (self.protocol or "") if stable else "",
            tuple(
                DescribedMember(
                    one.id,
                    one.instance_id,
                    one.client_id,
                    one.client_host,
                    one.metadata(self.protocol) if stable else b"",
                    one.assignment,
                )
                for one in self.members
            ),
        )

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The record that removes it, if the log knows it."""
        return (CoordinatorRecord(CLASSIC_GROUP, _key(self.id), None),) if self.is_kept else ()

    # --- what the log keeps

    def record_of_stable(self, assignments: Mapping[str, bytes], wall: Timestamp) -> CoordinatorRecord:
        """This generation with everybody's assignment; who has none gets an empty one."""
        members = [_kept(one, self.protocol, assignments.get(one.id, b"")) for one in self.members]
        return self._record(members, self.members.leader, wall)

    def record_of_replaced(self, old: Member, new: Member, wall: Timestamp) -> CoordinatorRecord:
        """This generation with a static member's new self, that has the assignment of the old one."""
        members = [
            _kept(new, self.protocol, old.assignment)
            if one is old
            else _kept(one, self.protocol, one.assignment)
            for one in self.members
        ]
        return self._record(members, new.id if self.members.leader == old.id else self.members.leader, wall)

    def record_of_empty(self, wall: Timestamp) -> CoordinatorRecord:
        """This generation, in which nobody is."""
        assert not self.members, self.id
        return self._record([], None, wall)

    def _record(
        self, members: list[MemberMetadata], leader: str | None, wall: Timestamp
    ) -> CoordinatorRecord:
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=leader,
            current_state_timestamp=wall,
            members=members,
        )
        return CoordinatorRecord(CLASSIC_GROUP, _key(self.id), value, _VALUE_VERSION)

    def take_in(self, value: GroupMetadataValue) -> Changed:
        """Become what a record says; members that stay know what they knew."""
        self.is_kept = True
        self.generation = value.generation
        self.protocol_type = value.protocol_type
        self.protocol = value.protocol
        since = Timestamp(value.current_state_timestamp)
        self.empty_since = since if not value.members and since != NO_TIMESTAMP else None
        self._topics_of = None
        # A record is written when nobody waits any more: of a generation that is assigned, or of nobody.
        assert not any(one.waits for one in self.members), self.id
        before = {one.id: one for one in self.members}
        came: list[Member] = []
        self.members = Members()
        for kept in value.members:
            said = _from_record(kept, value.protocol)
            member = before.pop(kept.member_id, None)
            if member is None:
                came.append(said)
            self.members.add(said if member is None else member.become(said))
        if value.leader in self.members:
            self.members.leader = value.leader
        self.state = State.STABLE if value.members else State.EMPTY
        return Changed(came, list(before.values()))


def _key(group_id: str) -> GroupMetadataKey:
    return GroupMetadataKey(group=group_id)


def _kept(member: Member, protocol: str | None, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def _from_record(kept: MemberMetadata, protocol: str | None) -> Member:
    # Records of the first version have no rebalance time-out.
    rebalance_ms = kept.session_timeout if kept.rebalance_timeout < 0 else kept.rebalance_timeout
    return Member(
        kept.member_id,
        kept.group_instance_id,
        (kept.client_id, kept.client_host),
        (kept.session_timeout, rebalance_ms),
        (GroupProtocol(protocol or "", kept.subscription),),
        kept.assignment,
    )
