"""Reading and writing partitions, and finding them."""

TEXT = """
ProduceRequest: request 0, versions 3-13, flexible 9+, on broker
    transactional_id: string? = null
    acks: int16
    timeout_ms: int32
    topic_data: [TopicProduceData]
        name: string 3-12 ignorable
        topic_id: uuid 13+ ignorable
        partition_data: [PartitionProduceData]
            index: int32
            records: records?

ProduceResponse: response 0, versions 3-13, flexible 9+
    responses: [TopicProduceResponse]
        name: string 3-12 ignorable
        topic_id: uuid 13+ ignorable
        partition_responses: [PartitionProduceResponse]
            index: int32
            error_code: int16
            base_offset: int64
            log_append_time_ms: int64 ignorable = -1
            log_start_offset: int64 5+ ignorable = -1
            record_errors: [BatchIndexAndErrorMessage] 8+ ignorable
                batch_index: int32
                batch_index_error_message: string? = null
            error_message: string? 8+ ignorable = null
            current_leader: LeaderIdAndEpoch 10+ tag 0
                leader_id: int32 = -1
                leader_epoch: int32 = -1
    throttle_time_ms: int32 ignorable
    node_endpoints: [NodeEndpoint] 10+ tag 0
        node_id: int32
        host: string
        port: int32
        rack: string? = null

FetchRequest: request 1, versions 4-18, flexible 12+, on broker and controller
    cluster_id: string? 12+ tag 0 ignorable = null
    replica_id: int32 4-14 = -1
    replica_state: ReplicaState 15+ tag 1
        replica_id: int32 = -1
        replica_epoch: int64 = -1
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 ignorable = 2147483647
    isolation_level: int8 ignorable
    session_id: int32 7+ ignorable
    session_epoch: int32 7+ ignorable = -1
    topics: [FetchTopic]
        topic: string 4-12 ignorable
        topic_id: uuid 13+ ignorable
        partitions: [FetchPartition]
            partition: int32
            current_leader_epoch: int32 9+ ignorable = -1
            fetch_offset: int64
            last_fetched_epoch: int32 12+ = -1
            log_start_offset: int64 5+ ignorable = -1
            partition_max_bytes: int32
            replica_directory_id: uuid 17+ tag 0 ignorable
            high_watermark: int64 18+ tag 1 ignorable = 9223372036854775807
    forgotten_topics_data: [ForgottenTopic] 7+
        topic: string 7-12 ignorable
        topic_id: uuid 13+ ignorable
        partitions: [int32]
    rack_id: string 11+ ignorable

FetchResponse: response 1, versions 4-18, flexible 12+
    throttle_time_ms: int32 ignorable
    error_code: int16 7+ ignorable
    session_id: int32 7+
    responses: [FetchableTopicResponse]
        topic: string 4-12 ignorable
        topic_id: uuid 13+ ignorable
        partitions: [PartitionData]
            partition_index: int32
            error_code: int16
            high_watermark: int64
            last_stable_offset: int64 ignorable = -1
            log_start_offset: int64 5+ ignorable = -1
            diverging_epoch: EpochEndOffset 12+ tag 0
                epoch: int32 = -1
                end_offset: int64 = -1
            current_leader: LeaderIdAndEpoch 12+ tag 1
                leader_id: int32 = -1
                leader_epoch: int32 = -1
            snapshot_id: SnapshotId 12+ tag 2
                end_offset: int64 = -1
                epoch: int32 = -1
            aborted_transactions: [AbortedTransaction]? ignorable
                producer_id: int64
                first_offset: int64
            preferred_read_replica: int32 11+ = -1
            records: records?
    node_endpoints: [NodeEndpoint] 16+ tag 0
        node_id: int32
        host: string
        port: int32
        rack: string? = null

ListOffsetsRequest: request 2, versions 1-11, flexible 6+, on broker
    replica_id: int32
    isolation_level: int8 2+
    topics: [ListOffsetsTopic]
        name: string
        partitions: [ListOffsetsPartition]
            partition_index: int32
            current_leader_epoch: int32 4+ ignorable = -1
            timestamp: int64
    timeout_ms: int32 10+ ignorable

ListOffsetsResponse: response 2, versions 1-11, flexible 6+
    throttle_time_ms: int32 2+ ignorable
    topics: [ListOffsetsTopicResponse]
        name: string
        partitions: [ListOffsetsPartitionResponse]
            partition_index: int32
            error_code: int16
            timestamp: int64 = -1
            offset: int64 = -1
            leader_epoch: int32 4+ = -1

MetadataRequest: request 3, versions 0-13, flexible 9+, on broker
    topics: [MetadataRequestTopic]?1+
        topic_id: uuid 10+ ignorable
        name: string?10+
    allow_auto_topic_creation: bool 4+ = true
    include_cluster_authorized_operations: bool 8-10
    include_topic_authorized_operations: bool 8+

MetadataResponse: response 3, versions 0-13, flexible 9+
    throttle_time_ms: int32 3+ ignorable
    brokers: [MetadataResponseBroker]
        node_id: int32
        host: string
        port: int32
        rack: string? 1+ ignorable = null
    cluster_id: string? 2+ ignorable = null
    controller_id: int32 1+ ignorable = -1
    topics: [MetadataResponseTopic]
        error_code: int16
        name: string?12+
        topic_id: uuid 10+ ignorable
        is_internal: bool 1+ ignorable
        partitions: [MetadataResponsePartition]
            error_code: int16
            partition_index: int32
            leader_id: int32
            leader_epoch: int32 7+ ignorable = -1
            replica_nodes: [int32]
            isr_nodes: [int32]
            offline_replicas: [int32] 5+ ignorable
        topic_authorized_operations: int32 8+ = -2147483648
    cluster_authorized_operations: int32 8-10 = -2147483648
    error_code: int16 13+ ignorable

OffsetForLeaderEpochRequest: request 23, versions 2-4, flexible 4+, on broker
    replica_id: int32 3+ ignorable = -2
    topics: [OffsetForLeaderTopic]
        topic: string
        partitions: [OffsetForLeaderPartition]
            partition: int32
            current_leader_epoch: int32 ignorable = -1
            leader_epoch: int32

OffsetForLeaderEpochResponse: response 23, versions 2-4, flexible 4+
    throttle_time_ms: int32 ignorable
    topics: [OffsetForLeaderTopicResult]
        topic: string
        partitions: [EpochEndOffset]
            error_code: int16
            partition: int32
            leader_epoch: int32 ignorable = -1
            end_offset: int64 = -1

GetReplicaLogInfoRequest: request 10093, versions 0, flexible 0+, on broker
    topic_partitions: [LogInfoTopic]?
        topic_id: uuid ignorable
        partitions: [int32]

GetReplicaLogInfoResponse: response 10093, versions 0, flexible 0+
    throttle_time_ms: int32
    broker_epoch: int64
    truncated: bool
    topic_partition_log_info_list: [TopicPartitionLogInfo]
        topic_id: uuid
        partition_log_info: [PartitionLogInfo]
            partition: int32
            last_written_leader_epoch: int32
            current_leader_epoch: int32
            log_end_offset: int64
            error_code: int16

DeleteRecordsRequest: request 21, versions 0-2, flexible 2+, on broker
    topics: [DeleteRecordsTopic]
        name: string
        partitions: [DeleteRecordsPartition]
            partition_index: int32
            offset: int64
    timeout_ms: int32

DeleteRecordsResponse: response 21, versions 0-2, flexible 2+
    throttle_time_ms: int32
    topics: [DeleteRecordsTopicResult]
        name: string
        partitions: [DeleteRecordsPartitionResult]
            partition_index: int32
            low_watermark: int64
            error_code: int16

DescribeTopicPartitionsRequest: request 75, versions 0, flexible 0+, on broker
    topics: [TopicRequest]
        name: string
    response_partition_limit: int32 = 2000
    cursor: Cursor? = null
        topic_name: string
        partition_index: int32

DescribeTopicPartitionsResponse: response 75, versions 0, flexible 0+
    throttle_time_ms: int32 ignorable
    topics: [DescribeTopicPartitionsResponseTopic]
        error_code: int16
        name: string?
        topic_id: uuid ignorable
        is_internal: bool ignorable
        partitions: [DescribeTopicPartitionsResponsePartition]
            error_code: int16
            partition_index: int32
            leader_id: int32
            leader_epoch: int32 ignorable = -1
            replica_nodes: [int32]
            isr_nodes: [int32]
            eligible_leader_replicas: [int32]? = null
            last_known_elr: [int32]? = null
            offline_replicas: [int32] ignorable
        topic_authorized_operations: int32 = -2147483648
    next_cursor: Cursor? = null
        topic_name: string
        partition_index: int32

DescribeProducersRequest: request 61, versions 0, flexible 0+, on broker
    topics: [TopicRequest]
        name: string
        partition_indexes: [int32]

DescribeProducersResponse: response 61, versions 0, flexible 0+
    throttle_time_ms: int32
    topics: [TopicResponse]
        name: string
        partitions: [PartitionResponse]
            partition_index: int32
            error_code: int16
            error_message: string? = null
            active_producers: [ProducerState]
                producer_id: int64
                producer_epoch: int32
                last_sequence: int32 = -1
                last_timestamp: int64 = -1
                coordinator_epoch: int32
                current_txn_start_offset: int64 = -1
"""
