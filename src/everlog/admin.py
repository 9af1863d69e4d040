"""What `everlog.Admin` and `everlog.aio.Admin` take and return.

>>> from everlog.admin import ConfigResource, NewTopic
"""

from everlog.client.core.acl_admin import (
    Acl,
    AclFilter,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from everlog.client.core.admin_choices import Election, FeatureUpgrade
from everlog.client.core.authorized import AclOperation
from everlog.client.core.cluster_admin import (
    ClusterDescription,
    FeatureRange,
    Features,
    Quorum,
    QuorumReplica,
)
from everlog.client.core.config_admin import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from everlog.client.core.group_admin import Group, GroupListing, GroupMember
from everlog.client.core.group_lag import PartitionLag
from everlog.client.core.group_types import OffsetAndMetadata
from everlog.client.core.log_dirs_admin import LogDir, Replica
from everlog.client.core.metadata import Broker, Partition
from everlog.client.core.offset_listing import ListedOffset, OffsetAt
from everlog.client.core.offset_reset import (
    Move,
    ResetPlan,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
)
from everlog.client.core.outcomes import ItemsRefused
from everlog.client.core.placement_admin import Reassignment
from everlog.client.core.quota_admin import ANY, DEFAULT, QuotaEntity
from everlog.client.core.scram_admin import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsert
from everlog.client.core.topic_admin import NewPartitions, NewTopic, TopicCreated, TopicDescription
from everlog.client.core.txn_admin import ActiveProducer, FencedProducer, Transaction, TransactionListing
from everlog.model.topics import TopicPartition

__all__ = [
    "ANY",
    "DEFAULT",
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermission",
    "AclResourceType",
    "ActiveProducer",
    "Broker",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "Election",
    "FeatureRange",
    "FeatureUpgrade",
    "Features",
    "FencedProducer",
    "Group",
    "GroupListing",
    "GroupMember",
    "ItemsRefused",
    "ListedOffset",
    "LogDir",
    "Move",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAt",
    "Partition",
    "PartitionLag",
    "Quorum",
    "QuorumReplica",
    "QuotaEntity",
    "Reassignment",
    "Replica",
    "ResetPlan",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsert",
    "ShiftBy",
    "ToCurrent",
    "ToEarliest",
    "ToLatest",
    "ToOffset",
    "ToTime",
    "TopicCreated",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "TransactionListing",
]
