"""The records of `__cluster_metadata`."""

TEXT = """
RegisterBrokerRecord: record 0, versions 0-4, flexible 0+
    broker_id: int32
    is_migrating_zk_broker: bool 2+
    incarnation_id: uuid
    broker_epoch: int64
    end_points: [BrokerEndpoint]
        name: string
        host: string
        port: uint16
        security_protocol: int16
    features: [BrokerFeature]
        name: string
        min_supported_version: int16
        max_supported_version: int16
    rack: string?
    fenced: bool = true
    in_controlled_shutdown: bool 1+
    log_dirs: [uuid] 3+ tag 0
    cordoned_log_dirs: [uuid]? 4+ tag 1 = null

RemoteLogSegmentMetadataRecord: record 0, versions 0, flexible 0+
    remote_log_segment_id: RemoteLogSegmentIdEntry
        topic_id_partition: TopicIdPartitionEntry
            name: string
            id: uuid
            partition: int32
        id: uuid
    start_offset: int64
    end_offset: int64
    broker_id: int32
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: [SegmentLeaderEpochEntry]
        leader_epoch: int32
        offset: int64
    segment_size_in_bytes: int32
    custom_metadata: bytes? = null
    remote_log_segment_state: int8
    txn_index_empty: bool tag 0

UnregisterBrokerRecord: record 1, versions 0, flexible 0+
    broker_id: int32
    broker_epoch: int64

RemoteLogSegmentMetadataUpdateRecord: record 1, versions 0, flexible 0+
    remote_log_segment_id: RemoteLogSegmentIdEntry
        topic_id_partition: TopicIdPartitionEntry
            name: string
            id: uuid
            partition: int32
        id: uuid
    broker_id: int32
    event_timestamp_ms: int64
    custom_metadata: bytes? = null
    remote_log_segment_state: int8

TopicRecord: record 2, versions 0, flexible 0+
    name: string
    topic_id: uuid

RemotePartitionDeleteMetadataRecord: record 2, versions 0, flexible 0+
    topic_id_partition: TopicIdPartitionEntry
        name: string
        id: uuid
        partition: int32
    broker_id: int32
    event_timestamp_ms: int64
    remote_partition_delete_state: int8

PartitionRecord: record 3, versions 0-2, flexible 0+
    partition_id: int32 = -1
    topic_id: uuid
    replicas: [int32]
    isr: [int32]
    removing_replicas: [int32]
    adding_replicas: [int32]
    leader: int32 = -1
    leader_recovery_state: int8 tag 0
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: [uuid] 1+
    eligible_leader_replicas: [int32]? 2+ tag 1 = null
    last_known_elr: [int32]? 2+ tag 2 = null

RemoteLogSegmentMetadataSnapshotRecord: record 3, versions 0, flexible 0+
    segment_id: uuid
    start_offset: int64
    end_offset: int64
    broker_id: int32
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: [SegmentLeaderEpochEntry]
        leader_epoch: int32
        offset: int64
    segment_size_in_bytes: int32
    custom_metadata: bytes? = null
    remote_log_segment_state: int8
    txn_index_empty: bool tag 0

ConfigRecord: record 4, versions 0, flexible 0+
    resource_type: int8
    resource_name: string
    name: string
    value: string?

PartitionChangeRecord: record 5, versions 0-2, flexible 0+
    partition_id: int32 = -1
    topic_id: uuid
    isr: [int32]? tag 0 = null
    leader: int32 tag 1 = -2
    replicas: [int32]? tag 2 = null
    removing_replicas: [int32]? tag 3 = null
    adding_replicas: [int32]? tag 4 = null
    leader_recovery_state: int8 tag 5 = -1
    directories: [uuid]? 1+ tag 8 = null
    eligible_leader_replicas: [int32]? 2+ tag 6 = null
    last_known_elr: [int32]? 2+ tag 7 = null

FenceBrokerRecord: record 7, versions 0, flexible 0+
    id: int32
    epoch: int64

UnfenceBrokerRecord: record 8, versions 0, flexible 0+
    id: int32
    epoch: int64

RemoveTopicRecord: record 9, versions 0, flexible 0+
    topic_id: uuid

DelegationTokenRecord: record 10, versions 0, flexible 0+
    owner: string
    requester: string
    renewers: [string]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: string

UserScramCredentialRecord: record 11, versions 0, flexible 0+
    name: string
    mechanism: int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int32

FeatureLevelRecord: record 12, versions 0, flexible 0+
    name: string
    feature_level: int16

ClientQuotaRecord: record 14, versions 0, flexible 0+
    entity: [EntityData]
        entity_type: string
        entity_name: string?
    key: string
    value: float64
    remove: bool

ProducerIdsRecord: record 15, versions 0, flexible 0+
    broker_id: int32
    broker_epoch: int64 = -1
    next_producer_id: int64

BrokerRegistrationChangeRecord: record 17, versions 0-3, flexible 0+
    broker_id: int32
    broker_epoch: int64
    fenced: int8 tag 0
    in_controlled_shutdown: int8 1+ tag 1
    log_dirs: [uuid] 2+ tag 2
    cordoned_log_dirs: [uuid]? 3+ tag 3 = null

AccessControlEntryRecord: record 18, versions 0, flexible 0+
    id: uuid
    resource_type: int8
    resource_name: string
    pattern_type: int8
    principal: string
    host: string
    operation: int8
    permission_type: int8

RemoveAccessControlEntryRecord: record 19, versions 0, flexible 0+
    id: uuid

NoOpRecord: record 20, versions 0, flexible 0+

ZkMigrationStateRecord: record 21, versions 0, flexible 0+
    zk_migration_state: int8

RemoveUserScramCredentialRecord: record 22, versions 0, flexible 0+
    name: string
    mechanism: int8

BeginTransactionRecord: record 23, versions 0, flexible 0+
    name: string? tag 0 = null

EndTransactionRecord: record 24, versions 0, flexible 0+

AbortTransactionRecord: record 25, versions 0, flexible 0+
    reason: string? tag 0 = null

RemoveDelegationTokenRecord: record 26, versions 0, flexible 0+
    token_id: string

RegisterControllerRecord: record 27, versions 0, flexible 0+
    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: bool
    end_points: [ControllerEndpoint]
        name: string
        host: string
        port: uint16
        security_protocol: int16
    features: [ControllerFeature]
        name: string
        min_supported_version: int16
        max_supported_version: int16

ClearElrRecord: record 28, versions 0, flexible 0+
    topic_name: string

UnregisterControllerRecord: record 29, versions 0, flexible 0+
    controller_id: int32
"""
