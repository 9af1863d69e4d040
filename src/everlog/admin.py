"""What `everlog.Admin` and `everlog.aio.Admin` take and return.

>>> from everlog.admin import ConfigResource, NewTopic
"""

from everlog.client.core.admin.acls import (
    Acl,
    AclFilter,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from everlog.client.core.admin.authorized import AclOperation
from everlog.client.core.admin.choices import Election, FeatureUpgrade
from everlog.client.core.admin.cluster import (
    ClusterDescription,
    FeatureRange,
    Features,
    Quorum,
    QuorumEndpoint,
    QuorumReplica,
)
from everlog.client.core.admin.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from everlog.client.core.admin.group_lag import PartitionLag
from everlog.client.core.admin.groups import Group, GroupListing, GroupMember
from everlog.client.core.admin.log_dirs import LogDir, Replica
from everlog.client.core.admin.offset_listing import ListedOffset, OffsetAt
from everlog.client.core.admin.offset_reset import (
    Move,
    ResetPlan,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
)
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.placement import Reassignment
from everlog.client.core.admin.quotas import ANY, DEFAULT, QuotaEntity
from everlog.client.core.admin.scram_users import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsert
from everlog.client.core.admin.topics import NewPartitions, NewTopic, TopicCreated, TopicDescription
from everlog.client.core.admin.transactions import (
    ActiveProducer,
    FencedProducer,
    Transaction,
    TransactionListing,
)
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.core.metadata import Broker, Partition
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
    "QuorumEndpoint",
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
