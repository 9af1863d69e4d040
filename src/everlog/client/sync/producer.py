"""The blocking producer: `send` works on the caller's thread, a thread of its own sends (P1-P5)."""

import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from everlog.client.aio.producer import Producer as AioProducer
from everlog.client.aio.producer import no_room
from everlog.client.core.consumer.arguments import OffsetLike
from everlog.client.core.errors import Closed
from everlog.client.core.group.types import GroupMetadata
from everlog.client.core.metadata import Partition
from everlog.client.core.producer.accumulator import RECORD_OVERHEAD, HeaderPairs, TopicQueues
from everlog.client.core.producer.delivery import BulkDelivery, Delivery, OnDelivery
from everlog.client.core.producer.metrics import ProducerMetrics
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.record_intake import short_way_of
from everlog.client.core.producer.settings import ProducerOptions, ProducerSettings
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.client.drive import forks
from everlog.client.sync.portal import Portal
from everlog.records.batch import HEADER_BYTES

Result = TypeVar("Result")


class Producer:
    """Sends records to topics, in batches, from any number of threads.

    Settings are Kafka's, in snake_case. Leaving a `with` block delivers what was sent.

    >>> with Producer("127.0.0.1:9092", compression_type="zstd") as producer:
    ...     delivery = producer.send("orders", b"pizza", key=b"customer-42")
    ...     print(delivery.result().offset)
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._inner = AioProducer(bootstrap_servers, **options)
        self._portal = Portal(f"everlog-producer-{self._inner.settings.client_id}")
        self._inner.loop = self._portal.loop
        self._inner.accumulator.network_thread.ident = self._portal.thread_ident
        self._intake = self._inner.intake
        self._session = self._inner.session
        self._is_closed = False
        if type(self).send is Producer.send:
            # Most records go into a batch that is open, see records.short_way; the others come to `send`.
            short_way = short_way_of(self._inner.settings, self.send)
            if short_way is not None:
                self._inner.accumulator.short_way = short_way
                self.send = short_way.send  # type: ignore[method-assign]  # it takes and returns the same
        forks.watch(self, Producer._inherited)

    @property
    def settings(self) -> ProducerSettings:
        """The settings it was made with."""
        return self._inner.settings

    def send(
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
        """Take a record and return its delivery, a future; several threads may call at once.

        Blocks, for `max_block_ms` at most, while nothing is known of the topic or the buffer is full. The
        timestamp is in milliseconds since 1970, by default now. `on_delivery` is called on the network
        thread with the metadata of the record, or with None and the error.
        """
        if self._session is not None:
            self._check_session("send")
        intake = self._intake
        value, key = intake.serialize(value, key)
        queues = intake.topic(topic)
        if queues is None:
            queues = self._open_topic(topic)
        queue = intake.route(queues, key, value, partition)
        when = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        delivery = intake.add(queues, queue, key, value, headers, when, on_delivery)
        if delivery is None:
            delivery = self._wait_for_room(
                len(key or b"") + len(value or b"") + RECORD_OVERHEAD + HEADER_BYTES,
                lambda: intake.add(queues, queue, key, value, headers, when, on_delivery),
            )
        return delivery

    def send_arrow(self, topic: str, table: Any, *, columns: Mapping[str, str] | None = None) -> BulkDelivery:
        """Take the rows of an Arrow table as records and return their delivery, a future.

        `table` is a pyarrow Table or RecordBatch, or a frame of pandas or Polars, a relation of DuckDB or
        anything else with Arrow's C stream. It has a column `value`, and if need be `key`, `headers`,
        `timestamp` and `partition`; `columns={"value": "body"}` takes others. Serializers do not apply.

        Blocks for room as `send` does, between batches: a table of any size takes little memory beside
        itself. Unsendable names a column that will not do, before anything is sent.

        >>> delivery = producer.send_arrow("orders", pyarrow.table({"value": ["pizza", "pasta"]}))
        >>> [(batch.partition, batch.base_offset, batch.record_count) for batch in delivery.result()]
        [(0, 0, 2)]
        """
        self._check_sending()
        queues = self._intake.topic(topic) or self._open_topic(topic)
        now = time.time_ns() // 1_000_000
        added: list[PendingBatch] = []
        for made in self._inner.column_intake.batches(queues, table, columns, now):
            self._make_room(made[1].size_bytes)
            self._check_sending()
            added += self._inner.accumulator.add_batches(queues, [made])
        return BulkDelivery(added)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until all of it was delivered or has failed.

        TimedOut after `timeout` seconds; without one, `delivery_timeout_ms` bounds it.
        """
        self._run(self._inner.flush(timeout))

    def partitions_for(self, topic: str) -> list[Partition]:
        """The partitions of a topic, with leader and replicas, as they are now."""
        return self._run(self._inner.partitions_for(topic))

    def metrics(self) -> ProducerMetrics:
        """What the producer has counted since it was made."""
        return self._inner.metrics()

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for `timeout` seconds at most, and end. Closing twice is harmless.

        What is not delivered by then fails with Closed. A transaction that is open is aborted. Misused in a
        delivery callback.
        """
        if self._is_closed or self._portal.is_lost:
            return
        self._portal.check()
        self._is_closed = True
        try:
            self._portal.run(self._inner.close(timeout))
        finally:
            self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Transactions (P5).

    def init_transactions(self, timeout: float | None = None) -> None:
        """Take over the transactional id, once, before the first transaction; who had it before is fenced.

        What the last owner left open is aborted first. Like all calls of transactions it takes `timeout`
        seconds at most, by default `max_block_ms`; after TimedOut it may be called again.
        """
        self._run(self._inner.init_transactions(timeout))

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction: what is sent from here on is seen as a whole or not at all."""
        self._run(self._inner.begin_transaction(timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records of the transaction and commit it.

        TransactionFailed if a record could not be delivered: then only `abort_transaction` is left. After
        TimedOut it may be called again; if the coordinator was asked already nothing else helps, as nobody
        knows then what it has decided.
        """
        self._run(self._inner.commit_transaction(timeout))

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
        """Deliver all records of the transaction and leave its end to somebody else; None if it has none.

        What it returns is all that `Admin.commit_prepared_transactions` needs, in whatever process and after
        whatever restart. The producer itself can still commit or abort it; `init_transactions` goes on after
        somebody else has, and aborts it if nobody has. Closing the producer leaves it open.
        """
        return self._run(self._inner.prepare_transaction(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: readers of committed records never see it.

        Records that were not sent yet are dropped: their deliveries fail with TransactionAborted.
        """
        self._run(self._inner.abort_transaction(timeout))

    def send_offsets_to_transaction(
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
        self._run(self._inner.send_offsets_to_transaction(offsets, group_metadata, timeout))

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Begin a transaction; commit it at the end of the block, or abort it if the block fails.

        >>> with producer.transaction():
        ...     producer.send("orders", b"pizza")
        ...     producer.send("payments", b"12 EUR")
        """
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException as error:
            if self._session is not None and not self._is_closed:
                self._run(self._session.give_up(error))
            raise

    # How it is done.

    def _open_topic(self, topic: str) -> TopicQueues:
        return self._run(self._inner.open_topic(topic))

    def _wait_for_room(self, need: int, add: Callable[[], Delivery | None]) -> Delivery:
        self._portal.check()
        settings = self._inner.settings
        deadline = time.monotonic() + settings.max_block_ms / 1000
        while (delivery := add()) is None:
            room = threading.Event()
            self._inner.accumulator.when_room(need, room.set)
            if not room.wait(max(0.0, deadline - time.monotonic())):
                raise no_room(settings.max_block_ms, settings.buffer_memory)
        return delivery

    def _make_room(self, need: int) -> None:
        settings = self._inner.settings
        room = threading.Event()
        most_ahead = self._inner.column_intake.most_ahead(self._inner.link.view)
        self._inner.accumulator.when_room(need, room.set, ahead=most_ahead)
        if not room.wait(settings.max_block_ms / 1000):
            raise no_room(settings.max_block_ms, settings.buffer_memory)

    def _check_sending(self) -> None:
        self._portal.check()
        if self._is_closed:
            raise Closed("this producer is closed")
        if self._session is not None:
            self._session.core.check_open("send_arrow")

    def _check_session(self, what: str) -> None:
        assert self._session is not None
        if self._portal.is_lost:
            self._portal.check()
        self._session.core.check_open(what)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            self._portal.check()
            if self._is_closed:
                raise Closed("this producer is closed")
        except BaseException:
            work.close()
            raise
        return self._portal.run(work)

    def _inherited(self, why: str) -> None:
        """This is another process now: take no more calls."""
        self._portal.inherited(why, self)
        self._inner.link.inherited(why)
