"""The future of a record that was sent: where it went, or why it did not."""

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from everlog.client.core import surroundings
from everlog.client.core.errors import TimedOut
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.record_metadata import UNKNOWN_OFFSET, OnDelivery, RecordMetadata
from everlog.model.errors import EverlogError
from everlog.records.short_way import ticket

__all__ = ["BatchMetadata", "BulkDelivery", "Delivery", "OnDelivery", "RecordMetadata"]


@ticket
class Delivery:
    """What becomes of one record. Any thread may ask; in asyncio it can be awaited.

    >>> producer.send("orders", b"pizza").result(timeout=10)
    RecordMetadata(topic='orders', partition=0, offset=0, timestamp=1735689600000)
    """

    # One is made for each record, so it is no more than the place of the record in its batch.
    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: PendingBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether it is delivered or has failed."""
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record lies; its error if it is not delivered, TimedOut after `timeout` seconds.

        Without a time-out it waits until the record is delivered or has failed, which the producer's
        `delivery_timeout_ms` bounds.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._metadata()

    def exception(self, timeout: float | None = None) -> EverlogError | None:
        """Why the record is not delivered, or None if it is; waits as `result` does."""
        if not self._batch.is_done and not self._batch.wait(timeout):
            raise TimedOut(f"the record to {self._batch.place} was not delivered within {timeout:g} s so far")
        return self._batch.whereabouts(self._index)[0].error

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Call this with the delivery once it is done: on the network thread, or at once if it is."""
        self._batch.when_done(lambda: _drop(callback(self)))

    def notify(self, on_delivery: OnDelivery) -> None:
        """Call this with the outcome, as `send(…, on_delivery=…)` does."""
        self._batch.notify(self, on_delivery)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_done:
            yield from _until_done(self._batch.when_done).__await__()
        return self.result()

    def __repr__(self) -> str:
        if not self._batch.is_done:
            return f"<Delivery to {self._batch.place}, pending>"
        error = self.exception()
        return f"<Delivery {self._metadata()}>" if error is None else f"<Delivery failed: {error}>"

    def tell(self, on_delivery: OnDelivery) -> None:
        """Call this with the outcome, which is known."""
        error = self.exception()
        if error is None:
            on_delivery(self._metadata(), None)
        else:
            on_delivery(None, error)

    def _metadata(self) -> RecordMetadata:
        batch, index = self._batch.whereabouts(self._index)
        offset = UNKNOWN_OFFSET if batch.base_offset == UNKNOWN_OFFSET else batch.base_offset + index
        timestamp = self._timestamp if batch.append_time < 0 else batch.append_time
        return RecordMetadata(batch.place.topic, batch.place.partition, offset, timestamp)


class BatchMetadata(NamedTuple):
    """Where the records of a batch lie: from `base_offset` on, one after the other."""

    topic: str
    partition: int
    base_offset: int
    """-1 where the broker did not say."""
    record_count: int


class BulkDelivery:
    """What becomes of many records that were sent with one call."""

    __slots__ = ("_batches",)

    def __init__(self, batches: Sequence[PendingBatch]) -> None:
        self._batches = batches

    def done(self) -> bool:
        """Whether all are delivered or have failed."""
        return all(batch.is_done for batch in self._batches)

    def result(self, timeout: float | None = None) -> list[BatchMetadata]:
        """Where the records lie, batch by batch; the first error, or TimedOut, if not all are there."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return [
            BatchMetadata(part.place.topic, part.place.partition, part.base_offset, part.count)
            for part in self._parts()
        ]

    def exception(self, timeout: float | None = None) -> EverlogError | None:
        """The first error among the batches, or None if all are delivered. `timeout` is for all together."""
        until = None if timeout is None else surroundings.monotonic() + timeout
        for batch in self._batches:
            left = None if until is None else max(0.0, until - surroundings.monotonic())
            if not batch.is_done and not batch.wait(left):
                raise TimedOut(f"records to {batch.place} were not delivered within {timeout:g} s so far")
        return next((part.error for part in self._parts() if part.error is not None), None)

    def add_done_callback(self, callback: "Callable[[BulkDelivery], object]") -> None:
        """Call this with the delivery once all are done: on the network thread, or at once if they are."""
        left = len(self._batches)
        lock = threading.Lock()

        def count_down() -> None:
            nonlocal left
            with lock:
                left -= 1
                is_last = left == 0
            if is_last:
                callback(self)

        for batch in self._batches:
            batch.when_done(count_down)
        if not self._batches:
            callback(self)

    def __await__(self) -> Generator[Any, None, list[BatchMetadata]]:
        for batch in self._batches:
            if not batch.is_done:
                yield from _until_done(batch.when_done).__await__()
        return self.result()

    def _parts(self) -> list[PendingBatch]:
        parts: list[PendingBatch] = []
        left = list(reversed(self._batches))
        while left:
            batch = left.pop()
            if batch.parts is None:
                parts.append(batch)
            else:
                left.extend(reversed(batch.parts))
        return parts


async def _until_done(when_done: Callable[[Callable[[], None]], None]) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    # The batch may be done on the thread of another loop: that of a blocking producer.
    when_done(lambda: _drop(loop.call_soon_threadsafe(settle)))
    await done


def _drop(_result: object) -> None:
    """Forget what a callback returns."""
