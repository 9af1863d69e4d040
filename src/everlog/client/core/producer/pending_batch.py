"""A batch on its way: the records of one partition that travel together, and what became of them."""

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.core.producer.network_thread import NO_THREAD, NetworkThread
from everlog.client.core.producer.record_metadata import UNKNOWN_OFFSET, tell_all
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.rows import BatchBuffer
from everlog.records.short_way import Inlet

NO_SEQUENCE = -1

_log = logging.getLogger("everlog.producer")


NOBODY = ProducerIdentity()
"""Who sends without idempotence."""


class Told(Protocol):
    """A delivery, as far as its batch knows it."""

    def tell(self, on_delivery: Callable[..., object]) -> None:
        """Call this with the outcome, which is known."""
        ...


class PendingBatch:
    """Records of one partition. It grows until it is taken, then only its fate changes.

    Its lock is the accumulator's: the caller's thread and the network thread both come here.
    """

    __slots__ = (
        "_callbacks",
        "_event",
        "_lock",
        "_network_thread",
        "_parent",
        "append_time",
        "attempts",
        "base_offset",
        "base_sequence",
        "buffer",
        "charged_bytes",
        "count",
        "doom",
        "encoded",
        "error",
        "granted_bytes",
        "identity",
        "inlet",
        "is_closed",
        "is_done",
        "is_doubtful",
        "last_error",
        "notices",
        "opened_at",
        "order",
        "parts",
        "place",
        "sent_at",
        "was_lost",
    )

    def __init__(
        self,
        place: TopicPartition,
        buffer: BatchBuffer,
        opened_at: float,
        order: tuple[int, ...],
        lock: AbstractContextManager[object],
        network_thread: NetworkThread = NO_THREAD,
    ) -> None:
        self.place = place
        self.buffer: BatchBuffer | None = buffer
        """The records; None once it is done, so that a kept Delivery does not keep them."""
        self.count = 0
        """How many records there are, once it is closed."""
        self.opened_at = opened_at
        """Seconds of the accumulator's clock: linger and the delivery time-out count from here."""
        self.order = order
        """Its place in the line of its partition; the halves of a split stand where the whole stood."""
        self.charged_bytes = 0
        """What of `buffer_memory` its records hold, as far as they are counted; see `inlet`."""
        self.inlet: Inlet | None = None
        """Where records may be appended without anybody counting them, while that is open."""
        self.granted_bytes = 0
        """What of `buffer_memory` is set aside for those."""
        self.notices: list[Any] = []
        """Deliveries and who wants to hear of them, in turn."""
        self.is_closed = False
        """Whether it takes no more records."""
        self.identity = NOBODY
        self.base_sequence = NO_SEQUENCE
        """Set when it is first sent, and the same for every retry under the same identity."""
        self.encoded: bytearray | None = None
        """The bytes that were sent; a retry sends the same ones."""
        self.attempts = 0
        """How often it was sent."""
        self.sent_at = 0.0
        self.last_error: EverlogError | None = None
        """Why it was not delivered the last time."""
        self.doom: EverlogError | None = None
        """What it fails with if it would have to be sent again."""
        self.was_lost = False
        """Whether an answer about it was lost, so that it may have been written."""
        self.is_doubtful = False
        """Whether it is a part of what may have been written as a whole, where no broker recognizes it."""
        self.is_done = False
        self.base_offset = UNKNOWN_OFFSET
        self.append_time = -1
        """Milliseconds since 1970, where the broker's clock counts; else -1."""
        self.error: EverlogError | None = None
        """Why it is not delivered, once it is done; None if it is."""
        self.parts: tuple[PendingBatch, PendingBatch] | None = None
        """What it was split into; it is done when both are."""
        self._lock = lock
        self._network_thread = network_thread
        self._parent: PendingBatch | None = None
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[], None]] = []

    @property
    def size_bytes(self) -> int:
        """Its bytes before compression, as they are now."""
        return self.charged_bytes if self.buffer is None else self.buffer.size_bytes

    def whereabouts(self, index: int) -> tuple["PendingBatch", int]:
        """The batch in which a record was sent in the end, and its number there."""
        batch = self
        while batch.parts is not None:
            first, second = batch.parts
            if index < first.count:
                batch = first
            else:
                batch, index = second, index - first.count
        return batch, index

    def wait(self, timeout: float | None) -> bool:
        """Block until it is done; False if that takes longer than `timeout` seconds.

        Misused on the thread that has to see to it. With a time-out of 0 nobody waits, nor is refused.
        """
        with self._lock:
            if self.is_done:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        if timeout is None or timeout > 0:
            self._network_thread.refuse_wait(f"records to {self.place}")
        return event.wait(timeout)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call this once it is done: on the network thread, or at once if it is."""
        if not self.is_done:  # Looked at first: the lock of one that is done may be another process's.
            with self._lock:
                if not self.is_done:
                    self._callbacks.append(callback)
                    return
        _run(callback)

    def notify(self, delivery: "Told", on_delivery: Callable[..., object]) -> None:
        """Have a record's delivery tell what becomes of it; in the order of the records."""
        if not self.is_done:
            with self._lock:
                if not self.is_done:
                    self.notices += (delivery, on_delivery)
                    return
        _run(partial(delivery.tell, on_delivery))

    def deliver(self, base_offset: int, append_time: int) -> None:
        """The broker has it."""
        self._finish(base_offset, append_time, None)

    def fail(self, error: EverlogError) -> None:
        """It will not be delivered."""
        self._finish(UNKNOWN_OFFSET, -1, error)

    def abandon(self, error: EverlogError, lock: AbstractContextManager[object]) -> None:
        """Fail in a process that was forked: who is to be called back is so in the other one.

        The lock is a new one, as the old one's holder may not be here to give it back. That goes for the
        event's lock too, and nobody waits for it here.
        """
        batch: PendingBatch | None = self
        while batch is not None:
            batch._lock = lock
            batch._event = None
            batch._callbacks = []
            batch.notices = []
            batch = batch._parent
        self.fail(error)

    def divide(self) -> tuple["PendingBatch", "PendingBatch"]:
        """Split it in two, sequence numbers included, for a broker that finds it too large."""
        assert self.buffer is not None
        first, second = (
            PendingBatch(
                self.place, half, self.opened_at, (*self.order, number), self._lock, self._network_thread
            )
            for number, half in enumerate(self.buffer.split())
        )
        for part in (first, second):
            assert part.buffer is not None
            part.count = part.buffer.count
            part.is_closed = True
            part.identity = self.identity
            part.attempts = self.attempts
            part.last_error = self.last_error
            part.doom = self.doom
            part.is_doubtful = self.was_lost or self.is_doubtful
            part._parent = self
        first.base_sequence = self.base_sequence
        first.charged_bytes = self.charged_bytes // 2
        second.charged_bytes = self.charged_bytes - first.charged_bytes
        if self.base_sequence != NO_SEQUENCE:
            second.base_sequence = (self.base_sequence + first.count) & 0x7FFFFFFF
        self.parts = first, second
        self.buffer = self.encoded = None
        self.charged_bytes = 0
        return self.parts

    def _finish(self, base_offset: int, append_time: int, error: EverlogError | None) -> None:
        with self._lock:
            if self.is_done:
                return
            self.base_offset = base_offset
            self.append_time = append_time
            self.error = error
            self.is_done = True
            self.buffer = self.encoded = None
            event, self._event = self._event, None
            callbacks, self._callbacks = self._callbacks, []
            notices, self.notices = self.notices, []
        if event is not None:
            event.set()
        for callback in callbacks:
            _run(callback)
        if self.parts is None:
            tell_all(self, notices)
        else:
            for delivery, on_delivery in zip(notices[::2], notices[1::2], strict=True):
                _run(partial(delivery.tell, on_delivery))
        parent = self._parent
        if parent is not None and parent.parts is not None and all(part.is_done for part in parent.parts):
            parent._finish(UNKNOWN_OFFSET, -1, None)


def _run(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - it is logged, and ends nothing else
        # A user's function: its failure must not end the delivery of other records, nor be lost.
        _log.exception("a delivery callback failed")
