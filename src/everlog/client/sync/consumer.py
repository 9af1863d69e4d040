"""The blocking consumer: a thread of its own fetches, and `poll` reads records on the caller's (C1-C8)."""

import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from everlog.client.aio.consumer import CHUNKS_BYTES, CLOSE_S, ITERATE_S, CommitCallback
from everlog.client.aio.consumer import Consumer as AioConsumer
from everlog.client.core.columns.columns import ArrowBatch, chunks_to_arrow, load_arrow
from everlog.client.core.columns.feed import MAX_BYTES as COLUMN_BYTES
from everlog.client.core.columns.feed import ColumnRead, read_columns
from everlog.client.core.consumer.arguments import OffsetLike, Place
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.list_offsets import TimedOffset
from everlog.client.core.consumer.metrics import ConsumerMetrics
from everlog.client.core.consumer.settings import ConsumerOptions, ConsumerSettings
from everlog.client.core.errors import Closed, Misused
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata, RebalanceListener
from everlog.client.core.metadata import Partition
from everlog.client.drive import forks
from everlog.client.sync.portal import Portal, call_back
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord

Result = TypeVar("Result")

LAST_CALL_S = 5.0
"""How long closing waits for a call on another thread before it ends it."""


class _ListenerThere:
    """A user's listener, called on the thread that polls while the loop waits for it."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener: Any = listener
        self.thread: int | None = None
        """On which it is being called, if it is."""

    async def on_revoked(self, places: Sequence[TopicPartition]) -> None:
        await self._call("on_revoked", places)

    async def on_lost(self, places: Sequence[TopicPartition]) -> None:
        named = "on_lost" if hasattr(self._listener, "on_lost") else "on_revoked"
        await self._call(named, places)

    async def on_assigned(self, places: Sequence[TopicPartition]) -> None:
        await self._call("on_assigned", places)

    async def _call(self, name: str, places: Sequence[TopicPartition]) -> None:
        method = getattr(self._listener, name, None)
        if method is not None:
            await call_back(lambda: self._call_here(method, places))

    def _call_here(
        self, method: Callable[[Sequence[TopicPartition]], object], places: Sequence[TopicPartition]
    ) -> None:
        self.thread = threading.get_ident()
        try:
            method(places)
        finally:
            self.thread = None


class Consumer:
    """Reads records of topics, as a member of a group or from partitions of one's choice.

    Settings are Kafka's, in snake_case. Leaving a `with` block commits, if that is automatic, and leaves the
    group. Threads may share it: one call runs at a time, `wakeup` and `close` reach one that waits.

    >>> with Consumer("127.0.0.1:9092", group_id="kitchen", topics=["orders"]) as consumer:
    ...     while True:
    ...         for record in consumer.poll(timeout=1.0):
    ...             print(record.offset, record.value)
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        *,
        topics: Sequence[str] | str | None = None,
        group_id: str | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._inner = AioConsumer(bootstrap_servers, topics=topics, group_id=group_id, **options)
        self._settings = self._inner.settings
        self._reading = self._inner.reading
        self._feed = self._reading.feed
        self._portal = Portal(f"everlog-consumer-{self._settings.client_id}")
        # The loop's clock stands still while the loop sleeps; it counts from the same moment as this one.
        self._clock = time.monotonic
        self._listener: _ListenerThere | None = None
        self._one_call = threading.RLock()
        self._calls_due: deque[Callable[[], object]] = deque()
        """Callbacks of commits that are done, to be called on the thread of the application."""
        self._is_closing = False
        forks.watch(self, Consumer._inherited)

    @property
    def settings(self) -> ConsumerSettings:
        """The settings it was made with."""
        return self._settings

    # Which partitions.

    def subscribe(
        self,
        topics: Sequence[str] | str | None = None,
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share topics with the other members of the group, by name or by a pattern of whole names.

        It replaces an earlier subscription. The next poll joins; the listener hears what is assigned, on
        the thread that polls.
        """
        self._listener = None if listener is None else _ListenerThere(listener)
        there: Any = self._listener
        self._run(self._inner.subscribe(topics, pattern=pattern, listener=there))

    def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        self._run(self._inner.unsubscribe())

    def assign(self, places: Iterable[Place]) -> None:
        """Read these partitions and no others, without sharing them; none is the same as `unsubscribe`."""
        self._run(self._inner.assign(list(places)))

    def assignment(self) -> set[TopicPartition]:
        """What this consumer reads now."""
        return self._inner.assignment()

    def subscription(self) -> set[str]:
        """The topics that are subscribed to by name; with a pattern those with partitions assigned."""
        return self._inner.subscription()

    # Records.

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, `max_poll_records` at most; empty if none came within `timeout` seconds.

        Rebalances and automatic commits happen within it. Raises DeserializationError, DamagedBatch,
        OffsetsNeeded and what else keeps a partition from being read, after all records before it were
        returned.
        """
        limit = self._settings.max_poll_records if max_records is None else max(1, max_records)
        reading = self._reading
        with self._one_call:
            if self._calls_due:
                self._call_due()
            deadline = -1.0
            while True:
                # The way to the loop and back costs as much as some hundred records: only when it must be.
                now = self._clock()
                if not self._feed.is_ready or reading.is_due(now):
                    deadline = now + timeout if deadline < 0 else deadline
                    if not self._run(reading.refill(deadline)):
                        return []
                records = self._feed.take(limit)
                if records:
                    self._inner.records_polled += len(records)
                    return records

    def poll_arrow(self, timeout: float = 1.0, *, views: bool = False) -> ArrowBatch:
        """The next records as a pyarrow.RecordBatch; without rows if none came within `timeout` seconds.

        Columns are the fields of ConsumerRecord: topic, partition, offset, timestamp, timestamp_type, key,
        value, headers and leader_epoch. Positions, commits, rebalances and errors are those of `poll`;
        `max_poll_records` and deserializers do not apply.

        With `views` the column `value` is of type binary_view and points into what was fetched: values are
        not copied, which is quicker where they are large. Polars, DuckDB and pandas read it. As long as one
        row is kept, so is the whole answer of the broker that it came in.

        >>> table = consumer.poll_arrow()
        >>> table.to_pandas().groupby("key").size()
        """
        load_arrow()
        with self._one_call:
            self._call_due()
            deadline = self._clock() + timeout
            while self._run(self._reading.refill(deadline, COLUMN_BYTES)):
                portions = self._feed.take_portions()
                read = ColumnRead(left=portions)
                try:
                    read = read_columns(portions, views=views)
                finally:
                    self._feed.return_portions(read.left)
                if (batch := self._inner.take_in(read)) is not None:
                    return batch
            return chunks_to_arrow((), views=views)

    def take_chunks(self, timeout: float = 1.0, max_bytes: int = CHUNKS_BYTES) -> list[Chunk]:
        """The next records as whole batches, about `max_bytes` of them; positions move behind them.

        A chunk's first batch may have records before the chunk's start.
        """
        return self._run(self._inner.take_chunks(timeout, max_bytes))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """The records as they come; ends when the consumer is closed.

        The position moves with each record, so that a commit means those that the loop has seen.
        """
        while True:
            try:
                yield next(self)
            except StopIteration:
                return
            with self._one_call:
                run = self._feed.run(self._clock, self._clock() + ITERATE_S)
            if run is not None:
                try:
                    yield from run
                finally:
                    self._inner.records_polled += run.handed

    def __next__(self) -> ConsumerRecord:
        """The next record, whenever it comes; StopIteration when the consumer is closed."""
        while True:
            try:
                records = self.poll(1.0, 1)
            except Closed:
                if self._portal.is_lost:
                    raise
                raise StopIteration from None
            if records:
                return records[0]

    def wakeup(self) -> None:
        """Have the poll that waits now, or else the next one, raise Woken; for any thread to call."""
        self._portal.tell(self._inner.wakeup)
        self._feed.interrupt()

    # Positions.

    def seek(self, place: Place, offset: OffsetLike) -> None:
        """Read on from an offset; what was fetched ahead is let go."""
        self._run(self._inner.seek(place, offset))

    def seek_to_beginning(self, *places: Place) -> None:
        """Read on from the first record that is still there; without partitions in all of them."""
        self._run(self._inner.seek_to_beginning(*places))

    def seek_to_end(self, *places: Place) -> None:
        """Read on from the end, which is found at the next poll or `position`."""
        self._run(self._inner.seek_to_end(*places))

    def seek_to_time(self, timestamp_ms: int, *places: Place) -> None:
        """Read on from the first record with this timestamp or a later one; from the end if there is none."""
        self._run(self._inner.seek_to_time(timestamp_ms, *places))

    def position(self, place: Place, timeout: float | None = None) -> int:
        """The offset of the record that poll returns next."""
        return self._run(self._inner.position(place, timeout))

    def pause(self, *places: Place) -> None:
        """Have poll return nothing of these partitions; what was fetched ahead is kept."""
        self._run(self._inner.pause(*places))

    def resume(self, *places: Place) -> None:
        """Go on with partitions that are paused."""
        self._run(self._inner.resume(*places))

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._inner.paused()

    # Commits.

    def commit(self, offsets: Mapping[Any, OffsetLike] | None = None, timeout: float | None = None) -> None:
        """Commit positions, or the offsets given, and wait until that is done.

        Positions are behind the last record that poll returned, in every partition.
        """
        with self._one_call:
            self._run(self._inner.commit(offsets, timeout))
            self._call_due()

    def commit_async(
        self, offsets: Mapping[Any, OffsetLike] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Commit without waiting for it; in order with all other commits.

        The callback is called within a later poll, commit or close, with the offsets and None or an error.
        """

        if callback is None:
            self._run(self._inner.commit_async(offsets))
            return
        due, chosen = self._calls_due, callback

        def tell(made: Mapping[TopicPartition, OffsetAndMetadata], error: EverlogError | None) -> None:
            due.append(lambda: chosen(made, error))

        self._run(self._inner.commit_async(offsets, tell))

    def committed(
        self, *places: Place, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed, None for nothing; without partitions for all that are assigned."""
        return self._run(self._inner.committed(*places, timeout=timeout))

    def group_metadata(self) -> GroupMetadata:
        """In whose name offsets go into a producer's transaction."""
        return self._run(_called(self._inner.group_metadata))

    # What is there.

    def beginning_offsets(self, *places: Place, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The first offset that is still there; without partitions of all that are assigned."""
        return self._run(self._inner.beginning_offsets(*places, timeout=timeout))

    def end_offsets(self, *places: Place, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The offset of the record to come; under read_committed that of the first open transaction."""
        return self._run(self._inner.end_offsets(*places, timeout=timeout))

    def offsets_for_times(
        self, timestamps: Mapping[Any, int], timeout: float | None = None
    ) -> dict[TopicPartition, TimedOffset | None]:
        """The first record with a timestamp or a later one, by partition; None if there is none."""
        return self._run(self._inner.offsets_for_times(timestamps, timeout))

    def lag(self, *places: Place, timeout: float | None = None) -> dict[TopicPartition, int]:
        """How many offsets lie between positions and the end; without partitions for all assigned ones."""
        return self._run(self._inner.lag(*places, timeout=timeout))

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[Partition]:
        """The partitions of a topic, with leader and replicas, as they are now."""
        return self._run(self._inner.partitions_for(topic, timeout))

    def topics(self, timeout: float | None = None) -> list[str]:
        """The names of all topics, without internal ones if `exclude_internal_topics`."""
        return self._run(self._inner.topics(timeout))

    def metrics(self) -> ConsumerMetrics:
        """What the consumer has counted since it was made, and how things stand."""
        return self._inner.metrics()

    # The end.

    def close(self, timeout: float | None = None) -> None:
        """Commit, if that is automatic, and leave the group, for `timeout` seconds at most; then end.

        A poll that waits on another thread raises Closed at once, and any other call there when it has had
        half of the time, or a few seconds. Closing twice is harmless.
        """
        if self._is_closing or self._portal.is_lost:
            return
        if self._listener is not None and self._listener.thread == threading.get_ident():
            raise Misused("a rebalance listener may not close")
        self._portal.check()
        self._is_closing = True
        limit = CLOSE_S if timeout is None else max(0.0, timeout)
        deadline = time.monotonic() + limit
        self._portal.tell(self._reading.mark_closed)
        self._feed.interrupt()
        is_alone = self._one_call.acquire(timeout=min(LAST_CALL_S, limit / 2))
        try:
            self._portal.run(self._inner.close(max(0.0, deadline - time.monotonic())))
            self._call_due()
        finally:
            self._portal.close()
            if is_alone:
                self._one_call.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        with self._one_call:
            return self._portal.run(work)

    def _inherited(self, why: str) -> None:
        """This is another process now: take no more calls. Who held the lock may not be here."""
        self._one_call = threading.RLock()
        self._portal.inherited(why, self)
        self._reading.link.inherited(why)

    def _call_due(self) -> None:
        while self._calls_due:
            self._calls_due.popleft()()


async def _called(function: Callable[[], Result]) -> Result:
    return function()
