"""The cluster as an administrator sees it: brokers, features, the quorum of its controllers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from everlog.client.core.admin.authorized import AclOperation, authorized_operations
from everlog.client.core.admin.choices import FeatureUpgrade
from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.client.core.metadata import Broker
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import METADATA_TOPIC
from everlog.wire.messages.api_versions import ApiVersionsResponse
from everlog.wire.messages.describe_cluster import DescribeClusterResponse
from everlog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from everlog.wire.messages.unregister_broker import UnregisterBrokerResponse
from everlog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id and brokers."""

    cluster_id: str
    controller_id: int
    brokers: Sequence[Broker]
    fenced: frozenset[int] = frozenset()
    """Brokers that are registered but take no part now; named only if that was asked for."""
    authorized_operations: frozenset[AclOperation] | None = None
    """What the caller may do with the cluster; None unless that was asked for."""


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """The lowest and highest level of a feature."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Features:
    """The level of each feature in the cluster, and what the broker that was asked could do."""

    finalized: Mapping[str, int]
    supported: Mapping[str, FeatureRange]
    epoch: int
    """Counts the changes; -1 if the broker does not tell."""


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A controller or broker that follows the metadata log; timestamps are None where not known."""

    node_id: int
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None
    directory_id: Uuid = NO_UUID
    """Which of the node's directories has its metadata log; all zero where the cluster does not tell."""


@dataclass(frozen=True, slots=True)
class QuorumEndpoint:
    """Where a controller listens for its peers."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Quorum:
    """The quorum of the metadata log."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[QuorumReplica]
    observers: Sequence[QuorumReplica]
    endpoints: Mapping[int, Sequence[QuorumEndpoint]] = field(
        default_factory=dict[int, Sequence[QuorumEndpoint]]
    )
    """Where each voter listens; empty where the cluster does not tell."""


def read_cluster(response: DescribeClusterResponse) -> ClusterDescription:
    """The cluster as an answer describes it; Refused if it is an error."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, "cluster")
    brokers = [Broker(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers]
    brokers.sort(key=lambda broker: broker.node_id)
    return ClusterDescription(
        response.cluster_id,
        response.controller_id,
        brokers,
        frozenset(broker.broker_id for broker in response.brokers if broker.is_fenced),
        authorized_operations(response.cluster_authorized_operations),
    )


def read_features(response: ApiVersionsResponse) -> Features:
    """The features that an answer to ApiVersions tells of."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, None, "features")
    return Features(
        {entry.name: entry.max_version_level for entry in response.finalized_features},
        {
            entry.name: FeatureRange(entry.min_version, entry.max_version)
            for entry in response.supported_features
        },
        response.finalized_features_epoch,
    )


def update_features_request(
    levels: Mapping[str, int], upgrade: FeatureUpgrade, timeout_ms: int, *, validate_only: bool
) -> UpdateFeaturesRequest:
    """Ask for features to have other levels; 0 takes one out of use."""
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade)
        for name, level in levels.items()
    ]
    return UpdateFeaturesRequest(timeout_ms=timeout_ms, feature_updates=updates, validate_only=validate_only)


def read_features_updated(
    response: UpdateFeaturesResponse, asked: Mapping[str, int]
) -> dict[str, Refused | None]:
    """What became of each feature. Newer versions answer for all of them at once."""
    if response.error_code != ErrorCode.NONE:
        named = ", ".join(f"{name}={level}" for name, level in asked.items())
        raise refusal(response.error_code, response.error_message, f"features {named}")
    updated: dict[str, Refused | None] = dict.fromkeys(asked)
    for entry in response.results:
        updated[entry.feature] = outcome(
            None, entry.error_code, entry.error_message, f"feature {entry.feature!r}"
        )
    return updated


def describe_quorum_request() -> DescribeQuorumRequest:
    """Ask for the quorum of the metadata log."""
    wanted = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
    return DescribeQuorumRequest(topics=[wanted])


def read_quorum(response: DescribeQuorumResponse) -> Quorum:
    """The quorum; Refused if it cannot be told."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, "quorum")
    for topic in response.topics:
        for entry in topic.partitions:
            if entry.error_code != ErrorCode.NONE:
                raise refusal(entry.error_code, entry.error_message, "quorum")
            return Quorum(
                entry.leader_id,
                entry.leader_epoch,
                entry.high_watermark,
                [_replica(state) for state in entry.current_voters],
                [_replica(state) for state in entry.observers],
                {node.node_id: [_endpoint(each) for each in node.listeners] for node in response.nodes},
            )
    raise refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves it out", "quorum")


def read_unregistered(response: UnregisterBrokerResponse, node_id: int) -> None:
    """Refused unless the broker is gone."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, f"broker {node_id}")


def _replica(state: ReplicaState) -> QuorumReplica:
    def known(timestamp: int) -> int | None:
        return timestamp if timestamp >= 0 else None

    return QuorumReplica(
        state.replica_id,
        state.log_end_offset,
        known(state.last_fetch_timestamp),
        known(state.last_caught_up_timestamp),
        state.replica_directory_id,
    )


def _endpoint(listener: Listener) -> QuorumEndpoint:
    return QuorumEndpoint(listener.name, listener.host, listener.port)
