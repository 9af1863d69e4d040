"""The consumer for programs with an event loop; the blocking one runs the same on a thread (C1-C8)."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from everlog.client.core.columns.columns import ArrowBatch, chunks_to_arrow, load_arrow
from everlog.client.core.columns.feed import MAX_BYTES as COLUMN_BYTES
from everlog.client.core.columns.feed import ColumnRead, read_columns
from everlog.client.core.consumer.arguments import (
    OffsetLike,
    Place,
    as_offset,
    as_offsets,
    as_place,
    as_places,
    as_topics,
)
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.list_offsets import EARLIEST, LATEST, TimedOffset
from everlog.client.core.consumer.metrics import ConsumerMetrics, known_lag
from everlog.client.core.consumer.settings import CONSUMER, ConsumerOptions, ConsumerSettings
from everlog.client.core.errors import Closed, Misused, TimedOut
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata, RebalanceListener
from everlog.client.core.metadata import Partition
from everlog.client.core.settings import read_settings
from everlog.client.drive.offsets import list_offsets
from everlog.client.drive.reading import Reading
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord, RowRun

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], EverlogError | None], object]
"""Told of a commit that was not waited for: its offsets, and the error if it failed."""

ITERATE_S = 0.02
"""How long a loop goes over records at hand before group, commits and callbacks are looked after."""

CHUNKS_BYTES = 16 * 1024 * 1024
CLOSE_S = 30.0


class Consumer:
    """Reads records of topics, as a member of a group or from partitions of one's choice.

    Settings are Kafka's, in snake_case. Leaving an `async with` block commits, if that is automatic, and
    leaves the group. One task polls; `wakeup` and `close` may be called by others.

    >>> async with Consumer("127.0.0.1:9092", group_id="kitchen", topics=["orders"]) as consumer:
    ...     async for record in consumer:
    ...         print(record.offset, record.value)
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        *,
        topics: Sequence[str] | str | None = None,
        group_id: str | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        given = {"bootstrap_servers": bootstrap_servers, "group_id": group_id, **options}
        self.settings = read_settings(ConsumerSettings, given)
        self.reading = Reading(self.settings)
        self.records_polled = 0
        self._run: RowRun | None = None
        """Rows at hand, for a loop over the consumer."""
        self._polling = asyncio.Lock()
        self._is_closing = False
        self._is_closed = False
        """Until then listeners may commit, though the consumer is closing."""
        self._is_lost = False
        """Whether this is another process than that of the consumer."""
        self.reading.link.when_inherited(self._inherited)
        if topics is not None:
            self.reading.subscribe(as_topics(topics, None), None, None)

    # Which partitions.

    async def subscribe(
        self,
        topics: Sequence[str] | str | None = None,
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share topics with the other members of the group, by name or by a pattern of whole names.

        It replaces an earlier subscription. The next poll joins; the listener hears what is assigned.
        """
        self._check_open()
        matches_here = self.settings.group_protocol != CONSUMER
        self.reading.subscribe(as_topics(topics, pattern, matches_here=matches_here), pattern, listener)

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        self._check_open()
        await self.reading.unsubscribe()

    async def assign(self, places: Iterable[Place]) -> None:
        """Read these partitions and no others, without sharing them; none is the same as `unsubscribe`."""
        self._check_open()
        await self.reading.assign(as_places(places))

    def assignment(self) -> set[TopicPartition]:
        """What this consumer reads now."""
        return set(self.reading.positions.places)

    def subscription(self) -> set[str]:
        """The topics that are subscribed to by name; with a pattern those with partitions assigned."""
        reading = self.reading
        return set(reading.topics) if reading.pattern is None else reading.positions.topics

    # Records.

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, `max_poll_records` at most; empty if none came within `timeout` seconds.

        Rebalances and automatic commits happen within it. Raises DeserializationError, DamagedBatch,
        OffsetsNeeded and what else keeps a partition from being read, after all records before it were
        returned.
        """
        limit = self.settings.max_poll_records if max_records is None else max(1, max_records)
        self.reading.refuse_in_listener()
        async with self._polling:
            deadline = asyncio.get_running_loop().time() + timeout
            while await self.reading.refill(deadline):
                records = self.reading.feed.take(limit)
                if records:
                    self.records_polled += len(records)
                    return records
            return []

    async def poll_arrow(self, timeout: float = 1.0, *, views: bool = False) -> ArrowBatch:
        """The next records as a pyarrow.RecordBatch; without rows if none came within `timeout` seconds.

        Columns are the fields of ConsumerRecord: topic, partition, offset, timestamp, timestamp_type, key,
        value, headers and leader_epoch. Positions, commits, rebalances and errors are those of `poll`;
        `max_poll_records` and deserializers do not apply.

        With `views` the column `value` is of type binary_view and points into what was fetched: values are
        not copied, which is quicker where they are large. Polars, DuckDB and pandas read it. As long as one
        row is kept, so is the whole answer of the broker that it came in.

        >>> table = await consumer.poll_arrow()
        >>> table.to_pandas().groupby("key").size()
        """
        load_arrow()
        feed = self.reading.feed
        self.reading.refuse_in_listener()
        async with self._polling:
            deadline = asyncio.get_running_loop().time() + timeout
            while await self.reading.refill(deadline, COLUMN_BYTES):
                portions = feed.take_portions()
                read = ColumnRead(left=portions)
                try:
                    # On a thread: it takes as long as many turns of the loop.
                    read = await asyncio.to_thread(read_columns, portions, views=views)
                finally:
                    feed.return_portions(read.left)
                if (batch := self.take_in(read)) is not None:
                    return batch
            return chunks_to_arrow((), views=views)

    def take_in(self, read: ColumnRead) -> ArrowBatch | None:
        """Move positions behind what was read as columns; None if it has no rows."""
        if read.error is not None:
            raise read.error
        read.move_positions()
        rows = 0 if read.batch is None else read.batch.num_rows
        self.records_polled += rows
        return read.batch if rows else None

    async def take_chunks(self, timeout: float = 1.0, max_bytes: int = CHUNKS_BYTES) -> list[Chunk]:
        """The next records as whole batches, about `max_bytes` of them; positions move behind them.

        A chunk's first batch may have records before the chunk's start.
        """
        self.reading.refuse_in_listener()
        async with self._polling:
            return await self.reading.take_chunks(asyncio.get_running_loop().time() + timeout, max_bytes)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record, whenever it comes; ends when the consumer is closed.

        The position moves with each record, so that a commit means those that the loop has seen.
        """
        if self._run is not None and (record := next(self._run, None)) is not None:
            self.records_polled += 1
            return record
        reading, clock = self.reading, asyncio.get_running_loop().time
        if reading.feed.is_ready and not reading.is_due(now := clock()):
            records = reading.feed.take(1)
            if records:
                self.records_polled += 1
                self._run = reading.feed.run(clock, now + ITERATE_S)
                return records[0]
        while True:
            try:
                records = await self.poll(1.0, 1)
            except Closed:
                if self._is_lost:
                    raise
                raise StopAsyncIteration from None
            if records:
                return records[0]

    def wakeup(self) -> None:
        """Have the poll that waits now, or else the next one, raise Woken. Call it on the loop's thread."""
        self.reading.wake()
        self.reading.feed.interrupt()

    # Positions.

    async def seek(self, place: Place, offset: OffsetLike) -> None:
        """Read on from an offset; what was fetched ahead is let go."""
        self._check_open()
        entry = as_offset(offset)
        self.reading.positions.seek(as_place(place), entry.offset, entry.leader_epoch)
        self.reading.fetcher.kick()

    async def seek_to_beginning(self, *places: Place) -> None:
        """Read on from the first record that is still there; without partitions in all of them."""
        self._reset(places, EARLIEST)

    async def seek_to_end(self, *places: Place) -> None:
        """Read on from the end, which is found at the next poll or `position`."""
        self._reset(places, LATEST)

    async def seek_to_time(self, timestamp_ms: int, *places: Place) -> None:
        """Read on from the first record with this timestamp or a later one; from the end if there is none."""
        if timestamp_ms < 0:
            raise Misused(f"timestamp {timestamp_ms}: expected milliseconds since 1970")
        self._reset(places, timestamp_ms)

    async def position(self, place: Place, timeout: float | None = None) -> int:
        """The offset of the record that poll returns next."""
        self._check_open()
        return await self.reading.position(as_place(place), self._limit(timeout))

    async def pause(self, *places: Place) -> None:
        """Have poll return nothing of these partitions; what was fetched ahead is kept."""
        for state in self.reading.positions.chosen(as_places(places)):
            state.paused = True
        self.reading.feed.tidy()
        self.reading.fetcher.kick()

    async def resume(self, *places: Place) -> None:
        """Go on with partitions that are paused."""
        for state in self.reading.positions.chosen(as_places(places)):
            state.paused = False
        self.reading.fetcher.kick()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {state.place for state in self.reading.positions if state.paused}

    # Commits.

    async def commit(
        self, offsets: Mapping[Any, OffsetLike] | None = None, timeout: float | None = None
    ) -> None:
        """Commit positions, or the offsets given, and wait until that is done.

        Positions are behind the last record that poll returned, in every partition.
        """
        self._check_open()
        self.reading.session()
        await self.reading.commits.commit(self._to_commit(offsets), self._limit(timeout))

    async def commit_async(
        self, offsets: Mapping[Any, OffsetLike] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Commit without waiting for it; in order with all other commits. The callback runs on the loop."""
        self._check_open()
        self.reading.session()
        self.reading.commits.commit_later(self._to_commit(offsets), callback or _nothing)

    async def committed(
        self, *places: Place, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed, None for nothing; without partitions for all that are assigned."""
        self._check_open()
        session = self.reading.session()
        named = as_places(places) or self.reading.positions.places
        limit = self._limit(timeout)
        try:
            async with asyncio.timeout(limit):
                return dict(await session.committed(named))
        except TimeoutError:
            raise TimedOut(f"the group's offsets were not to be had within {limit:g} s") from None

    def group_metadata(self) -> GroupMetadata:
        """In whose name offsets go into a producer's transaction."""
        return self.reading.session().metadata()

    # What is there.

    async def beginning_offsets(
        self, *places: Place, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that is still there; without partitions of all that are assigned."""
        return await self._bounds(places, EARLIEST, timeout)

    async def end_offsets(self, *places: Place, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The offset of the record to come; under read_committed that of the first open transaction."""
        return await self._bounds(places, LATEST, timeout)

    async def offsets_for_times(
        self, timestamps: Mapping[Any, int], timeout: float | None = None
    ) -> dict[TopicPartition, TimedOffset | None]:
        """The first record with a timestamp or a later one, by partition; None if there is none."""
        wanted = {as_place(place): at for place, at in timestamps.items()}
        for place, at in wanted.items():
            if at < 0:
                raise Misused(f"timestamp {at} for {place}: expected milliseconds since 1970")
        return await self._listed(wanted, timeout)

    async def lag(self, *places: Place, timeout: float | None = None) -> dict[TopicPartition, int]:
        """How many offsets lie between positions and the end; without partitions for all assigned ones."""
        states = self.reading.positions.chosen(as_places(places))
        ends = await self._bounds([state.place for state in states], LATEST, timeout) if states else {}
        limit = self._limit(timeout)
        return {place: max(0, end - await self.reading.position(place, limit)) for place, end in ends.items()}

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[Partition]:
        """The partitions of a topic, with leader and replicas, as they are now."""
        self._check_open()
        described = await self.reading.link.topics([topic], timeout=self._limit(timeout))
        return [described[0].partitions[index] for index in sorted(described[0].partitions)]

    async def topics(self, timeout: float | None = None) -> list[str]:
        """The names of all topics, without internal ones if `exclude_internal_topics`."""
        self._check_open()
        view = await self.reading.link.refresh(None, timeout=self._limit(timeout))
        hide = self.settings.exclude_internal_topics
        return sorted(name for name, topic in view.topics.items() if not (topic.is_internal and hide))

    def metrics(self) -> ConsumerMetrics:
        """What the consumer has counted since it was made, and how things stand."""
        reading = self.reading
        counts, commits = reading.fetcher.counts, reading.commits
        return ConsumerMetrics(
            fetches=counts.fetches,
            fetch_failures=counts.failures,
            bytes_fetched=counts.bytes,
            records_polled=self.records_polled,
            commits=commits.made,
            commit_failures=commits.failed,
            bytes_buffered=sum(state.buffered_bytes for state in reading.positions),
            partitions=len(reading.positions),
            lag=known_lag(reading.positions, read_committed=self.settings.read_committed),
        )

    # The end.

    async def close(self, timeout: float | None = None) -> None:
        """Commit, if that is automatic, and leave the group, for `timeout` seconds at most; then end.

        A poll that waits raises Closed, and what else waits does when the time is over. Closing twice is
        harmless.
        """
        if self._is_closing:
            return
        self.reading.feed.interrupt()
        self.reading.refuse_in_listener()
        self._is_closing = True
        self.reading.mark_closed()
        try:
            async with asyncio.timeout(CLOSE_S if timeout is None else timeout), self._polling:
                await self.reading.close()
        except TimeoutError:
            # A poll does not end, as a listener does not, or leaving takes too long.
            await self.reading.end()
        except asyncio.CancelledError:
            # Else the group would go on with a member that nobody can close any more.
            await self.reading.end()
            raise
        finally:
            self._is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            self.reading.check_open()

    def _inherited(self, _why: str) -> None:
        self._is_closing = self._is_closed = self._is_lost = True

    def _limit(self, timeout: float | None) -> float:
        return self.settings.api_timeout if timeout is None else timeout

    def _reset(self, places: Sequence[Place], timestamp: int) -> None:
        self._check_open()
        for state in self.reading.positions.chosen(as_places(places)):
            state.reset(timestamp)
        self.reading.fetcher.kick()

    def _to_commit(self, offsets: Mapping[Any, OffsetLike] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.reading.commits.consumed() if offsets is None else as_offsets(offsets)

    async def _bounds(
        self, places: Sequence[Place], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        named = as_places(places) or self.reading.positions.places
        found = await self._listed(dict.fromkeys(named, timestamp), timeout)
        return {place: 0 if bound is None else bound.offset for place, bound in found.items()}

    async def _listed(
        self, wanted: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, TimedOffset | None]:
        self._check_open()
        return await list_offsets(
            self.reading.link,
            wanted,
            read_committed=self.settings.read_committed,
            timeout=self._limit(timeout),
        )


def _nothing(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: EverlogError | None) -> None:
    """What is done about a commit nobody asks about."""
