"""The cluster: who is in it, and what brokers and the controller say to each other."""

TEXT = """
DescribeClusterRequest: request 60, versions 0-2, flexible 0+, on broker and controller
    include_cluster_authorized_operations: bool
    endpoint_type: int8 1+ = 1
    include_fenced_brokers: bool 2+

DescribeClusterResponse: response 60, versions 0-2, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    error_message: string? = null
    endpoint_type: int8 1+ = 1
    cluster_id: string
    controller_id: int32 = -1
    brokers: [DescribeClusterBroker]
        broker_id: int32
        host: string
        port: int32
        rack: string? = null
        is_fenced: bool 2+
    cluster_authorized_operations: int32 = -2147483648

UpdateFeaturesRequest: request 57, versions 0-2, flexible 0+, on broker and controller
    timeout_ms: int32 = 60000
    feature_updates: [FeatureUpdateKey]
        feature: string
        max_version_level: int16
        allow_downgrade: bool 0
        upgrade_type: int8 1+ = 1
    validate_only: bool 1+

UpdateFeaturesResponse: response 57, versions 0-2, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    error_message: string?
    results: [UpdatableFeatureResult] 0-1 ignorable
        feature: string
        error_code: int16
        error_message: string?

UnregisterBrokerRequest: request 64, versions 0, flexible 0+, on broker and controller
    broker_id: int32

UnregisterBrokerResponse: response 64, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    error_message: string?

UnregisterControllerRequest: request 94, versions 0, flexible 0+, on broker and controller
    controller_id: int32

UnregisterControllerResponse: response 94, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    error_message: string?

BrokerRegistrationRequest: request 62, versions 0-4, flexible 0+, on controller
    broker_id: int32
    cluster_id: string
    incarnation_id: uuid
    listeners: [Listener]
        name: string
        host: string
        port: uint16
        security_protocol: int16
    features: [Feature]
        name: string
        min_supported_version: int16
        max_supported_version: int16
    rack: string?
    is_migrating_zk_broker: bool 1+
    log_dirs: [uuid] 2+ ignorable
    previous_broker_epoch: int64 3+ ignorable = -1

BrokerRegistrationResponse: response 62, versions 0-4, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    broker_epoch: int64 = -1

BrokerHeartbeatRequest: request 63, versions 0-2, flexible 0+, on controller
    broker_id: int32
    broker_epoch: int64 = -1
    current_metadata_offset: int64
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: [uuid] 1+ tag 0
    cordoned_log_dirs: [uuid]? 2+ tag 1 = null

BrokerHeartbeatResponse: response 63, versions 0-2, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    is_caught_up: bool
    is_fenced: bool = true
    should_shut_down: bool

ControllerRegistrationRequest: request 70, versions 0, flexible 0+, on controller
    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: bool
    listeners: [Listener]
        name: string
        host: string
        port: uint16
        security_protocol: int16
    features: [Feature]
        name: string
        min_supported_version: int16
        max_supported_version: int16

ControllerRegistrationResponse: response 70, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    error_message: string?

AlterPartitionRequest: request 56, versions 2-3, flexible 2+, on controller
    broker_id: int32
    broker_epoch: int64 = -1
    topics: [RequestTopicData]
        topic_id: uuid ignorable
        partitions: [RequestPartitionData]
            partition_index: int32
            leader_epoch: int32
            new_isr: [int32] 2
            new_isr_with_epochs: [BrokerState] 3+
                broker_id: int32
                broker_epoch: int64 = -1
            leader_recovery_state: int8
            partition_epoch: int32

AlterPartitionResponse: response 56, versions 2-3, flexible 2+
    throttle_time_ms: int32
    error_code: int16
    topics: [ResponseTopicData]
        topic_id: uuid ignorable
        partitions: [ResponsePartitionData]
            partition_index: int32
            error_code: int16
            leader_id: int32
            leader_epoch: int32
            isr: [int32]
            leader_recovery_state: int8 ignorable
            partition_epoch: int32

AssignReplicasToDirsRequest: request 73, versions 0, flexible 0+, on controller
    broker_id: int32
    broker_epoch: int64 = -1
    directories: [RequestDirectoryData]
        id: uuid
        topics: [RequestTopicData]
            topic_id: uuid
            partitions: [RequestPartitionData]
                partition_index: int32

AssignReplicasToDirsResponse: response 73, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    directories: [ResponseDirectoryData]
        id: uuid
        topics: [ResponseTopicData]
            topic_id: uuid
            partitions: [ResponsePartitionData]
                partition_index: int32
                error_code: int16

AllocateProducerIdsRequest: request 67, versions 0, flexible 0+, on controller
    broker_id: int32
    broker_epoch: int64 = -1

AllocateProducerIdsResponse: response 67, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    producer_id_start: int64
    producer_id_len: int32
"""
