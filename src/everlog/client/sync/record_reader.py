"""Reading records of chosen partitions and ranges, without a group (C1, C7)."""

import time
from collections.abc import Iterator, Mapping

from everlog.client.core.errors import TimedOut
from everlog.client.core.fetch_plan import (
    FIRST_VERSION_BY_ID,
    Chunk,
    FetchLimits,
    FetchPlan,
    PlannedFetch,
)
from everlog.client.core.offset_spec import OffsetRange
from everlog.client.core.retry import Backoff
from everlog.client.sync.cluster import Cluster
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.reader import Record
from everlog.wire.messages.fetch import FetchResponse


class RecordReader:
    """Reads ranges of partitions; ranges without an end are followed for ever.

    While the caller works on one answer, the next request is already with the broker. A broker that is
    lost or no longer leads is replaced; if that takes longer than the cluster's time-out, TimedOut is raised.

    >>> reader = RecordReader(cluster, ranges_of(cluster, places, parse_offset_spec("start", now), …))
    >>> for place, record in reader.records():
    ...     print(place, record.offset, record.value)
    """

    def __init__(
        self,
        cluster: Cluster,
        ranges: Mapping[TopicPartition, OffsetRange],
        *,
        limits: FetchLimits | None = None,
        read_committed: bool = False,
    ) -> None:
        self._cluster = cluster
        self._limits = limits or FetchLimits()
        self._plan = FetchPlan(ranges, self._limits, read_committed=read_committed)
        self._under_way: dict[int, PlannedFetch] = {}
        self._backoff = Backoff()
        self._last_success = time.monotonic()

    @property
    def finished(self) -> bool:
        """Whether every range has been read to its end."""
        return self._plan.finished

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset behind the last record that arrived, by partition."""
        return self._plan.positions

    def ask(self) -> None:
        """Send the next requests now, so that records may come before the next `poll`."""
        try:
            self._send_all()
        except EverlogError as error:
            self._drop_all()
            if not error.retriable:
                raise
            self._recover(error)

    def poll(self, *, ask_again: bool = True) -> list[Chunk]:
        """Wait for the next records, at most about the fetch's wait time; empty if none came.

        After `finished` it returns nothing. Without `ask_again` the next requests wait for the next call.
        """
        try:
            self._send_all()
            return self._receive_all(ask_again)
        except EverlogError as error:
            # Answers that were under way are lost with their connections; their positions have not moved.
            self._drop_all()
            if not error.retriable:
                raise
            self._recover(error)
            return []

    def records(self) -> Iterator[tuple[TopicPartition, Record]]:
        """All records of the ranges, in order within a partition; ends when `finished`."""
        while not self.finished:
            for chunk in self.poll():
                for record in chunk.records():
                    yield chunk.place, record

    def close(self) -> None:
        """Give up requests that are under way."""
        self._drop_all()

    def _send_all(self) -> None:
        planned, leaderless = self._plan.requests(self._cluster.view)
        for fetch in planned:
            if fetch.node_id in self._under_way:
                continue
            at_most = None if fetch.has_topic_ids else FIRST_VERSION_BY_ID - 1
            self._cluster.broker(fetch.node_id).send(fetch.request, self._cluster.timeout, at_most=at_most)
            self._under_way[fetch.node_id] = fetch
        if leaderless and not planned:
            raise TimedOut("no partition has a leader")

    def _receive_all(self, ask_again: bool) -> list[Chunk]:
        chunks: list[Chunk] = []
        stale = False
        for node_id, fetch in list(self._under_way.items()):
            limit = self._cluster.timeout + self._limits.max_wait_ms / 1000
            response = self._cluster.broker(node_id).receive(FetchResponse, limit)
            del self._under_way[node_id]
            fetched = self._plan.take(fetch, response, self._cluster.view)
            chunks.extend(fetched.chunks)
            stale = stale or fetched.stale
        if stale:
            self._recover(TimedOut("a partition has no leader that answers"))
        else:
            self._last_success = time.monotonic()
            self._backoff.reset()
            if chunks and ask_again:
                self._send_all()
        return chunks

    def _recover(self, error: EverlogError) -> None:
        deadline = self._last_success + self._cluster.timeout
        if not self._cluster.pause(self._backoff, deadline):
            raise error
        try:
            self._cluster.refresh({place.topic for place in self._plan.positions})
        except EverlogError as failure:
            if not failure.retriable:
                raise

    def _drop_all(self) -> None:
        for node_id in self._under_way:
            try:
                self._cluster.broker(node_id).close()
            except EverlogError:
                pass  # It is gone already, which is what is wanted.
        self._under_way.clear()
