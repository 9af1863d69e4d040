"""Offsets of groups: committed, deleted, reset, and how far behind they are (blocking; C5, C7, C8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.sync.admin_desk import AdminDesk
from everlog.model.topics import TopicPartition

if TYPE_CHECKING:
    from everlog.client.core.admin.group_lag import PartitionLag
    from everlog.client.core.admin.groups import Group
    from everlog.client.core.admin.offset_reset import ResetPlan, Target


class GroupOffsetCalls(AdminDesk):
    """Calls about the offsets of groups."""

    def list_group_offsets(
        self,
        group_id: str,
        places: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed, all or those of some partitions; none if there is no group.

        With `require_stable` offsets that an open transaction may still change are waited for.
        """
        return self._run(self._admin.list_group_offsets(group_id, places, require_stable=require_stable))

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Commit offsets for a group without members; a group that does not exist yet is made."""
        return self._run(self._admin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, places: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of partitions that the group does not read now."""
        return self._run(self._admin.delete_group_offsets(group_id, places))

    def group_lag(self, group: str | Group) -> list[PartitionLag]:
        """How far a group is in each partition that it has committed or been given, in records and time."""
        return self._run(self._admin.group_lag(group))

    def reset_group_offsets(
        self,
        group_id: str,
        target: Target,
        topics: Mapping[str, Collection[int] | None] | None = None,
        *,
        dry_run: bool = False,
    ) -> ResetPlan:
        """Move the offsets of a group without members; returns from where to where.

        >>> admin.reset_group_offsets("billing", ToEarliest(), {"orders": None})

        `topics` names partitions, None being all of a topic's; without it all that have a committed offset
        are meant. Offsets beyond what the log holds become its first or its end. Refused for a group with
        members: they would go on from where they are, and commit over what was reset.
        """
        return self._run(self._admin.reset_group_offsets(group_id, target, topics, dry_run=dry_run))
