"""The cluster: its brokers, features, quorum, disks, and where partitions live (blocking)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from everlog.client.core.admin.choices import Election, FeatureUpgrade
from everlog.client.sync.admin_desk import AdminDesk
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition

if TYPE_CHECKING:
    from everlog.client.core.admin.cluster import ClusterDescription, Features, Quorum, QuorumEndpoint
    from everlog.client.core.admin.log_dirs import LogDir, Replica
    from everlog.client.core.admin.placement import Reassignment


class ClusterCalls(AdminDesk):
    """Calls about the cluster."""

    def describe_cluster(
        self, *, authorized_operations: bool = False, include_fenced_brokers: bool = False
    ) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        return self._run(
            self._admin.describe_cluster(
                authorized_operations=authorized_operations, include_fenced_brokers=include_fenced_brokers
            )
        )

    def describe_features(self) -> Features:
        """The level of each feature, such as `metadata.version`, and what a broker could do."""
        return self._run(self._admin.describe_features())

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Give features other levels; a lower one needs `upgrade` to say that a downgrade is meant."""
        return self._run(self._admin.update_features(levels, upgrade=upgrade, validate_only=validate_only))

    def describe_quorum(self) -> Quorum:
        """The quorum of the metadata log: its leader, voters and observers, and how far each is."""
        return self._run(self._admin.describe_quorum())

    def add_raft_voter(
        self,
        node_id: int,
        directory_id: Uuid,
        endpoints: Iterable[QuorumEndpoint],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Let a controller vote that has only followed the metadata log so far (KIP-853).

        `directory_id` is the one that `describe_quorum` tells of it; `endpoints` are those of its listeners
        for controllers. With a `cluster_id` the request is refused by any other cluster. One voter is added
        or removed at a time.
        """
        return self._run(self._admin.add_raft_voter(node_id, directory_id, endpoints, cluster_id=cluster_id))

    def remove_raft_voter(self, node_id: int, directory_id: Uuid, *, cluster_id: str | None = None) -> None:
        """Take a controller's vote away; it may go on as an observer. The last voter cannot be removed."""
        return self._run(self._admin.remove_raft_voter(node_id, directory_id, cluster_id=cluster_id))

    def unregister_broker(self, node_id: int) -> None:
        """Forget a broker that is gone for good."""
        return self._run(self._admin.unregister_broker(node_id))

    def describe_log_dirs(
        self, brokers: Collection[int] | None = None, places: Collection[TopicPartition] | None = None
    ) -> list[LogDir]:
        """The log directories of some brokers or of all, with the size of each partition or of some."""
        return self._run(self._admin.describe_log_dirs(brokers, places))

    def alter_replica_log_dirs(self, paths: Mapping[Replica, str]) -> None:
        """Have brokers move copies of partitions to other log directories; they go on after it returns."""
        return self._run(self._admin.alter_replica_log_dirs(paths))

    def alter_partition_reassignments(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Have partitions move to other brokers, the preferred leader first; None calls a move off.

        It returns when the moves are under way: `list_partition_reassignments` tells which still are.
        """
        return self._run(self._admin.alter_partition_reassignments(replicas))

    def list_partition_reassignments(
        self, places: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The partitions that are moving now, of some or of all."""
        return self._run(self._admin.list_partition_reassignments(places))

    def elect_leaders(
        self, places: Iterable[TopicPartition] | None = None, *, election: Election = Election.PREFERRED
    ) -> dict[TopicPartition, bool]:
        """Give partitions, some or all, the leaders that they should have.

        True for each partition that got a new one, False where the one it had is right; without `places`
        only the former are told.
        """
        return self._run(self._admin.elect_leaders(places, election=election))
