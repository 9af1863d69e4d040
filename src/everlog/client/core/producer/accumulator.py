"""Records on their way to a batch: a line of batches per partition, within a bound on memory (P1, P2).

A batch is ready at `batch_size`, when it is `linger_ms` old, when a flush or a lack of memory asks for it, or
when a younger one stands behind it. Ready or not, it takes more records until it is taken, up to
`max_request_size`: a sender that falls behind gets larger batches, not more of them.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from everlog.client.core.errors import unsendable
from everlog.client.core.producer.delivery import Delivery, OnDelivery
from everlog.client.core.producer.network_thread import NetworkThread
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.settings import ProducerSettings
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.ports.files import Buffer
from everlog.records.batch import HEADER_BYTES
from everlog.records.rows import BatchBuffer
from everlog.records.short_way import Inlet, ShortWay

RECORD_OVERHEAD = 40
"""What a record takes beside its key, value and headers, at most."""

GRANT_BYTES = 64 * 1024
"""How much may be appended to a batch that is ready before it is counted again, or as much as it has."""

HeaderPairs = Sequence[tuple[str, Buffer | None]]


@dataclass(slots=True)
class TopicQueues:
    """The lines of one topic's partitions."""

    name: str
    queues: list[PartitionQueue]
    led: Sequence[int]
    """The partitions that have a leader, or all where none has."""
    batch_limit: int
    """The most that a batch of it may have; less than `max_request_size` once the broker refused one."""
    stuck: PartitionQueue | None = None
    """Where records without a key go the short way."""


class Accumulator:
    """Collects records into batches, in order within a partition.

    Any thread may append; only the network thread takes. `lock` guards both; `wake` is called, with it held,
    when there is something new for a sender that sleeps. `clock` is in seconds and never goes back.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        lock: AbstractContextManager[object],
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self.topics: dict[str, TopicQueues] = {}
        self.active: dict[PartitionQueue, None] = {}
        """The lines in which something waits, in no order that matters."""
        self.incomplete: dict[PendingBatch, None] = {}
        """All batches that are not done."""
        self.used_bytes = 0
        """What of `buffer_memory` is in use."""
        self.flushes = 0
        """How many flushes are under way; while one is, every batch is ready."""
        self.wakes_on_first = True
        """Whether the sender wants to know of a first record: it sleeps without a timer."""
        self.wakes_on_ready = True
        """Whether it wants to know of a batch that is ready: it sleeps."""
        self.closed: EverlogError | None = None
        """Why no more records are taken."""
        self.network_thread = NetworkThread()
        """Which thread takes, once that is known."""
        self._lock = lock
        self._clock = clock
        self._wake = wake
        self._batch_size = settings.batch_size
        self._linger_s = settings.linger_ms / 1000
        self._memory = settings.buffer_memory
        self._largest = settings.max_request_size
        self._short: list[tuple[int, Callable[[], None]]] = []
        self.short_way: ShortWay | None = None
        """Takes records into batches that are open, without a lock and without counting; see `_grant`."""

    def open_topic(self, name: str, count: int, led: Sequence[int]) -> TopicQueues:
        """Take in what is known of a topic's partitions; a topic may get more of them, never fewer."""
        with self._lock:
            topic = self.topics.get(name)
            if topic is None:
                topic = self.topics[name] = TopicQueues(name, [], led, self._largest)
            topic.led = led
            for index in range(len(topic.queues), count):
                topic.queues.append(self._new_queue(TopicPartition(name, index)))
            if self.short_way is not None:
                inlets = [queue.inlet for queue in topic.queues if queue.inlet is not None]
                self.short_way.set_inlets(name, tuple(inlets))
            return topic

    def append(
        self,
        topic: TopicQueues,
        queue: PartitionQueue,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeaderPairs,
        timestamp: int,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery | None:
        """Put a record behind the others of its partition; None if there is no memory for it now.

        `on_delivery` is told of it on the network thread, in the order of the records.

        Refused if it is too large for any request, Unsendable if it cannot be one, and what `close` was
        given after it.
        """
        need = _record_bytes(key, value, headers)
        with self._lock:
            if self.closed is not None:
                raise self.closed
            batch = queue.waiting[-1] if queue.waiting else None
            if batch is not None:
                self._count(queue, batch)
            if (
                batch is None
                or batch.is_closed
                or batch.charged_bytes + need > topic.batch_limit
                or batch.buffer is None
            ):
                if need + HEADER_BYTES > self._largest:
                    raise _too_large(need + HEADER_BYTES, queue.place, "max_request_size", self._largest)
                if need + HEADER_BYTES > self._memory:
                    raise _too_large(need + HEADER_BYTES, queue.place, "buffer_memory", self._memory)
                if not self._has_room(need + HEADER_BYTES):
                    return None
                batch = self._open(queue)
            elif not self._has_room(need):
                return None
            buffer = batch.buffer
            assert buffer is not None
            try:
                index = buffer.append(key, value, headers, timestamp)
            except BaseException as error:
                if not batch.count:
                    self._withdraw(queue)
                if isinstance(error, (TypeError, ValueError, OverflowError)):
                    raise unsendable(error, f"a record for {queue.place}") from None
                raise
            batch.count = index + 1
            before = batch.charged_bytes
            after = buffer.size_bytes
            batch.charged_bytes = after
            self.used_bytes += after - before
            queue.waiting_bytes += after - before
            if index == 0:
                if self.wakes_on_first or (self.wakes_on_ready and after >= self._batch_size):
                    self._rouse()
            elif self.wakes_on_ready and before < self._batch_size <= after:
                self._rouse()
            delivery = Delivery(batch, index, timestamp)
            if on_delivery is not None:
                # Before anybody can take the batch, and before a record that goes the short way.
                batch.notices += (delivery, on_delivery)
            if queue.inlet is not None:
                self._grant(topic, queue, batch)
        return delivery

    def add_batches(
        self, topic: TopicQueues, batches: Iterable[tuple[int, BatchBuffer]]
    ) -> list[PendingBatch]:
        """Put batches that are made already behind the others of their partitions; they are ready at once.

        They take memory beyond `buffer_memory` if need be: a caller waits with `when_room` before.
        """
        added: list[PendingBatch] = []
        is_news = False
        with self._lock:
            if self.closed is not None:
                raise self.closed
            for partition, buffer in batches:
                queue = topic.queues[partition]
                # Behind one that is closed it is no news: the sender knows that one, and what it waits for.
                is_news = is_news or not queue.waiting or not queue.waiting[0].is_closed
                if queue.waiting:
                    # What is sent after these may not go into a batch that leaves before them.
                    self._count(queue, queue.waiting[-1])
                batch = self._enqueue(queue, buffer)
                batch.count = buffer.count
                batch.is_closed = True
                batch.charged_bytes = buffer.size_bytes
                self.used_bytes += batch.charged_bytes
                queue.waiting_bytes += batch.charged_bytes
                added.append(batch)
            if is_news and self.wakes_on_ready:
                self._rouse()
        return added

    def when_room(self, need: int, callback: Callable[[], None], *, ahead: int | None = None) -> None:
        """Call this once `need` bytes may fit, or the accumulator closes; perhaps at once.

        Who has more to come says how many bytes may be `ahead`, if that is less than the memory, and waits,
        if at all, for a quarter of them: a thread that is woken for each batch costs more than the batch.
        """
        spared = 0 if ahead is None else max(0, self._memory - ahead)
        with self._lock:
            if self.closed is None and not self._has_room(need + spared) and self.used_bytes:
                much = 0 if ahead is None else (self._memory - spared) // 4
                self._short.append((spared + max(need, much), callback))
                if self.wakes_on_ready:
                    self._rouse()
                return
        callback()

    def gone_short(self, queue: PartitionQueue) -> int:
        """The bytes that went into a line the short way since this was last asked."""
        with self._lock:
            if queue.waiting:
                self._count(queue, queue.waiting[-1])
            gone, queue.short_bytes = queue.short_bytes, 0
        return gone

    def is_ready(self, queue: PartitionQueue, now: float) -> bool:
        """Whether the oldest batch of a line that is not empty should go."""
        batch = queue.waiting[0]
        return (
            batch.is_closed
            or batch.size_bytes >= self._batch_size
            or len(queue.waiting) > 1
            or self.flushes > 0
            or bool(self._short)
            or now >= batch.opened_at + self._linger_s
        )

    def ready_at(self, queue: PartitionQueue) -> float:
        """When the oldest batch of a line that is not empty will be ready if nothing else happens."""
        return queue.waiting[0].opened_at + self._linger_s

    def lines(self) -> list[PartitionQueue]:
        """The lines in which something waits."""
        with self._lock:
            return list(self.active)

    def unfinished(self) -> list[PendingBatch]:
        """All batches that are not done."""
        with self._lock:
            return list(self.incomplete)

    def oldest(self) -> PendingBatch | None:
        """The batch that has been on its way for longest."""
        with self._lock:
            return next(iter(self.incomplete), None)

    def begin_flush(self) -> list[PendingBatch]:
        """Make everything ready until `end_flush`, and return what there is."""
        with self._lock:
            self.flushes += 1
            return list(self.incomplete)

    def end_flush(self) -> None:
        """One flush is over."""
        with self._lock:
            self.flushes -= 1

    def take(self, queue: PartitionQueue) -> PendingBatch:
        """Take the oldest batch out of a line; it grows no more."""
        with self._lock:
            batch = queue.waiting.popleft()
            self._count(queue, batch)
            batch.is_closed = True
            queue.waiting_bytes -= batch.charged_bytes
            if not queue.waiting:
                self.active.pop(queue, None)
        return batch

    def withdraw(self, batch: PendingBatch) -> None:
        """Take a batch out of the middle of its line, if it waits there."""
        queue = self.topics[batch.place.topic].queues[batch.place.partition]
        with self._lock:
            self._count(queue, batch)
            batch.is_closed = True
            if batch in queue.waiting:
                queue.waiting.remove(batch)
                queue.waiting_bytes -= batch.charged_bytes
                if not queue.waiting:
                    self.active.pop(queue, None)

    def put_back(self, queue: PartitionQueue, put: Callable[[], None]) -> None:
        """Have `put` return a batch to its line."""
        with self._lock:
            put()
            self.active[queue] = None

    def replaced(self, batch: PendingBatch, parts: Iterable[PendingBatch]) -> None:
        """Note that a batch goes on as two."""
        with self._lock:
            self.incomplete.pop(batch, None)
            # In front, as they are old: time-outs are looked for there.
            self.incomplete = {**dict.fromkeys(parts), **self.incomplete}

    def finished(self, batch: PendingBatch) -> None:
        """Give back the memory of a batch that is done."""
        with self._lock:
            self.incomplete.pop(batch, None)
            self.used_bytes -= batch.charged_bytes
            batch.charged_bytes = 0
            called = self._take_served()
        for callback in called:
            callback()

    def close(self, reason: EverlogError) -> None:
        """Take no more records; those who wait for room are told."""
        with self._lock:
            self.closed = reason
            for batch in self.incomplete:
                self._count(self.topics[batch.place.topic].queues[batch.place.partition], batch)
            called = [callback for _, callback in self._short]
            self._short.clear()
        for callback in called:
            callback()

    def inherited(self, reason: EverlogError, lock: AbstractContextManager[object]) -> None:
        """This is another process now, of one thread: take no more records, and let go of those there are.

        The lock is a new one, as the old one's holder may not be here to give it back.
        """
        self.closed = reason
        self._lock = lock
        self._short.clear()
        self.active.clear()
        for topic in self.topics.values():
            for queue in topic.queues:
                queue.waiting.clear()
                if queue.inlet is not None:
                    queue.inlet.close()
        batches, self.incomplete = list(self.incomplete), {}
        for batch in batches:
            batch.inlet = None
            batch.abandon(reason, lock)

    def _take_served(self) -> list[Callable[[], None]]:
        """Those who waited for room, first come first served, as far as there is some now."""
        called: list[Callable[[], None]] = []
        room = self._memory - self.used_bytes
        while self._short and (self._short[0][0] <= room or not self.used_bytes):
            need, callback = self._short.pop(0)
            room -= need
            called.append(callback)
            if room <= 0:
                break
        return called

    def _new_queue(self, place: TopicPartition) -> PartitionQueue:
        queue = PartitionQueue(place)
        if self.short_way is not None:
            queue.inlet = Inlet()
        return queue

    def _grant(self, topic: TopicQueues, queue: PartitionQueue, batch: PendingBatch) -> None:
        """Let records go into a batch the short way, up to where somebody has to be told or asked."""
        size = batch.charged_bytes
        # One byte less: the record that makes the batch ready comes this way, and wakes the sender.
        limit = self._batch_size - 1 if size < self._batch_size else size + max(size, GRANT_BYTES)
        # A part of the memory that is left: there may be many partitions.
        limit = min(limit, topic.batch_limit, size + (self._memory - self.used_bytes) // 4)
        if limit <= size or self._short or batch.buffer is None or queue.inlet is None:
            return
        batch.granted_bytes = limit - size
        self.used_bytes += batch.granted_bytes
        batch.inlet = queue.inlet
        batch.inlet.open(batch, batch.buffer, limit, batch.notices)

    def _has_room(self, need: int) -> bool:
        """Whether there is memory left, if need be after all that was set aside and is not in use."""
        if self.used_bytes + need > self._memory and self.short_way is not None:
            for queue in self.active:
                if queue.waiting:
                    self._count(queue, queue.waiting[-1])
        return self.used_bytes + need <= self._memory

    def _count(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        """Close the short way into a batch, and take into account what went there."""
        if batch.inlet is None or batch.buffer is None:
            return
        batch.inlet.close()
        batch.inlet = None
        size = batch.buffer.size_bytes
        grown = size - batch.charged_bytes
        self.used_bytes += grown - batch.granted_bytes
        queue.waiting_bytes += grown
        queue.short_bytes += grown
        batch.granted_bytes = 0
        batch.charged_bytes = size
        batch.count = batch.buffer.count

    def _open(self, queue: PartitionQueue) -> PendingBatch:
        batch = self._enqueue(queue, BatchBuffer())
        batch.charged_bytes = HEADER_BYTES
        self.used_bytes += HEADER_BYTES
        queue.waiting_bytes += HEADER_BYTES
        return batch

    def _enqueue(self, queue: PartitionQueue, buffer: BatchBuffer) -> PendingBatch:
        batch = PendingBatch(
            queue.place, buffer, self._clock(), (queue.next_order,), self._lock, self.network_thread
        )
        queue.next_order += 1
        queue.waiting.append(batch)
        self.active[queue] = None
        self.incomplete[batch] = None
        return batch

    def _withdraw(self, queue: PartitionQueue) -> None:
        """Take back a batch whose first record was not one."""
        batch = queue.waiting.pop()
        del self.incomplete[batch]
        self.used_bytes -= batch.charged_bytes
        queue.waiting_bytes -= batch.charged_bytes
        if not queue.waiting:
            del self.active[queue]

    def _rouse(self) -> None:
        self.wakes_on_first = self.wakes_on_ready = False
        self._wake()


def _record_bytes(key: Buffer | None, value: Buffer | None, headers: HeaderPairs) -> int:
    """A bound on what a record takes; 0 for what is none, which is refused with words when it is encoded."""
    try:
        need = (0 if key is None else len(key)) + (0 if value is None else len(value)) + RECORD_OVERHEAD
        if headers:
            need += sum(4 * len(name) + len(content or b"") + 10 for name, content in headers)
    except (TypeError, ValueError):
        return 0
    return need


def _too_large(size: int, place: TopicPartition, name: str, limit: int) -> Refused:
    return Refused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a record for {place} takes {size} bytes: expected at most {name}, {limit}",
    )
