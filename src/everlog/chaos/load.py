"""Records written at a steady rate by our own producer, each of them noted with what became of it."""

import threading
from functools import partial
from typing import Unpack

from everlog.chaos.notes import Acked, Notes
from everlog.client.core.producer.record_metadata import RecordMetadata
from everlog.client.core.producer.settings import ProducerOptions
from everlog.client.sync.producer import Producer
from everlog.model.errors import EverlogError
from everlog.sim.history import Kind, Operation, Outcome, Sent

_TICKS_PER_SECOND = 1_000_000
_ACKED_MS_MIN = 1.0


def impatient(**more: Unpack[ProducerOptions]) -> ProducerOptions:
    """A producer's options: the gap that is measured is the cluster's, not the client's own patience."""
    options = ProducerOptions(
        linger_ms=0,
        retry_backoff_ms=20,
        retry_backoff_max_ms=100,
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=100,
        request_timeout_ms=5_000,
    )
    options.update(more)
    return options


class Load:
    """A thread that writes to all partitions in turn: acks=all, idempotent, each record told apart."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, rate: float, size_bytes: int, notes: Notes
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._interval_s = 1.0 / rate
        self._padding = b"." * size_bytes
        self._notes = notes
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._sent = 0
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._producer = Producer(
            bootstrap,
            **impatient(
                acks="all", enable_idempotence=True, delivery_timeout_ms=120_000, client_id="everlog-chaos"
            ),
        )

    @property
    def sent(self) -> int:
        """How many records were sent so far."""
        return self._sent

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write no more, and wait until it is known what became of each record; raises what stopped it."""
        self._stopping.set()
        self._thread.join(timeout_s)
        self._producer.close(timeout_s)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            due = 0.0
            clock = self._notes.clock
            begun = clock.ticks()
            while not self._stopping.is_set():
                due += self._interval_s
                self._send(self._sent % self._partitions)
                early = due - (clock.ticks() - begun) / _TICKS_PER_SECOND
                if early > 0:
                    self._stopping.wait(early)
        except BaseException as error:  # noqa: BLE001  # told by stop
            self._error = error

    def _send(self, partition: int) -> None:
        self._sent += 1
        value = f"v{self._sent}"
        start = self._notes.clock.ticks()
        try:
            delivery = self._producer.send(
                self._topic, b"%s %s" % (value.encode(), self._padding), partition=partition
            )
        except EverlogError as error:
            # It never left the producer.
            self._note(Outcome.FAIL, partition, value, None, start, type(error).__name__)
            return
        delivery.notify(partial(self._told, partition, value, start))

    def _told(
        self, partition: int, value: str, start: int, found: RecordMetadata | None, error: EverlogError | None
    ) -> None:
        if found is not None:
            self._note(Outcome.OK, partition, value, found.offset, start, "")
            now = self._notes.clock.ms()
            self._notes.acked.append(Acked(start / 1000, now, partition))
        else:
            # The client may have sent it more than once, so nobody knows.
            why = f"{type(error).__name__}: {error}"
            self._note(Outcome.INFO, partition, value, None, start, why[:120])
            self._notes.unanswered.append((self._notes.clock.ms(), why))

    def _note(
        self, outcome: Outcome, partition: int, value: str, offset: int | None, start: int, words: str
    ) -> None:
        end = None if outcome is Outcome.INFO else self._notes.clock.ticks()
        self._notes.recorder.add(
            Operation(
                f"load-{partition}",
                Kind.SEND,
                outcome,
                start,
                end,
                sends=(Sent(f"{self._topic}-{partition}", value, offset if offset != -1 else None),),
                note=words,
            )
        )
