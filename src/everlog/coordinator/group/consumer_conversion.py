"""From the classic protocol to the consumer protocol and back, while members go on reading (KIP-848).

The first member that joins a classic group with the consumer protocol makes it a consumer group; the classic
members stay in it and are spoken to as they are used to (`consumer_classic`). When the last member that
speaks the consumer protocol has gone, the group is a classic one again, and its members rebalance.
"""

import logging

from everlog.coordinator.group import consumer_records as records
from everlog.coordinator.group.classic_commands import GroupProtocol
from everlog.coordinator.group.classic_group import ClassicGroup
from everlog.coordinator.group.classic_members import Member as ClassicMember
from everlog.coordinator.group.classic_members import choose_protocol
from everlog.coordinator.group.consumer_embedded import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_member import ClassicMetadata, Member, MemberState, Subscription
from everlog.coordinator.group.consumer_topics import TopicView
from everlog.coordinator.group.group import CONSUMER_PROTOCOL_TYPE
from everlog.coordinator.group.kinds import CLASSIC_GROUP
from everlog.coordinator.records import CoordinatorRecord
from everlog.metadata.image import ClusterImage
from everlog.model.errors import CorruptDataError, ErrorCode, Refused
from everlog.model.ids import Timestamp
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.wire.messages.group_metadata_record import GroupMetadataKey

_log = logging.getLogger(__name__)

_NEVER = Timestamp(0)
_UPGRADE = ("bidirectional", "upgrade")
_DOWNGRADE = ("bidirectional", "downgrade")
DISABLED = "disabled"
_BUILT_IN_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Assignors of clients that do not need what they write into an assignment: librdkafka's sticky one does,
to find its last assignment again. Others, such as that of Kafka Streams, would be lost without it."""


def classic_tombstone(group_id: str) -> CoordinatorRecord:
    """The classic group is no more; who waits in it is told to join again. It goes before `upgrade`'s."""
    return CoordinatorRecord(CLASSIC_GROUP, GroupMetadataKey(group=group_id), None)


def upgrade(group: ClassicGroup, topics: TopicView, settings: BrokerSettings) -> list[CoordinatorRecord]:
    """The records of the consumer group that a classic one becomes; Refused if it cannot.

    Members keep what they have; the generation becomes the epoch.
    """
    _check_upgrade(group, settings)
    members = [_upgraded(group, one, topics.image) for one in group.members]
    made = [records.subscription(group.id, member.id, member.subscription) for member in members]
    read = frozenset[str]().union(*(member.subscription.topics for member in members))
    made.append(records.group_epoch(group.id, group.generation, topics.hash(read)))
    made += [records.target(group.id, member.id, member.partitions) for member in members]
    made.append(records.target_epoch(group.id, group.generation, _NEVER))
    made += [records.current(group.id, member) for member in members]
    return made


def _check_upgrade(group: ClassicGroup, settings: BrokerSettings) -> None:
    if not group.members:
        return
    problem = None
    if settings[keys.GROUP_CONSUMER_MIGRATION_POLICY] not in _UPGRADE:
        problem = "the migration policy does not allow it"
    elif group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        problem = f"its members are not consumers but of the protocol type {group.protocol_type!r}"
    elif len(group.members) > settings[keys.GROUP_CONSUMER_MAX_SIZE]:
        problem = f"it has {len(group.members)} members, more than a consumer group may have"
    if problem is not None:
        raise _cannot(group, problem)


def _upgraded(group: ClassicGroup, member: ClassicMember, image: ClusterImage) -> Member:
    # The protocol that was chosen comes first, since it is the one that was read and that the member goes on
    # with; before its first generation a group has none, and a member's own first choice is as good.
    protocols = sorted(member.protocols, key=lambda one: one.name != group.protocol)
    try:
        told = read_subscription(protocols[0].metadata, image)
        has = read_assignment(member.assignment, image, user_data=group.protocol in _BUILT_IN_ASSIGNORS)
    except CorruptDataError as problem:
        raise _cannot(group, str(problem)) from problem
    return Member(
        member.id,
        Subscription(
            client_id=member.client_id,
            client_host=member.client_host,
            instance_id=member.instance_id,
            rack_id=told.rack_id,
            topics=told.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMetadata(
                member.session_timeout_ms, tuple((one.name, one.metadata) for one in protocols)
            ),
        ),
        group.generation,
        group.generation,
        MemberState.STABLE,
        dict.fromkeys(sorted(has), group.generation),
    )


def _cannot(group: ClassicGroup, problem: str) -> Refused:
    _log.info("the classic group %r cannot become a consumer group: %s", group.id, problem)
    return Refused(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"the classic group {group.id!r} cannot become a consumer group: {problem}",
    )


def may_downgrade(group: ConsumerGroup, settings: BrokerSettings) -> bool:
    """Whether a group is to be a classic one again: all members speak the classic protocol."""
    return (
        not group.is_empty
        and all(member.speaks_classic for member in group.members.values())
        and settings[keys.GROUP_CONSUMER_MIGRATION_POLICY] in _DOWNGRADE
        and len(group.members) <= settings[keys.GROUP_MAX_SIZE]
    )


def downgrade(
    group: ConsumerGroup, generation: int, image: ClusterImage, wall: Timestamp
) -> CoordinatorRecord:
    """The record of the classic group that a consumer group becomes, in the generation that it has.

    Each member's assignment is what it has, and not what it was to have: another may still have that.
    """
    classic = ClassicGroup(group.id, lambda _group, _member: None)
    classic.generation = generation
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    assignments: dict[str, bytes] = {}
    for member in group.members.values():
        told, spoken = member.subscription, member.subscription.classic
        assert spoken is not None, member.id
        protocols = tuple(GroupProtocol(name, metadata) for name, metadata in spoken.protocols)
        classic.members.add(
            ClassicMember(
                member.id,
                told.instance_id,
                (told.client_id, told.client_host),
                (spoken.session_timeout_ms, told.rebalance_timeout_ms),
                protocols,
            )
        )
        assignments[member.id] = write_assignment(member.partitions, protocols[0].metadata, image)
    classic.protocol = choose_protocol(list(classic.members))
    return classic.record_of_stable(assignments, wall)
