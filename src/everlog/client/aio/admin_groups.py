"""Groups and their members: what an Admin asks of their coordinators (asyncio; C2, C8)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from everlog.client.aio.admin_desk import AdminDesk
from everlog.client.core.admin.outcomes import all_done
from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from everlog.client.core.admin.groups import Group, GroupListing

Result = TypeVar("Result")

_GROUP = CoordinatorKind.GROUP


class GroupCalls(AdminDesk):
    """Calls about groups."""

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """The groups of all brokers, by name; all, or those of some states and types."""
        from everlog.client.core.admin.groups import list_groups_request, read_listed
        from everlog.wire.messages.list_groups import ListGroupsResponse

        found = await self._at_all_brokers(
            list_groups_request(states, types), ListGroupsResponse, read_listed
        )
        return sorted((group for groups in found for group in groups), key=lambda group: group.group_id)

    async def describe_group(self, group_id: str) -> Group:
        """A group of either protocol; Refused with GROUP_ID_NOT_FOUND if there is none of that name."""
        from everlog.client.core.admin.groups import (
            describe_classic_group_request,
            describe_consumer_group_request,
            read_classic_group,
            read_consumer_group,
        )
        from everlog.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
        from everlog.wire.messages.describe_groups import DescribeGroupsResponse

        coordinator = await self._coordinator(_GROUP, group_id)
        connection = await self._patiently(lambda _limit: self._link.broker(coordinator.node_id))
        if connection.versions.serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
            answer = await self._at_coordinator(
                _GROUP,
                group_id,
                describe_consumer_group_request(group_id),
                ConsumerGroupDescribeResponse,
                lambda answer: [group.error_code for group in answer.groups],
            )
            group = read_consumer_group(answer, group_id, await self._coordinator(_GROUP, group_id))
            if group is not None:
                return group
        described = await self._at_coordinator(
            _GROUP,
            group_id,
            describe_classic_group_request(group_id),
            DescribeGroupsResponse,
            lambda answer: [group.error_code for group in answer.groups],
        )
        return read_classic_group(described, group_id, await self._coordinator(_GROUP, group_id))

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, Group]:
        """Groups by name, with their members and what each has been given."""

        async def one(group_id: str) -> Group | Refused:
            try:
                return await self.describe_group(group_id)
            except Refused as error:
                return error

        wanted = list(dict.fromkeys(group_ids))
        found = await asyncio.gather(*(one(group_id) for group_id in wanted))
        return all_done(dict(zip(wanted, found, strict=True)))

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, and all offsets that they have committed."""
        from everlog.client.core.admin.groups import delete_group_request, read_group_deleted
        from everlog.wire.messages.delete_groups import DeleteGroupsResponse

        async def one(group_id: str) -> Refused | None:
            try:
                answer = await self._at_coordinator(
                    _GROUP,
                    group_id,
                    delete_group_request(group_id),
                    DeleteGroupsResponse,
                    lambda answer: [result.error_code for result in answer.results],
                    repeatable=False,
                )
            except Refused as error:
                return error
            return read_group_deleted(answer, group_id)

        wanted = list(dict.fromkeys(group_ids))
        deleted = await asyncio.gather(*(one(group_id) for group_id in wanted))
        all_done(dict(zip(wanted, deleted, strict=True)))

    async def remove_group_members(
        self, group_id: str, members: Collection[str] | None = None, *, reason: str = "removed by an admin"
    ) -> list[str]:
        """Take members out of a group of the classic protocol, by member id or instance id; None is all.

        Returns whom it has removed. A member that still runs joins again; one that is dead, or static and
        stopped, gives its partitions to the others at once instead of after its session's time-out.
        """
        from everlog.client.core.admin.groups import read_members_removed, remove_members_request
        from everlog.wire.messages.leave_group import LeaveGroupResponse

        group = await self.describe_group(group_id)
        names = {name for member in group.members for name in (member.member_id, member.instance_id)}
        unknown: Sequence[str] = sorted(set(members or ()) - {name for name in names if name})
        if unknown:
            raise refusal(
                ErrorCode.UNKNOWN_MEMBER_ID, "no such member", f"member {unknown[0]!r} of group {group_id!r}"
            )
        leaving = [
            member
            for member in group.members
            if members is None or member.member_id in members or member.instance_id in members
        ]
        if not leaving:
            return []
        answer = await self._at_coordinator(
            _GROUP,
            group_id,
            remove_members_request(group_id, leaving, reason),
            LeaveGroupResponse,
            lambda answer: [answer.error_code],
        )
        return list(all_done(read_members_removed(answer, group_id, leaving)))
