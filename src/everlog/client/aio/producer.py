"""The producer for programs with an event loop; the blocking one runs the same on a thread (P1-P5)."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, Unpack

from everlog.client.core import surroundings
from everlog.client.core.columns.intake import ColumnIntake
from everlog.client.core.consumer.arguments import OffsetLike, as_offsets
from everlog.client.core.errors import Closed, TimedOut, TransactionMisused
from everlog.client.core.group.types import GroupMetadata
from everlog.client.core.metadata import Partition
from everlog.client.core.producer.accumulator import RECORD_OVERHEAD, Accumulator, HeaderPairs, TopicQueues
from everlog.client.core.producer.delivery import BulkDelivery, Delivery, OnDelivery
from everlog.client.core.producer.metrics import ProducerMetrics
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.record_intake import RecordIntake, short_way_of
from everlog.client.core.producer.settings import ProducerOptions, producer_settings
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.sender import Sender
from everlog.client.drive.transactions import TransactionSession
from everlog.records.batch import HEADER_BYTES


class Producer:
    """Sends records to topics, in batches, from one event loop.

    Settings are Kafka's, in snake_case. Leaving an `async with` block delivers what was sent.

    >>> async with Producer("127.0.0.1:9092", compression_type="zstd") as producer:
    ...     delivery = await producer.send("orders", b"pizza", key=b"customer-42")
    ...     print((await delivery).offset)
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        **options: Unpack[ProducerOptions],
    ) -> None:
        self.settings = producer_settings(bootstrap_servers, options)
        self.link = ClusterLink(self.settings)
        self.accumulator = Accumulator(self.settings, threading.Lock(), surroundings.monotonic, self._rouse)
        self.intake = RecordIntake(self.settings, self.accumulator)
        self.column_intake = ColumnIntake(self.settings)
        self.sender = Sender(self.link, self.settings, self.accumulator)
        self.session: TransactionSession | None = None
        if self.settings.transactional_id is not None:
            self.session = TransactionSession(
                self.link,
                self.sender,
                transactional_id=self.settings.transactional_id,
                transaction_timeout_ms=self.settings.transaction_timeout_ms,
                max_block_ms=self.settings.max_block_ms,
            )
            self.sender.session = self.session
        # A blocking producer puts another in this place, which leads to its own `send`.
        self.accumulator.short_way = short_way_of(self.settings, _none)
        self._short_send: Callable[..., Delivery | None] = getattr(self.accumulator.short_way, "send", _none)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.link.when_inherited(self._inherited)
        self._opening: dict[str, asyncio.Task[TopicQueues]] = {}
        self._is_closed = False
        self._why_lost: str | None = None
        """Why it is of no use, in a process that was forked."""

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeaderPairs = (),
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take a record and return its delivery, which can be awaited.

        Waits, for `max_block_ms` at most, while nothing is known of the topic or the buffer is full. The
        timestamp is in milliseconds since 1970, by default now.
        """
        self._check_sending("send")
        when = surroundings.time_ns() // 1_000_000 if timestamp is None else timestamp
        short = self._short_send(
            topic, value, key, partition=partition, headers=headers, timestamp=when, on_delivery=on_delivery
        )
        if short is not None:
            return short
        value, key = self.intake.serialize(value, key)
        deadline = surroundings.monotonic() + self.settings.max_block_ms / 1000
        queues = self.intake.topic(topic)
        if queues is None:
            queues = await self.open_topic(topic)
        queue = self.intake.route(queues, key, value, partition)
        while (delivery := self.intake.add(queues, queue, key, value, headers, when, on_delivery)) is None:
            await self._room(len(key or b"") + len(value or b"") + RECORD_OVERHEAD, deadline)
        if not self.accumulator.wakes_on_ready:
            # The sender was roused and has not run yet: a loop that only sends would never let it.
            await asyncio.sleep(0)
        return delivery

    async def send_arrow(
        self, topic: str, table: Any, *, columns: Mapping[str, str] | None = None
    ) -> BulkDelivery:
        """Take the rows of an Arrow table as records and return their delivery, which can be awaited.

        `table` is a pyarrow Table or RecordBatch, or a frame of pandas or Polars, a relation of DuckDB or
        anything else with Arrow's C stream. It has a column `value`, and if need be `key`, `headers`,
        `timestamp` and `partition`; `columns={"value": "body"}` takes others. Serializers do not apply.

        Waits for room as `send` does, between batches: a table of any size takes little memory beside
        itself. Unsendable names a column that will not do, before anything is sent.

        >>> delivery = await producer.send_arrow("orders", pyarrow.table({"value": ["pizza", "pasta"]}))
        >>> [(batch.partition, batch.base_offset, batch.record_count) for batch in await delivery]
        [(0, 0, 2)]
        """
        self._check_sending("send_arrow")
        queues = self.intake.topic(topic) or await self.open_topic(topic)
        batches = self.column_intake.batches(queues, table, columns, surroundings.time_ns() // 1_000_000)
        added: list[PendingBatch] = []
        # On a thread: a batch takes as long as many turns of the loop, and whoever makes the table may wait.
        while (made := await asyncio.to_thread(next, batches, None)) is not None:
            deadline = surroundings.monotonic() + self.settings.max_block_ms / 1000
            await self._room(made[1].size_bytes, deadline, self.column_intake.most_ahead(self.link.view))
            self._check_sending("send_arrow")
            added += self.accumulator.add_batches(queues, [made])
        return BulkDelivery(added)

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until all of it was delivered or has failed.

        TimedOut after `timeout` seconds; without one, `delivery_timeout_ms` bounds it.
        """
        if self._why_lost is not None:
            raise Closed(self._why_lost)
        self._bind()
        await self.sender.flush(timeout)

    async def partitions_for(self, topic: str) -> list[Partition]:
        """The partitions of a topic, with leader and replicas, as they are now."""
        self._check_open()
        described = await self.link.topics(
            [topic],
            auto_create=self.settings.allow_auto_create_topics,
            timeout=self.settings.max_block_ms / 1000,
        )
        return [described[0].partitions[index] for index in sorted(described[0].partitions)]

    def metrics(self) -> ProducerMetrics:
        """What the producer has counted since it was made."""
        return self.sender.metrics()

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for `timeout` seconds at most, and end. Closing twice is harmless.

        What is not delivered by then fails with Closed. A transaction that is open is aborted.
        """
        if self._is_closed or self._why_lost is not None:
            return
        self._bind()
        self._is_closed = True
        self.accumulator.close(Closed("this producer is closed"))
        try:
            if self.session is not None:
                await self.session.close(timeout)
            await self.sender.flush(timeout)
        except TimedOut:
            pass  # Each delivery that failed says so.
        finally:
            try:
                await self.sender.close()
            finally:
                # Even if whoever closes is cancelled once more: nobody else will close the connections.
                await self.link.close()

    async def __aenter__(self) -> Self:
        self._bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Transactions (P5).

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Take over the transactional id, once, before the first transaction; who had it before is fenced.

        What the last owner left open is aborted first. Like all calls of transactions it takes `timeout`
        seconds at most, by default `max_block_ms`; after TimedOut it may be called again.
        """
        await self._transactions().init(timeout)

    async def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction: what is sent from here on is seen as a whole or not at all."""
        await self._transactions().begin(timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records of the transaction and commit it.

        TransactionFailed if a record could not be delivered: then only `abort_transaction` is left. After
        TimedOut it may be called again; if the coordinator was asked already nothing else helps, as nobody
        knows then what it has decided.
        """
        await self._transactions().commit(timeout)

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
        """Deliver all records of the transaction and leave its end to somebody else; None if it has none.

        What it returns is all that `Admin.commit_prepared_transactions` needs, in whatever process and after
        whatever restart. The producer itself can still commit or abort it; `init_transactions` goes on after
        somebody else has, and aborts it if nobody has. Closing the producer leaves it open.
        """
        return await self._transactions().prepare(timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: readers of committed records never see it.

        Records that were not sent yet are dropped: their deliveries fail with TransactionAborted.
        """
        await self._transactions().abort(timeout)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, OffsetLike],
        group_metadata: GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Make a consumer's progress a part of the transaction: the offsets count once it is committed.

        `offsets` has the offset to read next of each partition, `group_metadata` is the consumer's.
        TransactionFailed if the group went on without the member that `group_metadata` names. After TimedOut
        the offsets may be in the transaction or not: until the same call ends well nothing is committed, and
        only that or `abort_transaction` goes on.
        """
        await self._transactions().add_offsets(as_offsets(offsets), group_metadata, timeout)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Begin a transaction; commit it at the end of the block, or abort it if the block fails.

        >>> async with producer.transaction():
        ...     await producer.send("orders", b"pizza")
        ...     await producer.send("payments", b"12 EUR")
        """
        session = self._transactions()
        await session.begin()
        try:
            yield
            await session.commit()
        except BaseException as error:
            await session.give_up(error)
            raise

    def _transactions(self) -> TransactionSession:
        self._check_open()
        if self.session is None:
            raise TransactionMisused("this producer has no transactional_id: expected one among its settings")
        return self.session

    # How it is done.

    async def open_topic(self, name: str) -> TopicQueues:
        """Learn of a topic, within `max_block_ms`; one question for all who wait for it."""
        task = self._opening.get(name)
        if task is None:
            task = self._opening[name] = asyncio.get_running_loop().create_task(self._open_topic(name))
            task.add_done_callback(lambda _: self._opening.pop(name, None))
        return await asyncio.shield(task)

    async def _open_topic(self, name: str) -> TopicQueues:
        limit = self.settings.max_block_ms / 1000
        described = await self.link.topics(
            [name], auto_create=self.settings.allow_auto_create_topics, timeout=limit
        )
        return self.accumulator.open_topic(
            name, len(described[0].partitions), self.link.view.led_partitions(name)
        )

    async def _room(self, need: int, deadline: float, ahead: int | None = None) -> None:
        loop = asyncio.get_running_loop()
        room: asyncio.Future[None] = loop.create_future()
        self.accumulator.when_room(need + HEADER_BYTES, lambda: _settle(room), ahead=ahead)
        try:
            async with asyncio.timeout(deadline - surroundings.monotonic()):
                await room
        except TimeoutError:
            raise no_room(self.settings.max_block_ms, self.settings.buffer_memory) from None

    def _check_sending(self, what: str) -> None:
        self._check_open()
        if self.session is not None:
            self.session.core.check_open(what)

    def _check_open(self) -> None:
        if self._why_lost is not None:
            raise Closed(self._why_lost)
        if self._is_closed:
            raise Closed("this producer is closed")
        if self.loop is None:
            self._bind()

    def _bind(self) -> None:
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
            self.accumulator.network_thread.ident = threading.get_ident()

    def _inherited(self, why: str) -> None:
        """This is another process now: take no more calls, and send nothing."""
        self._why_lost = why
        self.sender.inherited()
        self.accumulator.inherited(Closed(why), threading.Lock())

    def _rouse(self) -> None:
        """Have the loop look for something to send; from whichever thread a record came."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.sender.wake)


def no_room(max_block_ms: int, buffer_memory: int) -> TimedOut:
    """The error of a record that found no room in time."""
    return TimedOut(
        f"there was no room for the record within max_block_ms={max_block_ms}: "
        f"buffer_memory={buffer_memory} is full, records are sent faster than they are delivered"
    )


def _settle(room: "asyncio.Future[None]") -> None:
    if not room.done():
        room.set_result(None)


def _none(*_args: object, **_named: object) -> None:
    """The long way of a record: `send` itself goes it when there is no short one."""
