"""The records of `__consumer_offsets`, `__transaction_state` and `__share_group_state`, and markers."""

TEXT = """
LegacyOffsetCommitKey: key 0, versions 0
    group: string
    topic: string
    partition: int32

LegacyOffsetCommitValue: value 0, versions 0
    offset: int64
    metadata: string
    commit_timestamp: int64

OffsetCommitKey: key 1, versions 0
    group: string
    topic: string
    partition: int32

OffsetCommitValue: value 1, versions 0-4, flexible 4+
    offset: int64
    leader_epoch: int32 3+ ignorable = -1
    metadata: string
    commit_timestamp: int64
    expire_timestamp: int64 1 ignorable = -1
    topic_id: uuid 4+ tag 0 ignorable

GroupMetadataKey: key 2, versions 0
    group: string

GroupMetadataValue: value 2, versions 0-4, flexible 4+
    protocol_type: string
    generation: int32
    protocol: string?
    leader: string?
    current_state_timestamp: int64 2+ ignorable = -1
    members: [MemberMetadata]
        member_id: string
        group_instance_id: string? 3+ ignorable = null
        client_id: string
        client_host: string
        rebalance_timeout: int32 1+ ignorable = -1
        session_timeout: int32
        subscription: bytes
        assignment: bytes

ConsumerGroupMetadataKey: key 3, versions 0
    group_id: string

ConsumerGroupMetadataValue: value 3, versions 0, flexible 0+
    epoch: int32
    metadata_hash: int64 tag 0

ConsumerGroupPartitionMetadataKey: key 4, versions 0
    group_id: string

ConsumerGroupPartitionMetadataValue: value 4, versions 0, flexible 0+
    topics: [TopicMetadata]
        topic_id: uuid
        topic_name: string
        num_partitions: int32
        partition_metadata: [PartitionMetadata]
            partition: int32
            racks: [string]

ConsumerGroupMemberMetadataKey: key 5, versions 0
    group_id: string
    member_id: string

ConsumerGroupMemberMetadataValue: value 5, versions 0, flexible 0+
    instance_id: string?
    rack_id: string?
    client_id: string
    client_host: string
    subscribed_topic_names: [string]
    subscribed_topic_regex: string?
    rebalance_timeout_ms: int32 = -1
    server_assignor: string?
    classic_member_metadata: ClassicMemberMetadata? tag 0 = null
        session_timeout_ms: int32
        supported_protocols: [ClassicProtocol]
            name: string
            metadata: bytes

ConsumerGroupTargetAssignmentMetadataKey: key 6, versions 0
    group_id: string

ConsumerGroupTargetAssignmentMetadataValue: value 6, versions 0, flexible 0+
    assignment_epoch: int32
    assignment_timestamp: int64 tag 0 ignorable

ConsumerGroupTargetAssignmentMemberKey: key 7, versions 0
    group_id: string
    member_id: string

ConsumerGroupTargetAssignmentMemberValue: value 7, versions 0, flexible 0+
    topic_partitions: [TopicPartition]
        topic_id: uuid
        partitions: [int32]

ConsumerGroupCurrentMemberAssignmentKey: key 8, versions 0
    group_id: string
    member_id: string

ConsumerGroupCurrentMemberAssignmentValue: value 8, versions 0, flexible 0+
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: [TopicPartitions]
        topic_id: uuid
        partitions: [int32]
        assignment_epochs: [int32]? tag 0 = null
    partitions_pending_revocation: [TopicPartitions]

ShareGroupMemberMetadataKey: key 10, versions 0
    group_id: string
    member_id: string

ShareGroupMemberMetadataValue: value 10, versions 0, flexible 0+
    rack_id: string?
    client_id: string
    client_host: string
    subscribed_topic_names: [string]

ShareGroupMetadataKey: key 11, versions 0
    group_id: string

ShareGroupMetadataValue: value 11, versions 0, flexible 0+
    epoch: int32
    metadata_hash: int64

ShareGroupTargetAssignmentMetadataKey: key 12, versions 0
    group_id: string

ShareGroupTargetAssignmentMetadataValue: value 12, versions 0, flexible 0+
    assignment_epoch: int32
    assignment_timestamp: int64 tag 0 ignorable

ShareGroupTargetAssignmentMemberKey: key 13, versions 0
    group_id: string
    member_id: string

ShareGroupTargetAssignmentMemberValue: value 13, versions 0, flexible 0+
    topic_partitions: [TopicPartition]
        topic_id: uuid
        partitions: [int32]

ShareGroupCurrentMemberAssignmentKey: key 14, versions 0
    group_id: string
    member_id: string

ShareGroupCurrentMemberAssignmentValue: value 14, versions 0, flexible 0+
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: [TopicPartitions]
        topic_id: uuid
        partitions: [int32]

ShareGroupStatePartitionMetadataKey: key 15, versions 0
    group_id: string

ShareGroupStatePartitionMetadataValue: value 15, versions 0, flexible 0+
    initializing_topics: [TopicPartitionsInfo]
        topic_id: uuid
        topic_name: string
        partitions: [int32]
    initialized_topics: [TopicPartitionsInfo]
    deleting_topics: [TopicInfo]
        topic_id: uuid
        topic_name: string

ConsumerGroupRegularExpressionKey: key 16, versions 0
    group_id: string
    regular_expression: string

ConsumerGroupRegularExpressionValue: value 16, versions 0, flexible 0+
    topics: [string]
    version: int64
    timestamp: int64

TransactionLogKey: key 0, versions 0
    transactional_id: string

TransactionLogValue: value 0, versions 0-1, flexible 1+
    producer_id: int64
    previous_producer_id: int64 1+ tag 0 = -1
    next_producer_id: int64 1+ tag 1 = -1
    producer_epoch: int16
    next_producer_epoch: int16 1+ tag 3 = -1
    transaction_timeout_ms: int32
    transaction_status: int8
    transaction_partitions: [PartitionsSchema]?
        topic: string
        partition_ids: [int32]
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 1+ tag 2

ShareSnapshotKey: key 0, versions 0
    group_id: string
    topic_id: uuid
    partition: int32

ShareSnapshotValue: value 0, versions 0, flexible 0+
    snapshot_epoch: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 tag 0 = -1
    create_timestamp: int64
    write_timestamp: int64
    state_batches: [StateBatch]
        first_offset: int64
        last_offset: int64
        delivery_state: int8
        delivery_count: int16

ShareUpdateKey: key 1, versions 0
    group_id: string
    topic_id: uuid
    partition: int32

ShareUpdateValue: value 1, versions 0, flexible 0+
    snapshot_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 tag 0 = -1
    state_batches: [StateBatch]
        first_offset: int64
        last_offset: int64
        delivery_state: int8
        delivery_count: int16

EndTxnMarker: data, versions 0
    coordinator_epoch: int32

ControlRecordTypeSchema: data, versions 0
    type: int16

AbortedTxn: data, versions 0
    producer_id: int64
    first_offset: int64
    last_offset: int64
    last_stable_offset: int64
"""
