"""The cluster: its brokers, features, quorum, disks, and where partitions live (asyncio)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from everlog.client.aio.admin_desk import AdminDesk
from everlog.client.core.admin.choices import Election, FeatureUpgrade
from everlog.client.core.admin.outcomes import all_done
from everlog.client.core.errors import Unreachable, refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition

if TYPE_CHECKING:
    from everlog.client.core.admin.cluster import ClusterDescription, Features, Quorum, QuorumEndpoint
    from everlog.client.core.admin.log_dirs import LogDir, Replica
    from everlog.client.core.admin.placement import Reassignment
    from everlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest


class ClusterCalls(AdminDesk):
    """Calls about the cluster."""

    async def describe_cluster(
        self, *, authorized_operations: bool = False, include_fenced_brokers: bool = False
    ) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        from everlog.client.core.admin.cluster import read_cluster
        from everlog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

        request = DescribeClusterRequest(
            include_cluster_authorized_operations=authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )
        return await self._ask(request, DescribeClusterResponse, read_cluster)

    async def describe_features(self) -> Features:
        """The level of each feature, such as `metadata.version`, and what a broker could do."""
        from everlog.client.core.admin.cluster import read_features
        from everlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

        request = ApiVersionsRequest(client_software_name="everlog", client_software_version="admin")
        return await self._ask(request, ApiVersionsResponse, read_features)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Give features other levels; a lower one needs `upgrade` to say that a downgrade is meant."""
        from everlog.client.core.admin.cluster import read_features_updated, update_features_request
        from everlog.wire.messages.update_features import UpdateFeaturesResponse

        request = update_features_request(levels, upgrade, self._timeout_ms, validate_only=validate_only)
        updated = await self._ask(
            request, UpdateFeaturesResponse, lambda answer: read_features_updated(answer, levels)
        )
        all_done(updated)

    async def describe_quorum(self) -> Quorum:
        """The quorum of the metadata log: its leader, voters and observers, and how far each is."""
        from everlog.client.core.admin.cluster import describe_quorum_request, read_quorum
        from everlog.wire.messages.describe_quorum import DescribeQuorumResponse

        return await self._ask(describe_quorum_request(), DescribeQuorumResponse, read_quorum)

    async def add_raft_voter(
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
        from everlog.client.core.admin.voters import add_voter_request, read_voter_changed
        from everlog.wire.messages.add_raft_voter import AddRaftVoterResponse

        request = add_voter_request(node_id, directory_id, list(endpoints), cluster_id, self._timeout_ms)

        async def once(limit: float) -> None:
            answer = await self._link.call(request, AddRaftVoterResponse, limit)
            read_voter_changed(answer, node_id, directory_id)

        await self._patiently(once, repeatable=False)

    async def remove_raft_voter(
        self, node_id: int, directory_id: Uuid, *, cluster_id: str | None = None
    ) -> None:
        """Take a controller's vote away; it may go on as an observer. The last voter cannot be removed."""
        from everlog.client.core.admin.voters import read_voter_changed, remove_voter_request
        from everlog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse

        request = remove_voter_request(node_id, directory_id, cluster_id)

        async def once(limit: float) -> None:
            answer = await self._link.call(request, RemoveRaftVoterResponse, limit)
            read_voter_changed(answer, node_id, directory_id)

        await self._patiently(once, repeatable=False)

    async def unregister_broker(self, node_id: int) -> None:
        """Forget a broker that is gone for good."""
        from everlog.client.core.admin.cluster import read_unregistered
        from everlog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

        await self._ask(
            UnregisterBrokerRequest(broker_id=node_id),
            UnregisterBrokerResponse,
            lambda answer: read_unregistered(answer, node_id),
        )

    async def describe_log_dirs(
        self, brokers: Collection[int] | None = None, places: Collection[TopicPartition] | None = None
    ) -> list[LogDir]:
        """The log directories of some brokers or of all, with the size of each partition or of some."""
        from everlog.client.core.admin.log_dirs import describe_log_dirs_request, read_log_dirs
        from everlog.wire.messages.describe_log_dirs import DescribeLogDirsResponse

        request = describe_log_dirs_request(places)
        if brokers is None:
            found = await self._at_all_brokers(request, DescribeLogDirsResponse, read_log_dirs)
            return [entry for each in found for entry in each]
        asked = [self._log_dirs_of(node, request) for node in sorted(brokers)]
        return [entry for each in await asyncio.gather(*asked) for entry in each]

    async def _log_dirs_of(self, node: int, request: DescribeLogDirsRequest) -> list[LogDir]:
        from everlog.client.core.admin.log_dirs import read_log_dirs
        from everlog.wire.messages.describe_log_dirs import DescribeLogDirsResponse

        return await self._ask(
            request, DescribeLogDirsResponse, lambda answer: read_log_dirs(answer, node), node=node
        )

    async def alter_replica_log_dirs(self, paths: Mapping[Replica, str]) -> None:
        """Have brokers move copies of partitions to other log directories; they go on after it returns."""
        from everlog.client.core.admin.log_dirs import (
            Replica,
            alter_replica_log_dirs_request,
            read_replicas_moved,
        )
        from everlog.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsResponse

        async def ask(left: list[Replica], limit: float) -> dict[Replica, Refused | None]:
            by_broker: dict[int, dict[TopicPartition, str]] = {}
            for replica in left:
                by_broker.setdefault(replica.broker, {})[replica.place] = paths[replica]

            async def at(broker: int, wanted: Mapping[TopicPartition, str]) -> dict[Replica, Refused | None]:
                try:
                    if broker not in self._link.view.brokers:
                        await self._known_broker(broker, limit)
                    request = alter_replica_log_dirs_request(wanted)
                    answer = await self._link.call_node(broker, request, AlterReplicaLogDirsResponse, limit)
                except Unreachable as error:
                    lost = refusal(ErrorCode.BROKER_NOT_AVAILABLE, str(error), f"broker {broker}")
                    return {Replica(place, broker): lost for place in wanted}
                return read_replicas_moved(answer, broker)

            outcomes: dict[Replica, Refused | None] = {}
            for answered in await asyncio.gather(*(at(*entry) for entry in by_broker.items())):
                outcomes.update(answered)
            return outcomes

        await self._each(paths, ask)

    async def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> None:
        """Have partitions move to other brokers, the preferred leader first; None calls a move off.

        It returns when the moves are under way: `list_partition_reassignments` tells which still are.
        """
        from everlog.client.core.admin.placement import read_reassigned, reassign_request
        from everlog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse

        await self._each_at_any(
            replicas,
            lambda left: reassign_request({place: replicas[place] for place in left}, self._timeout_ms),
            AlterPartitionReassignmentsResponse,
            read_reassigned,
        )

    async def list_partition_reassignments(
        self, places: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The partitions that are moving now, of some or of all."""
        from everlog.client.core.admin.placement import list_reassignments_request, read_reassignments
        from everlog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse

        request = list_reassignments_request(places, self._timeout_ms)
        return await self._ask(request, ListPartitionReassignmentsResponse, read_reassignments)

    async def elect_leaders(
        self, places: Iterable[TopicPartition] | None = None, *, election: Election = Election.PREFERRED
    ) -> dict[TopicPartition, bool]:
        """Give partitions, some or all, the leaders that they should have.

        True for each partition that got a new one, False where the one it had is right; without `places`
        only the former are told.
        """
        from everlog.client.core.admin.placement import elect_leaders_request, read_elections
        from everlog.wire.messages.elect_leaders import ElectLeadersResponse

        if places is None:
            request = elect_leaders_request(election, None, self._timeout_ms)
            return all_done(await self._ask(request, ElectLeadersResponse, read_elections))
        return await self._each_at_any(
            places,
            lambda left: elect_leaders_request(election, left, self._timeout_ms),
            ElectLeadersResponse,
            read_elections,
        )
