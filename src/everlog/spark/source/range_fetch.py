"""One range of one partition, fetched ahead of who reads it: the worker's side of the network."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future

from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.fetch_plan import FIRST_VERSION_BY_ID, FetchLimits, FetchPlan
from everlog.client.core.consumer.offset_spec import OffsetRange
from everlog.client.core.errors import TimedOut
from everlog.client.core.retry import Backoff
from everlog.client.drive.offsets import list_offsets
from everlog.client.drive.pool import Lane
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.ids import Offset
from everlog.spark.source.cluster import Cluster
from everlog.spark.source.offsets import EARLIEST, LATEST, DataLost
from everlog.spark.source.plan import ReadRange
from everlog.wire.messages.fetch import FetchResponse

MISSING_TRIES = 3
"""How often a topic must be found missing before it is taken for deleted."""


class RangeFetch:
    """Reads a range from its leader, request by request; each is under way while the last is worked on."""

    def __init__(
        self, cluster: Cluster, wanted: ReadRange, *, fail_on_data_loss: bool, poll_timeout_s: float
    ) -> None:
        self._cluster = cluster
        self._link = cluster.link
        self._range = wanted
        self._place = wanted.place
        self._fail = fail_on_data_loss
        self._patience_s = poll_timeout_s
        settings = cluster.settings
        self._limits = FetchLimits(
            min_bytes=max(1, settings.fetch_min_bytes),
            max_bytes=settings.fetch_max_bytes,
            partition_max_bytes=settings.max_partition_fetch_bytes,
            max_wait_ms=settings.fetch_max_wait_ms,
        )
        self._plan = self._planned(wanted.start)
        self._times_missing = 0
        self._trouble: EverlogError | None = None
        """Why the last try brought nothing, if it failed."""

    def __iter__(self) -> Iterator[Chunk]:
        """The batches of the range in order; DataLost, TimedOut and what else keeps it from being read."""
        under_way = self._ask()
        try:
            while True:
                chunks = under_way.result()
                if not chunks:
                    return
                under_way = self._ask()
                yield from chunks
        finally:
            # Who stops early, as `limit` does, waits for nothing.
            under_way.cancel()

    def _ask(self) -> "Future[list[Chunk]]":
        return asyncio.run_coroutine_threadsafe(self._next(), self._cluster.portal.loop)

    def _planned(self, start: int) -> FetchPlan:
        ranges = {self._place: OffsetRange(Offset(start), Offset(self._range.end))}
        return FetchPlan(ranges, self._limits, read_committed=self._cluster.settings.read_committed)

    async def _next(self) -> list[Chunk]:
        """The next batches; none at the end of the range."""
        loop = asyncio.get_running_loop()
        backoff = self._link.backoff()
        deadline = loop.time() + self._patience_s
        while not self._plan.finished:
            position = self._plan.positions[self._place]
            try:
                chunks, fresh = await self._fetch_once()
                self._trouble = None
            except Refused as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                if await self._find_way_on(position):
                    continue
                # The leader did not know of it a moment ago and does now, as after an election.
                await self._link.pause(backoff, deadline)
                chunks, fresh, self._trouble = [], True, error
            except EverlogError as error:
                if not error.retriable:
                    raise
                chunks, fresh, self._trouble = [], False, error
            if chunks:
                return chunks
            if self._plan.positions[self._place] > position:
                # Markers and aborted records only: it goes on.
                deadline = loop.time() + self._patience_s
                continue
            if not fresh and await self._is_deleted(backoff, deadline):
                break
            if loop.time() >= deadline:
                raise TimedOut(self._late(position))
        return []

    async def _fetch_once(self) -> tuple[list[Chunk], bool]:
        """Ask the leader once; also whether it is the leader and known."""
        requests, leaderless = self._plan.requests(self._link.view)
        if leaderless:
            return [], False
        fetch = requests[0]
        limit = self._link.timeout + self._limits.max_wait_ms / 1000
        response = await self._link.call_node(
            fetch.node_id,
            fetch.request,
            FetchResponse,
            limit,
            at_most=None if fetch.has_topic_ids else FIRST_VERSION_BY_ID - 1,
            lane=Lane.FETCH,
        )
        fetched = self._plan.take(fetch, response, self._link.view)
        return fetched.chunks, not fetched.stale

    async def _is_deleted(self, backoff: Backoff, deadline: float) -> bool:
        """Ask who leads the partition now; True if there is no such partition, which is a loss."""
        if self._place.topic in self._link.view.topics:
            # Not at the first look, which is no retry.
            await self._link.pause(backoff, deadline)
        try:
            view = await self._link.refresh([self._place.topic])
        except EverlogError as error:
            if not error.retriable:
                raise
            self._trouble = error
            return False
        topic = view.topics[self._place.topic]
        if topic.error.retriable and topic.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        if self._place.partition in topic.partitions:
            self._times_missing = 0
            return False
        if topic.error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise Refused(topic.error, f"topic {self._place.topic!r}: {topic.error.name}")
        self._times_missing += 1
        if self._times_missing < MISSING_TRIES:
            return False
        self._lost(
            f"{self._place} was deleted while its offsets {self._plan.positions[self._place]} to "
            f"{self._range.end - 1} were to be read"
        )
        return True

    async def _find_way_on(self, position: int) -> bool:
        """The log does not have the offset to read next: see what it has, and go on there or nowhere.

        False if it has the offset after all.
        """
        places = [self._place]
        starts = await list_offsets(self._link, dict.fromkeys(places, EARLIEST))
        ends = await list_offsets(self._link, dict.fromkeys(places, LATEST))
        first, last = starts[self._place], ends[self._place]
        log_start, log_end = 0 if first is None else first.offset, 0 if last is None else last.offset
        end = self._range.end
        if position < log_start:
            gone = min(log_start, end)
            self._lost(
                f"offsets {position} to {gone - 1} of {self._place} were deleted before they could be read: "
                f"the log starts at {log_start}"
            )
            self._plan = self._planned(gone)
            return True
        if position > log_end:
            self._lost(
                f"offsets {position} to {end - 1} of {self._place} do not exist: the log ends at {log_end}, "
                "so it was cut or its topic made anew"
            )
            self._plan = self._planned(end)
            return True
        return False

    def _lost(self, what: str) -> None:
        if self._fail:
            raise DataLost(what)

    def _late(self, position: int) -> str:
        reason = f": {self._trouble}" if self._trouble is not None else ""
        return (
            f"offset {position} of {self._place}, which is below the end {self._range.end} of what was to be "
            f"read, did not come within {self._patience_s:g} s{reason}. If an open transaction is in the way "
            "it ends sooner or later; the option kafkaConsumer.pollTimeoutMs says how long to wait."
        )
