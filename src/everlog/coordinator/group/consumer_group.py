"""ConsumerGroup: the state of one group of KIP-848, as its records make it (C2, C3).

Three epochs tell how far it is. The group epoch rises with every change of members, subscriptions or topics;
the target epoch is the group epoch for which the targets were worked out; a member's epoch is the target
epoch that it has reached.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set

from everlog.coordinator.group import consumer_records as records
from everlog.coordinator.group.consumer_commits import Committer, check_commit, check_fetch
from everlog.coordinator.group.consumer_member import (
    LEAVE_EPOCH,
    NO_PARTITIONS,
    Member,
    MemberState,
    Partitions,
    Subscription,
    TopicIdPartition,
)
from everlog.coordinator.group.group import CONSUMER, CONSUMER_PROTOCOL_TYPE, CheckPartition
from everlog.coordinator.records import CoordinatorRecord
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Timestamp
from everlog.wire.message import Message
from everlog.wire.messages.consumer_group_current_member_assignment_record import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from everlog.wire.messages.consumer_group_member_metadata_record import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from everlog.wire.messages.consumer_group_metadata_record import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from everlog.wire.messages.consumer_group_regular_expression_record import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from everlog.wire.messages.consumer_group_target_assignment_member_record import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from everlog.wire.messages.consumer_group_target_assignment_metadata_record import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a pattern stood for."""

    topics: frozenset[str]
    version: int
    """The end of the metadata log that it was looked up in."""
    timestamp: int


class ConsumerGroup:
    """One group. Only `apply` changes it; what is read here are values that never change themselves."""

    type = CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE
    empty_since: Timestamp | None = None
    """Nobody writes it down: as in Kafka, offsets of such a group expire by when they were committed."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        """Stands for the topics, ids and partitions that the group epoch was last raised for."""
        self.members: dict[str, Member] = {}
        self.target_epoch = 0
        """At most `epoch`; lower while targets are yet to be worked out."""
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._instances: dict[str, str] = {}
        """Instance id to member id."""
        self._owners: dict[TopicIdPartition, str] = {}
        """Who has a partition, or has yet to give it up: one member at most."""
        self._regex_users: Counter[str] = Counter()
        """Pattern to how many members have it."""
        self._topics: frozenset[str] | None = None
        """What `subscribed_topics` found; None where it has to look again."""

    def copy(self) -> "ConsumerGroup":
        """A group of its own that records can be tried on."""
        twin = ConsumerGroup(self.id)
        twin.epoch, twin.metadata_hash = self.epoch, self.metadata_hash
        twin.target_epoch = self.target_epoch
        twin.members = dict(self.members)
        twin.targets = dict(self.targets)
        twin.regexes = dict(self.regexes)
        twin._instances = dict(self._instances)
        twin._owners = dict(self._owners)
        twin._regex_users = self._regex_users.copy()
        twin._topics = self._topics
        return twin

    def value(self) -> tuple[object, ...]:
        """All of the lasting state, to compare: replay must make the same."""
        return (
            self.id,
            self.epoch,
            self.metadata_hash,
            self.members,
            self.target_epoch,
            self.targets,
            self.regexes,
            self._instances,
            self._owners,
        )

    # --- what is asked of any group

    @property
    def state(self) -> str:
        """Kafka's name of how far the group is."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(self._has_arrived(member) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic, by name or by pattern."""
        return topic in self.subscribed_topics

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, api_version: int
    ) -> CheckPartition | None:
        """Refuse a commit by anyone but a member in its epoch."""
        return check_commit(self, Committer(member_id, instance_id, epoch, transactional), api_version)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Refuse a fetch of offsets by a member that is none, or in another epoch."""
        check_fetch(self, member_id, epoch)

    def heard_from(self, member_id: str) -> None:
        """A commit is no heartbeat here: members send those on their own, however long they work."""

    def describe(self) -> None:
        """DescribeGroups does not show such a group; ConsumerGroupDescribe does."""

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The records that remove the group; the one of its epoch comes last."""
        removed: list[CoordinatorRecord] = []
        for member_id in self.members:
            removed += records.no_member(self.id, member_id)
        removed += [records.no_regex(self.id, pattern) for pattern in self.regexes]
        return (*removed, records.no_target_epoch(self.id), records.no_group(self.id))

    # --- what the protocol asks

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """What any member reads, by name or by pattern."""
        if self._topics is None:
            self._topics = frozenset[str]().union(
                *(member.subscription.topics for member in self.members.values()),
                *(self.topics_of_regex(pattern) for pattern in self.used_regexes()),
            )
        return self._topics

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """What a member with that subscription reads, by name and by pattern."""
        if subscription.regex is None:
            return subscription.topics
        return subscription.topics | self.topics_of_regex(subscription.regex)

    def topics_of_regex(self, pattern: str) -> frozenset[str]:
        """The topics that a pattern stands for, as far as it was looked up."""
        resolved = self.regexes.get(pattern)
        return frozenset() if resolved is None else resolved.topics

    def used_regexes(self) -> Set[str]:
        """The patterns that members have."""
        return self._regex_users.keys()

    def member(self, member_id: str) -> Member:
        """The member of that id; Refused if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise Refused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"the group {self.id!r} has no member {member_id!r}: join again"
            )
        return member

    def static_member(self, instance_id: str) -> Member | None:
        """The member that has the instance id."""
        member_id = self._instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target(self, member_id: str) -> Partitions:
        """What a member is to have in the end."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def is_free_for(self, member_id: str) -> Callable[[TopicIdPartition], bool]:
        """Whether nobody but that member has a partition or has yet to give it up."""
        owners = self._owners
        return lambda one: owners.get(one, member_id) == member_id

    def waits_for_others(self, member: Member) -> bool:
        """Whether some partition that a member is to have is still another's."""
        is_free = self.is_free_for(member.id)
        return any(not is_free(one) for one in self.target(member.id) - member.partitions)

    def preferred_assignor(self, offered: Iterable[str]) -> str:
        """The assignor that most members ask for; among equals, and without any wish, the first offered."""
        order = list(offered)
        wishes = Counter(one.subscription.assignor for one in self.members.values())
        return max(order, key=lambda name: (wishes[name], -order.index(name)))

    def owners(self) -> Mapping[TopicIdPartition, str]:
        """Who has which partition, or has yet to give it up."""
        return self._owners

    def _has_arrived(self, member: Member) -> bool:
        return member.state is MemberState.STABLE and member.epoch == self.target_epoch

    # --- the state that records make

    def apply(self, record: CoordinatorRecord) -> None:
        """Take in one record of this group, other than the one that removes it."""
        key, value = record.key, record.value
        match key:
            case ConsumerGroupMetadataKey():
                if isinstance(value, ConsumerGroupMetadataValue):
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupMemberMetadataKey():
                self._apply_subscription(key.member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
                    self.target_epoch = value.assignment_epoch
                else:
                    self.target_epoch = 0
            case ConsumerGroupTargetAssignmentMemberKey():
                if isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
                    self.targets[key.member_id] = records.read_target(value)
                else:
                    self.targets.pop(key.member_id, None)
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._apply_current(key.member_id, value)
            case ConsumerGroupRegularExpressionKey():
                self._apply_regex(key.regular_expression, value)
            case _:
                # Type 4, which told the partitions of topics, is no longer written and says nothing more.
                pass

    def _apply_subscription(self, member_id: str, value: Message | None) -> None:
        self._topics = None
        old = self.members.get(member_id)
        if old is not None:
            self._forget_subscription(member_id, old.subscription)
        if isinstance(value, ConsumerGroupMemberMetadataValue):
            told = records.read_subscription(value)
            self.members[member_id] = Member(member_id, told) if old is None else old.subscribed(told)
            if told.instance_id is not None:
                self._instances[told.instance_id] = member_id
            if told.regex is not None:
                self._regex_users[told.regex] += 1
        elif old is not None:
            self._release(old)
            del self.members[member_id]

    def _forget_subscription(self, member_id: str, told: Subscription) -> None:
        # Another member may have taken the instance id over already.
        if told.instance_id is not None and self._instances.get(told.instance_id) == member_id:
            del self._instances[told.instance_id]
        if told.regex is not None:
            self._regex_users[told.regex] -= 1
            if not self._regex_users[told.regex]:
                del self._regex_users[told.regex]

    def _apply_current(self, member_id: str, value: Message | None) -> None:
        old = self.members.get(member_id)
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            # In a compacted log, what a member has may lie before what it told of itself.
            known = old or Member(member_id, Subscription(client_id="", client_host=""))
            self._release(known)
            self.members[member_id] = member = records.read_current(known, value)
            for partition in (*member.assigned, *member.pending_revocation):
                self._owners[partition] = member_id
        elif old is not None:
            self._release(old)
            self.members[member_id] = Member(member_id, old.subscription, LEAVE_EPOCH, LEAVE_EPOCH)

    def _release(self, member: Member) -> None:
        for partition in (*member.assigned, *member.pending_revocation):
            # While a log is replayed that compaction has thinned out, another may have it by now.
            if self._owners.get(partition) == member.id:
                del self._owners[partition]

    def _apply_regex(self, pattern: str, value: Message | None) -> None:
        self._topics = None
        if isinstance(value, ConsumerGroupRegularExpressionValue):
            self.regexes[pattern] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        else:
            self.regexes.pop(pattern, None)
