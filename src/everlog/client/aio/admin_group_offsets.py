"""Offsets of groups: committed, deleted, reset, and how far behind they are (asyncio; C5, C7, C8)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from everlog.client.aio.admin_groups import GroupCalls
from everlog.client.aio.admin_topics import TopicCalls
from everlog.client.core.admin.offset_listing import OffsetAt
from everlog.client.core.admin.outcomes import all_done
from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.model.errors import ConfigError, ErrorCode, EverlogError, Refused
from everlog.model.ids import Offset, Timestamp
from everlog.model.topics import TopicPartition

if TYPE_CHECKING:
    from everlog.client.core.admin.group_lag import FirstTimestamps, PartitionLag
    from everlog.client.core.admin.groups import Group
    from everlog.client.core.admin.offset_reset import ResetPlan, Target
    from everlog.client.core.consumer.offset_spec import OffsetRange

_GROUP = CoordinatorKind.GROUP


class GroupOffsetCalls(GroupCalls, TopicCalls):
    """Calls about the offsets of groups."""

    async def list_group_offsets(
        self,
        group_id: str,
        places: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed, all or those of some partitions; none if there is no group.

        With `require_stable` offsets that an open transaction may still change are waited for.
        """
        from everlog.client.core.group.offsets import (
            LAST_VERSION_BY_NAME,
            fetch_offsets_request,
            offset_fetch_codes,
            read_committed_offsets,
        )
        from everlog.wire.messages.offset_fetch import OffsetFetchResponse

        answer = await self._at_coordinator(
            _GROUP,
            group_id,
            fetch_offsets_request(group_id, places, require_stable=require_stable),
            OffsetFetchResponse,
            offset_fetch_codes,
            at_most=LAST_VERSION_BY_NAME,
        )
        return {
            place: OffsetAndMetadata(entry.offset, entry.metadata, entry.leader_epoch)
            for place, entry in read_committed_offsets(answer, group_id).items()
            if entry is not None
        }

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Commit offsets for a group without members; a group that does not exist yet is made."""
        from everlog.client.core.group.offsets import (
            LAST_VERSION_BY_NAME,
            commit_offsets_request,
            offset_commit_codes,
            read_commits,
        )
        from everlog.wire.messages.offset_commit import OffsetCommitResponse

        wanted = {
            place: entry if isinstance(entry, OffsetAndMetadata) else OffsetAndMetadata(entry)
            for place, entry in offsets.items()
        }
        answer = await self._at_coordinator(
            _GROUP,
            group_id,
            commit_offsets_request(group_id, wanted),
            OffsetCommitResponse,
            offset_commit_codes,
            at_most=LAST_VERSION_BY_NAME,
        )
        all_done(read_commits(answer, group_id))

    async def delete_group_offsets(self, group_id: str, places: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of partitions that the group does not read now."""
        from everlog.client.core.group.offsets import (
            delete_offsets_request,
            offset_delete_codes,
            read_deleted_offsets,
        )
        from everlog.wire.messages.offset_delete import OffsetDeleteResponse

        answer = await self._at_coordinator(
            _GROUP,
            group_id,
            delete_offsets_request(group_id, places),
            OffsetDeleteResponse,
            offset_delete_codes,
        )
        all_done(read_deleted_offsets(answer, group_id))

    async def group_lag(self, group: str | Group) -> list[PartitionLag]:
        """How far a group is in each partition that it has committed or been given, in records and time."""
        from everlog.client.core.admin.group_lag import PartitionLag, age_ms, owners, unread_ranges

        described = await self.describe_group(group) if isinstance(group, str) else group
        committed = await self.list_group_offsets(described.group_id)
        by_member = owners(described.members)
        places = sorted({*committed, *by_member})
        view = await self._patiently(lambda _limit: self._link.refresh({place.topic for place in places}))
        led = [place for place in places if view.leader_of(place) is not None]
        starts, ends = await self._bounds(led)
        first = await self._first_timestamps(unread_ranges(committed, starts, ends))
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

    async def reset_group_offsets(
        self,
        group_id: str,
        target: Target,
        topics: Mapping[str, Collection[int] | None] | None = None,
        *,
        dry_run: bool = False,
    ) -> ResetPlan:
        """Move the offsets of a group without members; returns from where to where.

        >>> await admin.reset_group_offsets("billing", ToEarliest(), {"orders": None})

        `topics` names partitions, None being all of a topic's; without it all that have a committed offset
        are meant. Offsets beyond what the log holds become its first or its end. Refused for a group with
        members: they would go on from where they are, and commit over what was reset.
        """
        plan = await self._plan_reset(group_id, target, topics)
        if not dry_run:
            await self.alter_group_offsets(group_id, {move.place: move.to for move in plan.moves})
        return plan

    async def _plan_reset(
        self, group_id: str, target: Target, topics: Mapping[str, Collection[int] | None] | None
    ) -> ResetPlan:
        from everlog.client.core.admin.groups import group_refusal
        from everlog.client.core.admin.offset_reset import Found, ResetPlan, ToTime, plan_move

        group = await self._group_if_any(group_id)
        if group is not None and group.is_active:
            raise group_refusal(ErrorCode.NON_EMPTY_GROUP, None, group_id, f" is {group.state}")
        committed = {} if group is None else await self.list_group_offsets(group_id)
        places = await self._places_to_reset(group_id, target, topics, committed)
        starts, ends = await self._bounds(places)
        at_time: dict[TopicPartition, Offset] = {}
        if isinstance(target, ToTime):
            listed = await self.list_offsets(places, target.timestamp)
            at_time = {place: Offset(entry.offset) for place, entry in listed.items() if entry is not None}
        moves = [
            plan_move(
                target, place, Found(committed.get(place), starts[place], ends[place], at_time.get(place))
            )
            for place in places
        ]
        return ResetPlan(group_id, moves, group is None)

    async def _group_if_any(self, group_id: str) -> Group | None:
        try:
            return await self.describe_group(group_id)
        except Refused as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return None
            raise

    async def _places_to_reset(
        self,
        group_id: str,
        target: Target,
        topics: Mapping[str, Collection[int] | None] | None,
        committed: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> list[TopicPartition]:
        from everlog.client.core.admin.offset_reset import FromFile

        wanted = topics
        if wanted is None:
            chosen = set(target.offsets) if isinstance(target, FromFile) else set(committed)
            if not chosen:
                raise ConfigError(f"group {group_id!r} has no committed offsets: name the topics to reset")
            wanted = {
                topic: [place.partition for place in chosen if place.topic == topic]
                for topic in sorted({place.topic for place in chosen})
            }
        places: list[TopicPartition] = []
        for name, described in (await self.describe_topics(sorted(wanted))).items():
            indexes = wanted[name]
            unknown = sorted(set(indexes or ()) - set(described.partitions))
            if unknown:
                raise ConfigError(
                    f"topic {name!r} has no partition {unknown[0]}: "
                    f"expected 0 to {len(described.partitions) - 1}"
                )
            all_of_it = described.partitions if indexes is None else indexes
            places.extend(TopicPartition(name, index) for index in sorted(all_of_it))
        return places

    async def _bounds(
        self, places: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]]:
        """The first offset and the end of each partition."""
        listed = await asyncio.gather(
            self.list_offsets(places, OffsetAt.EARLIEST), self.list_offsets(places, OffsetAt.LATEST)
        )
        starts, ends = (
            {place: Offset(0 if entry is None else entry.offset) for place, entry in each.items()}
            for each in listed
        )
        return starts, ends

    async def _first_timestamps(
        self, ranges: Mapping[TopicPartition, OffsetRange]
    ) -> dict[TopicPartition, Timestamp | None]:
        """The timestamp of the first record in each range, None where there is no record.

        A partition whose record could not be had in time is absent: lag is worth showing without it.
        """
        from everlog.client.core.admin.group_lag import FirstTimestamps

        search = FirstTimestamps(ranges)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.default_api_timeout_ms / 1000
        backoff = self._link.backoff()
        while not search.finished and loop.time() < deadline:
            before = len(search.found)
            fresh = await self._search_once(search)
            if len(search.found) > before:
                backoff.reset()
            elif not search.finished and not await self._link.pause(backoff, deadline):
                break
            if not fresh and not search.finished:
                await self._link.refresh(search.topics)
        return search.found

    async def _search_once(self, search: FirstTimestamps) -> bool:
        """Ask every leader once; False if the picture of the cluster is stale."""
        from everlog.client.core.admin.group_lag import ONE_RECORD
        from everlog.client.core.consumer.fetch_plan import FIRST_VERSION_BY_ID
        from everlog.wire.messages.fetch import FetchResponse

        planned = search.requests(self._link.view)
        fresh = bool(planned)
        for fetch in planned:
            at_most = None if fetch.has_topic_ids else FIRST_VERSION_BY_ID - 1
            limit = self._link.timeout + ONE_RECORD.max_wait_ms / 1000
            try:
                response = await self._link.call_node(
                    fetch.node_id, fetch.request, FetchResponse, limit, at_most=at_most
                )
            except EverlogError as error:
                if not error.retriable:
                    raise
                fresh = False
                continue
            fresh = not search.take(fetch, response, self._link.view) and fresh
        return fresh
