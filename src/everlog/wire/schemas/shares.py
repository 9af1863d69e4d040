"""Share groups: membership, fetch and acknowledge, and the state their coordinator keeps."""

TEXT = """
ShareGroupHeartbeatRequest: request 76, versions 1, flexible 1+, on broker
    group_id: string
    member_id: string
    member_epoch: int32
    rack_id: string? = null
    subscribed_topic_names: [string]? = null

ShareGroupHeartbeatResponse: response 76, versions 1, flexible 1+
    throttle_time_ms: int32
    error_code: int16
    error_message: string? = null
    member_id: string? = null
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment? = null
        topic_partitions: [TopicPartitions]
            topic_id: uuid
            partitions: [int32]

ShareGroupDescribeRequest: request 77, versions 1, flexible 1+, on broker
    group_ids: [string]
    include_authorized_operations: bool

ShareGroupDescribeResponse: response 77, versions 1, flexible 1+
    throttle_time_ms: int32
    groups: [DescribedGroup]
        error_code: int16
        error_message: string? = null
        group_id: string
        group_state: string
        group_epoch: int32
        assignment_epoch: int32
        assignor_name: string
        members: [Member]
            member_id: string
            rack_id: string? = null
            member_epoch: int32
            client_id: string
            client_host: string
            subscribed_topic_names: [string]
            assignment: Assignment
                topic_partitions: [TopicPartitions]
                    topic_id: uuid
                    topic_name: string
                    partitions: [int32]
        authorized_operations: int32 = -2147483648

ShareFetchRequest: request 78, versions 1-2, flexible 1+, on broker
    group_id: string? = null
    member_id: string?
    share_session_epoch: int32
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = 2147483647
    max_records: int32
    batch_size: int32
    share_acquire_mode: int8 2+ ignorable
    is_renew_ack: bool 2+
    topics: [FetchTopic]
        topic_id: uuid
        partitions: [FetchPartition]
            partition_index: int32
            acknowledgement_batches: [AcknowledgementBatch]
                first_offset: int64
                last_offset: int64
                acknowledge_types: [int8]
    forgotten_topics_data: [ForgottenTopic]
        topic_id: uuid
        partitions: [int32]

ShareFetchResponse: response 78, versions 1-2, flexible 1+
    throttle_time_ms: int32
    error_code: int16
    error_message: string? = null
    acquisition_lock_timeout_ms: int32
    responses: [ShareFetchableTopicResponse]
        topic_id: uuid
        partitions: [PartitionData]
            partition_index: int32
            error_code: int16
            error_message: string? = null
            acknowledge_error_code: int16
            acknowledge_error_message: string? = null
            current_leader: LeaderIdAndEpoch
                leader_id: int32
                leader_epoch: int32
            records: records
            acquired_records: [AcquiredRecords]
                first_offset: int64
                last_offset: int64
                delivery_count: int16
    node_endpoints: [NodeEndpoint]
        node_id: int32
        host: string
        port: int32
        rack: string? = null

ShareAcknowledgeRequest: request 79, versions 1-2, flexible 1+, on broker
    group_id: string? = null
    member_id: string?
    share_session_epoch: int32
    is_renew_ack: bool 2+
    topics: [AcknowledgeTopic]
        topic_id: uuid
        partitions: [AcknowledgePartition]
            partition_index: int32
            acknowledgement_batches: [AcknowledgementBatch]
                first_offset: int64
                last_offset: int64
                acknowledge_types: [int8]

ShareAcknowledgeResponse: response 79, versions 1-2, flexible 1+
    throttle_time_ms: int32
    error_code: int16
    error_message: string? = null
    acquisition_lock_timeout_ms: int32 2+ ignorable
    responses: [ShareAcknowledgeTopicResponse]
        topic_id: uuid
        partitions: [PartitionData]
            partition_index: int32
            error_code: int16
            error_message: string? = null
            current_leader: LeaderIdAndEpoch
                leader_id: int32
                leader_epoch: int32
    node_endpoints: [NodeEndpoint]
        node_id: int32
        host: string
        port: int32
        rack: string? = null

DescribeShareGroupOffsetsRequest: request 90, versions 0-1, flexible 0+, on broker
    groups: [DescribeShareGroupOffsetsRequestGroup]
        group_id: string
        topics: [DescribeShareGroupOffsetsRequestTopic]?
            topic_name: string
            partitions: [int32]

DescribeShareGroupOffsetsResponse: response 90, versions 0-1, flexible 0+
    throttle_time_ms: int32
    groups: [DescribeShareGroupOffsetsResponseGroup]
        group_id: string
        topics: [DescribeShareGroupOffsetsResponseTopic]
            topic_name: string
            topic_id: uuid
            partitions: [DescribeShareGroupOffsetsResponsePartition]
                partition_index: int32
                start_offset: int64
                leader_epoch: int32
                lag: int64 1+ ignorable = -1
                error_code: int16
                error_message: string? = null
        error_code: int16
        error_message: string? = null

AlterShareGroupOffsetsRequest: request 91, versions 0, flexible 0+, on broker
    group_id: string
    topics: [AlterShareGroupOffsetsRequestTopic]
        topic_name: string
        partitions: [AlterShareGroupOffsetsRequestPartition]
            partition_index: int32
            start_offset: int64

AlterShareGroupOffsetsResponse: response 91, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    error_message: string? = null
    responses: [AlterShareGroupOffsetsResponseTopic]
        topic_name: string
        topic_id: uuid
        partitions: [AlterShareGroupOffsetsResponsePartition]
            partition_index: int32
            error_code: int16
            error_message: string? = null

DeleteShareGroupOffsetsRequest: request 92, versions 0, flexible 0+, on broker
    group_id: string
    topics: [DeleteShareGroupOffsetsRequestTopic]
        topic_name: string

DeleteShareGroupOffsetsResponse: response 92, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    error_message: string? = null
    responses: [DeleteShareGroupOffsetsResponseTopic]
        topic_name: string
        topic_id: uuid
        error_code: int16
        error_message: string? = null

InitializeShareGroupStateRequest: request 83, versions 0, flexible 0+, on broker
    group_id: string
    topics: [InitializeStateData]
        topic_id: uuid
        partitions: [PartitionData]
            partition: int32
            state_epoch: int32
            start_offset: int64

InitializeShareGroupStateResponse: response 83, versions 0, flexible 0+
    results: [InitializeStateResult]
        topic_id: uuid
        partitions: [PartitionResult]
            partition: int32
            error_code: int16
            error_message: string? = null

ReadShareGroupStateRequest: request 84, versions 0, flexible 0+, on broker
    group_id: string
    topics: [ReadStateData]
        topic_id: uuid
        partitions: [PartitionData]
            partition: int32
            leader_epoch: int32

ReadShareGroupStateResponse: response 84, versions 0, flexible 0+
    results: [ReadStateResult]
        topic_id: uuid
        partitions: [PartitionResult]
            partition: int32
            error_code: int16
            error_message: string? = null
            state_epoch: int32
            start_offset: int64
            state_batches: [StateBatch]
                first_offset: int64
                last_offset: int64
                delivery_state: int8
                delivery_count: int16

WriteShareGroupStateRequest: request 85, versions 0-1, flexible 0+, on broker
    group_id: string
    topics: [WriteStateData]
        topic_id: uuid
        partitions: [PartitionData]
            partition: int32
            state_epoch: int32
            leader_epoch: int32
            start_offset: int64
            delivery_complete_count: int32 1+ ignorable = -1
            state_batches: [StateBatch]
                first_offset: int64
                last_offset: int64
                delivery_state: int8
                delivery_count: int16

WriteShareGroupStateResponse: response 85, versions 0-1, flexible 0+
    results: [WriteStateResult]
        topic_id: uuid
        partitions: [PartitionResult]
            partition: int32
            error_code: int16
            error_message: string? = null

DeleteShareGroupStateRequest: request 86, versions 0, flexible 0+, on broker
    group_id: string
    topics: [DeleteStateData]
        topic_id: uuid
        partitions: [PartitionData]
            partition: int32

DeleteShareGroupStateResponse: response 86, versions 0, flexible 0+
    results: [DeleteStateResult]
        topic_id: uuid
        partitions: [PartitionResult]
            partition: int32
            error_code: int16
            error_message: string? = null

ReadShareGroupStateSummaryRequest: request 87, versions 0-1, flexible 0+, on broker
    group_id: string
    topics: [ReadStateSummaryData]
        topic_id: uuid
        partitions: [PartitionData]
            partition: int32
            leader_epoch: int32

ReadShareGroupStateSummaryResponse: response 87, versions 0-1, flexible 0+
    results: [ReadStateSummaryResult]
        topic_id: uuid
        partitions: [PartitionResult]
            partition: int32
            error_code: int16
            error_message: string? = null
            state_epoch: int32
            leader_epoch: int32
            start_offset: int64
            delivery_complete_count: int32 1+ ignorable = -1
"""
