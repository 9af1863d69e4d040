"""A group's offsets, committed and asked for by a consumer; tried again until the call's time-out (C5)."""

import asyncio
from collections.abc import Callable, Collection, Mapping

from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.coordinators import PASSING, CoordinatorKind
from everlog.client.core.group.member_offsets import (
    TopicIds,
    commit_problem,
    commit_request,
    fetch_request,
    read_fetched,
)
from everlog.client.core.group.membership_consumer import FORGOTTEN
from everlog.client.core.group.offsets import LAST_VERSION_BY_NAME
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.pool import Lane
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.apis import ApiKey
from everlog.wire.messages.offset_commit import OffsetCommitResponse
from everlog.wire.messages.offset_fetch import OffsetFetchResponse

_TO_TRY_AGAIN = PASSING | {
    # The member's epoch has risen while the request was under way; the next one carries the new one.
    ErrorCode.STALE_MEMBER_EPOCH
}
_ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class GroupOffsets:
    """Commits and fetches the offsets of one group.

    `identity` says in whose name, or raises; `on_refused` hears of what was refused to a member.
    """

    def __init__(
        self,
        link: ClusterLink,
        settings: ConsumerSettings,
        identity: Callable[[], GroupMetadata],
        on_refused: Callable[[ErrorCode, GroupMetadata], None],
    ) -> None:
        assert settings.group_id is not None
        self._link = link
        self._group_id = settings.group_id
        self._timeout = settings.default_api_timeout_ms / 1000
        self._identity = identity
        self._on_refused = on_refused

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit; Refused if this member may not, or not any more."""
        tries = _Tries(self._link, self._timeout)
        while offsets:
            who = self._identity()
            ids = TopicIds.of(offsets, self._link.view)
            try:
                answer = await self._link.call_coordinator(
                    CoordinatorKind.GROUP,
                    self._group_id,
                    commit_request(who, offsets, ids),
                    OffsetCommitResponse,
                    at_most=ids.at_most,
                )
                problem = commit_problem(answer, self._group_id, ids)
                if problem is None:
                    return
                self._on_refused(problem.code, who)
                raise problem
            except EverlogError as error:
                await self._again(error, tries)

    async def committed(
        self, places: Collection[TopicPartition], who: Callable[[], GroupMetadata | None]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The offsets of these partitions; `who` asks, if it is a member of the consumer protocol."""
        tries = _Tries(self._link, self._timeout)
        by_id = True
        while places:
            ids = TopicIds.of(places, self._link.view)
            asker = who()
            try:
                found = await self._fetch(places, asker, ids, by_id=by_id)
                return {place: found.get(place) for place in places}
            except EverlogError as error:
                if asker is not None and isinstance(error, Refused) and error.code in FORGOTTEN:
                    # What is committed may be read by anybody; that we are forgotten is the member's to mend.
                    self._on_refused(error.code, asker)
                    if not await tries.pause():
                        raise
                    continue
                if isinstance(error, Refused) and error.code is ErrorCode.UNKNOWN_TOPIC_ID and by_id:
                    by_id = False  # Our view is behind; names will do for a question.
                    self._link.mark_stale()
                    continue
                await self._again(error, tries)
        return {}

    async def _fetch(
        self, places: Collection[TopicPartition], who: GroupMetadata | None, ids: TopicIds, *, by_id: bool
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        broker = await self._link.coordinator(CoordinatorKind.GROUP, self._group_id)
        connection = await self._link.broker(broker.node_id, Lane.GROUP)
        at_most = ids.at_most if by_id else LAST_VERSION_BY_NAME
        version = connection.versions.pick(ApiKey.OFFSET_FETCH, at_most)
        request = fetch_request(self._group_id, who, places, ids, version)
        answer = await connection.call(request, OffsetFetchResponse, self._link.timeout, at_most=version)
        return read_fetched(answer, self._group_id, ids)

    async def _again(self, error: EverlogError, tries: "_Tries") -> None:
        """Wait before another try, or raise the error if there shall be none."""
        if isinstance(error, Refused):
            if error.code not in _TO_TRY_AGAIN:
                raise error
            if error.code in _ELSEWHERE:
                self._link.forget_coordinator(CoordinatorKind.GROUP, self._group_id)
        elif not error.retriable:
            raise error
        else:
            self._link.forget_coordinator(CoordinatorKind.GROUP, self._group_id)
        if not await tries.pause():
            raise error


class _Tries:
    """How long to go on."""

    def __init__(self, link: ClusterLink, timeout: float) -> None:
        self._link = link
        self._backoff = link.backoff()
        self._deadline = asyncio.get_running_loop().time() + timeout

    async def pause(self) -> bool:
        """Wait before another try; False if there is no time for it."""
        return await self._link.pause(self._backoff, self._deadline)
