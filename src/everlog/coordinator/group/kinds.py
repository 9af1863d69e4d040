"""The record types of `__consumer_offsets`."""

from everlog.coordinator.records import Kinds, RecordKind
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
from everlog.wire.messages.consumer_group_partition_metadata_record import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
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
from everlog.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue
from everlog.wire.messages.legacy_offset_commit_record import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from everlog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue

LEGACY_OFFSET = 0
OFFSET = 1
CLASSIC_GROUP = 2
CONSUMER_GROUP = 3
CONSUMER_PARTITIONS = 4
CONSUMER_MEMBER = 5
CONSUMER_TARGET = 6
CONSUMER_TARGET_MEMBER = 7
CONSUMER_CURRENT = 8
CONSUMER_REGEX = 16

OFFSET_TYPES = frozenset({LEGACY_OFFSET, OFFSET})
CONSUMER_TYPES = frozenset(
    {
        CONSUMER_GROUP,
        CONSUMER_PARTITIONS,
        CONSUMER_MEMBER,
        CONSUMER_TARGET,
        CONSUMER_TARGET_MEMBER,
        CONSUMER_CURRENT,
        CONSUMER_REGEX,
    }
)

GROUP_KINDS: Kinds = {
    LEGACY_OFFSET: RecordKind(LegacyOffsetCommitKey, LegacyOffsetCommitValue, 0, last_wins=True),
    OFFSET: RecordKind(OffsetCommitKey, OffsetCommitValue, 4, last_wins=True),
    CLASSIC_GROUP: RecordKind(GroupMetadataKey, GroupMetadataValue, 4),
    CONSUMER_GROUP: RecordKind(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0),
    CONSUMER_PARTITIONS: RecordKind(
        ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0
    ),
    CONSUMER_MEMBER: RecordKind(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0),
    CONSUMER_TARGET: RecordKind(
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0
    ),
    CONSUMER_TARGET_MEMBER: RecordKind(
        ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0
    ),
    CONSUMER_CURRENT: RecordKind(
        ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0
    ),
    CONSUMER_REGEX: RecordKind(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0),
}
"""Record type to its messages; types of groups that we do not serve are passed over in replay."""
