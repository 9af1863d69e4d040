"""The records of a consumer group: from our values to Kafka's messages and back."""

from collections.abc import Iterable

from everlog.coordinator.group.consumer_member import (
    NOTHING_ASSIGNED,
    Assigned,
    ClassicMetadata,
    Member,
    MemberState,
    Partitions,
    Subscription,
    TopicIdPartition,
    by_topic,
)
from everlog.coordinator.group.kinds import (
    CONSUMER_CURRENT,
    CONSUMER_GROUP,
    CONSUMER_MEMBER,
    CONSUMER_REGEX,
    CONSUMER_TARGET,
    CONSUMER_TARGET_MEMBER,
)
from everlog.coordinator.records import CoordinatorRecord
from everlog.model.ids import Timestamp
from everlog.wire.messages import consumer_group_current_member_assignment_record as current_record
from everlog.wire.messages import consumer_group_member_metadata_record as member_record
from everlog.wire.messages import consumer_group_target_assignment_member_record as target_record
from everlog.wire.messages.consumer_group_metadata_record import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from everlog.wire.messages.consumer_group_regular_expression_record import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from everlog.wire.messages.consumer_group_target_assignment_metadata_record import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group's epoch, and which topics it was raised for."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(CONSUMER_GROUP, ConsumerGroupMetadataKey(group_id=group_id), value)


def no_group(group_id: str) -> CoordinatorRecord:
    """The group is no more; the last of its tombstones."""
    return CoordinatorRecord(CONSUMER_GROUP, ConsumerGroupMetadataKey(group_id=group_id), None)


def subscription(group_id: str, member_id: str, told: Subscription) -> CoordinatorRecord:
    """What a member told of itself."""
    classic = None
    if told.classic is not None:
        classic = member_record.ClassicMemberMetadata(
            session_timeout_ms=told.classic.session_timeout_ms,
            supported_protocols=[
                member_record.ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in told.classic.protocols
            ],
        )
    value = member_record.ConsumerGroupMemberMetadataValue(
        instance_id=told.instance_id,
        rack_id=told.rack_id,
        client_id=told.client_id,
        client_host=told.client_host,
        subscribed_topic_names=sorted(told.topics),
        subscribed_topic_regex=told.regex,
        rebalance_timeout_ms=told.rebalance_timeout_ms,
        server_assignor=told.assignor,
        classic_member_metadata=classic,
    )
    return CoordinatorRecord(CONSUMER_MEMBER, _member_key(group_id, member_id), value)


def read_subscription(value: member_record.ConsumerGroupMemberMetadataValue) -> Subscription:
    """What `subscription` wrote."""
    classic = value.classic_member_metadata
    return Subscription(
        client_id=value.client_id,
        client_host=value.client_host,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms, tuple((one.name, one.metadata) for one in classic.supported_protocols)
        ),
    )


def target_epoch(group_id: str, epoch: int, wall: Timestamp) -> CoordinatorRecord:
    """For which group epoch the targets were worked out, and when."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall)
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    return CoordinatorRecord(CONSUMER_TARGET, key, value)


def target(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    """What a member is to have in the end."""
    value = target_record.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            target_record.TopicPartition(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(partitions).items()
        ]
    )
    key = target_record.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(CONSUMER_TARGET_MEMBER, key, value)


def read_target(value: target_record.ConsumerGroupTargetAssignmentMemberValue) -> Partitions:
    """What `target` wrote."""
    return frozenset(
        TopicIdPartition(topic.topic_id, index)
        for topic in value.topic_partitions
        for index in topic.partitions
    )


def current(group_id: str, member: Member) -> CoordinatorRecord:
    """What a member has now, and how far it is on its way."""
    value = current_record.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_write_assigned(member.assigned),
        partitions_pending_revocation=_write_assigned(member.pending_revocation),
    )
    key = current_record.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    return CoordinatorRecord(CONSUMER_CURRENT, key, value)


def read_current(member: Member, value: current_record.ConsumerGroupCurrentMemberAssignmentValue) -> Member:
    """The member with what `current` wrote."""
    return Member(
        member.id,
        member.subscription,
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state),
        _read_assigned(value.assigned_partitions, value.member_epoch),
        _read_assigned(value.partitions_pending_revocation, value.member_epoch),
    )


def regex(
    group_id: str, pattern: str, topics: Iterable[str], version: int, wall: Timestamp
) -> CoordinatorRecord:
    """The topics that a pattern stands for; `version` is the end of the metadata that it was seen in."""
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=wall)
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    return CoordinatorRecord(CONSUMER_REGEX, key, value)


def no_regex(group_id: str, pattern: str) -> CoordinatorRecord:
    """No member uses the pattern any more."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    return CoordinatorRecord(CONSUMER_REGEX, key, None)


def no_member(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """A member is no more: what it has, what it was to have, what it told."""
    return (
        CoordinatorRecord(
            CONSUMER_CURRENT,
            current_record.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
            None,
        ),
        CoordinatorRecord(
            CONSUMER_TARGET_MEMBER,
            target_record.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
            None,
        ),
        CoordinatorRecord(CONSUMER_MEMBER, _member_key(group_id, member_id), None),
    )


def no_target_epoch(group_id: str) -> CoordinatorRecord:
    """The group has no targets any more."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    return CoordinatorRecord(CONSUMER_TARGET, key, None)


def _member_key(group_id: str, member_id: str) -> member_record.ConsumerGroupMemberMetadataKey:
    return member_record.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def _write_assigned(assigned: Assigned) -> list[current_record.TopicPartitions]:
    return [
        current_record.TopicPartitions(
            topic_id=topic_id,
            partitions=indexes,
            assignment_epochs=[assigned[TopicIdPartition(topic_id, index)] for index in indexes],
        )
        for topic_id, indexes in by_topic(assigned).items()
    ]


def _read_assigned(topics: list[current_record.TopicPartitions], member_epoch: int) -> Assigned:
    found: dict[TopicIdPartition, int] = {}
    for topic in topics:
        # Versions without assignment epochs: as if all were given in the member's own epoch.
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        for index, epoch in zip(topic.partitions, epochs, strict=False):
            found[TopicIdPartition(topic.topic_id, index)] = epoch
    return found or NOTHING_ASSIGNED
