"""Groups and their members: what an Admin asks of their coordinators (blocking; C2, C8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from everlog.client.sync.admin_desk import AdminDesk

if TYPE_CHECKING:
    from everlog.client.core.admin.groups import Group, GroupListing


class GroupCalls(AdminDesk):
    """Calls about groups."""

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """The groups of all brokers, by name; all, or those of some states and types."""
        return self._run(self._admin.list_groups(states=states, types=types))

    def describe_group(self, group_id: str) -> Group:
        """A group of either protocol; Refused with GROUP_ID_NOT_FOUND if there is none of that name."""
        return self._run(self._admin.describe_group(group_id))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, Group]:
        """Groups by name, with their members and what each has been given."""
        return self._run(self._admin.describe_groups(group_ids))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, and all offsets that they have committed."""
        return self._run(self._admin.delete_groups(group_ids))

    def remove_group_members(
        self, group_id: str, members: Collection[str] | None = None, *, reason: str = "removed by an admin"
    ) -> list[str]:
        """Take members out of a group of the classic protocol, by member id or instance id; None is all.

        Returns whom it has removed. A member that still runs joins again; one that is dead, or static and
        stopped, gives its partitions to the others at once instead of after its session's time-out.
        """
        return self._run(self._admin.remove_group_members(group_id, members, reason=reason))
