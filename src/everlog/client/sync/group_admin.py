"""Groups: what an administrator asks of their coordinators (C2, C7, C8)."""

import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.group_admin import (
    Group,
    GroupListing,
    delete_group_request,
    describe_classic_group_request,
    describe_consumer_group_request,
    list_groups_request,
    read_classic_group,
    read_consumer_group,
    read_group_deleted,
    read_listed,
)
from everlog.client.core.group_lag import PartitionLag, age_ms, owners, unread_ranges
from everlog.client.core.group_offsets import (
    LAST_VERSION_BY_NAME,
    Committed,
    commit_offsets_request,
    delete_offsets_request,
    fetch_offsets_request,
    offset_commit_codes,
    offset_delete_codes,
    offset_fetch_codes,
    read_commits,
    read_committed_offsets,
    read_deleted_offsets,
)
from everlog.client.core.list_offsets import EARLIEST, LATEST
from everlog.client.core.topic_admin import Done
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.coordinators import Coordinators, patiently
from everlog.client.sync.group_lag import first_timestamps
from everlog.client.sync.offsets import list_offsets
from everlog.model.errors import Refused
from everlog.model.ids import Timestamp
from everlog.model.topics import TopicPartition
from everlog.wire.apis import ApiKey
from everlog.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from everlog.wire.messages.delete_groups import DeleteGroupsResponse
from everlog.wire.messages.describe_groups import DescribeGroupsResponse
from everlog.wire.messages.list_groups import ListGroupsResponse
from everlog.wire.messages.offset_commit import OffsetCommitResponse
from everlog.wire.messages.offset_delete import OffsetDeleteResponse
from everlog.wire.messages.offset_fetch import OffsetFetchResponse

_GROUP = CoordinatorKind.GROUP


class GroupAdmin:
    """Calls that look at groups or change their offsets; a coordinator that is loading is waited for.

    >>> group = GroupAdmin(cluster).describe("billing")
    >>> sum(entry.lag or 0 for entry in GroupAdmin(cluster).lag(group))
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """The groups of all brokers, by name; all, or those of some states and types."""
        request = list_groups_request(states, types)

        def ask(node: int) -> list[GroupListing]:
            answer = self._cluster.broker(node).call(request, ListGroupsResponse, self._cluster.timeout)
            return read_listed(answer, node)

        found: list[GroupListing] = []
        for node in sorted(self._cluster.refresh([]).brokers):
            found.extend(patiently(self._cluster, partial(ask, node)))
        return sorted(found, key=lambda listing: listing.group_id)

    def describe(self, group_id: str) -> Group:
        """A group of either protocol; Refused with GROUP_ID_NOT_FOUND if there is none of that name."""
        coordinator = self._coordinators.find(_GROUP, group_id)
        if self._cluster.broker(coordinator.node_id).versions.serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
            answer = self._coordinators.ask(
                _GROUP,
                group_id,
                describe_consumer_group_request(group_id),
                ConsumerGroupDescribeResponse,
                lambda answer: [group.error_code for group in answer.groups],
            )
            coordinator = self._coordinators.find(_GROUP, group_id)
            group = read_consumer_group(answer, group_id, coordinator)
            if group is not None:
                return group
        described = self._coordinators.ask(
            _GROUP,
            group_id,
            describe_classic_group_request(group_id),
            DescribeGroupsResponse,
            lambda answer: [group.error_code for group in answer.groups],
        )
        return read_classic_group(described, group_id, self._coordinators.find(_GROUP, group_id))

    def offsets(self, group_id: str) -> dict[TopicPartition, Committed]:
        """All offsets that a group has committed; none for a group that does not exist."""
        answer = self._coordinators.ask(
            _GROUP,
            group_id,
            fetch_offsets_request(group_id),
            OffsetFetchResponse,
            offset_fetch_codes,
            at_most=LAST_VERSION_BY_NAME,
        )
        found = read_committed_offsets(answer, group_id)
        return {place: entry for place, entry in found.items() if entry is not None}

    def lag(self, group: Group) -> list[PartitionLag]:
        """How far a group is in every partition that it has committed or been given."""
        committed = self.offsets(group.group_id)
        by_member = owners(group.members)
        places = sorted({*committed, *by_member})
        led = self.led(places)
        starts = list_offsets(self._cluster, led, EARLIEST)
        ends = list_offsets(self._cluster, led, LATEST)
        ranges = unread_ranges(committed, starts, ends)
        first = first_timestamps(self._cluster, ranges)
        now = Timestamp(int(time.time() * 1000))
        return [
            PartitionLag(
                place,
                committed.get(place),
                starts.get(place),
                ends.get(place),
                age_ms(first[place], now) if place in first else None,
                by_member.get(place),
            )
            for place in places
        ]

    def led(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions that exist and have a leader now."""
        wanted = sorted(places)
        if not wanted:
            return []
        view = self._cluster.refresh(sorted({place.topic for place in wanted}))
        return [place for place in wanted if view.leader_of(place) is not None]

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Refused | None]:
        """Commit offsets for a group without members; None for each partition where that was done."""
        answer = self._coordinators.ask(
            _GROUP,
            group_id,
            commit_offsets_request(group_id, offsets),
            OffsetCommitResponse,
            offset_commit_codes,
            at_most=LAST_VERSION_BY_NAME,
        )
        return read_commits(answer, group_id)

    def delete_offsets(
        self, group_id: str, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Refused | None]:
        """Delete committed offsets; None for each partition where that was done."""
        answer = self._coordinators.ask(
            _GROUP,
            group_id,
            delete_offsets_request(group_id, places),
            OffsetDeleteResponse,
            offset_delete_codes,
        )
        return read_deleted_offsets(answer, group_id)

    def delete(self, group_ids: Iterable[str]) -> list[Done]:
        """Delete groups without members, and their offsets. One that fails does not hide the others."""
        return [self._delete(group_id) for group_id in group_ids]

    def _delete(self, group_id: str) -> Done:
        try:
            answer = self._coordinators.ask(
                _GROUP,
                group_id,
                delete_group_request(group_id),
                DeleteGroupsResponse,
                lambda answer: [result.error_code for result in answer.results],
            )
        except Refused as error:
            return Done(group_id, error)
        return read_group_deleted(answer, group_id)
