"""Runs a handler on each record; what it cannot handle goes to a dead-letter topic (blocking; C8)."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Unpack, assert_never

from everlog.client.core.dead_letters import (
    LAST_FAILED,
    Abort,
    Answer,
    Begin,
    Bury,
    DeadLetterOptions,
    Handle,
    Handled,
    Handling,
    Settle,
    Step,
    Stop,
    Wait,
    dead_letter_settings,
    decoded,
    group_went_on,
    letter_headers,
)
from everlog.client.core.errors import TransactionFailed
from everlog.client.core.producer.delivery import Delivery
from everlog.client.sync.consumer import Consumer
from everlog.client.sync.producer import Producer
from everlog.model.errors import EverlogError, Refused
from everlog.records.rows import ConsumerRecord

_log = logging.getLogger("everlog.dead_letters")

Handler = Callable[[ConsumerRecord], object]

POLL_S = 0.5
LAST_COMMIT_S = 5.0
"""How long each step of committing what was handled before Ctrl-C may take."""


class DeadLetters:
    """Runs a handler on each record a consumer reads; one that fails `tries` times becomes a dead letter.

    >>> letters = DeadLetters(consumer, producer, tries=5, value_deserializer=json.loads)
    >>> letters.run(handle)

    A dead letter has the bytes of its record and headers `dead-letter.…` that tell the error, the tries, and
    where the record came from. It goes to `<topic>.dlq`, or as `topic` says. `everlog dead-letters` lists
    them and sends them back.

    Offsets are committed only after the records before them were handled, or delivered as dead letters: at
    least once. With a transactional producer, on which `init_transactions` was called, what the handler
    sends with it, the dead letters and the offsets are committed as one: exactly once.

    The consumer needs a group, no auto-commit and no deserializers. All tries of the records of one poll
    must fit into its `max_poll_interval_ms`; `max_poll_records` is what to lower.
    """

    def __init__(self, consumer: Consumer, producer: Producer, **options: Unpack[DeadLetterOptions]) -> None:
        self._settings = dead_letter_settings(options, consumer.settings, producer.settings)
        self._group_id = consumer.settings.group_id or ""
        self._consumer = consumer
        self._producer = producer
        self._is_transactional = producer.settings.transactional_id is not None
        self._in_transaction = False
        self._deliveries: list[Delivery] = []
        self._stopping = threading.Event()
        self._interrupt: BaseException | None = None

    def run(self, handler: Handler, *, idle_timeout: float | None = None) -> Handled:
        """Poll and handle records until `stop`, or until none came for `idle_timeout` seconds."""
        total = Handled()
        idle_since = time.monotonic()
        try:
            while not self._stopping.is_set():
                records = self._consumer.poll(POLL_S)
                if records:
                    total += self._process_unless_moved(records, handler)
                    idle_since = time.monotonic()
                elif idle_timeout is not None and time.monotonic() - idle_since >= idle_timeout:
                    break
        finally:
            # Not at the beginning: who stops it before it runs has stopped it, too.
            self._stopping.clear()
        return total

    def stop(self) -> None:
        """Have `run` end after the record that is being handled, or at once if it has not begun.

        Any thread may call it, and the handler.
        """
        self._stopping.set()

    def process(self, records: Sequence[ConsumerRecord], handler: Handler) -> Handled:
        """Handle records of a poll and commit their offsets.

        After an error, and after `stop`, the consumer reads on with the first record that was not settled.
        On Ctrl-C what was handled before is committed first.
        """
        handling = Handling(self._settings, records, transactional=self._is_transactional)
        steps = handling.steps()
        self._deliveries.clear()
        self._interrupt = None
        try:
            answer: Answer = None
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration:
                    break
                answer = self._carry_out_unless_interrupted(step, handler)
        finally:
            if self._in_transaction:
                self._in_transaction = False
                with suppress(EverlogError):
                    self._producer.abort_transaction(self._patience)
            assigned = self._consumer.assignment()
            for place, offset in handling.unsettled.items():
                if place in assigned:
                    self._consumer.seek(place, offset)
        if self._interrupt is not None:
            raise self._interrupt
        return handling.outcome

    def _process_unless_moved(self, records: Sequence[ConsumerRecord], handler: Handler) -> Handled:
        try:
            return self.process(records, handler)
        except TransactionFailed as error:
            # Others have the partitions now and handle the records once more.
            if not group_went_on(error):
                raise
            return Handled()

    @property
    def _patience(self) -> float | None:
        """Who was interrupted is not to wait for a broker that is gone."""
        return None if self._interrupt is None else LAST_COMMIT_S

    def _carry_out_unless_interrupted(self, step: Step, handler: Handler) -> Answer:
        """Carry out a step; one that fails after an interrupt is not to hide it."""
        try:
            return self._carry_out(step, handler)
        except EverlogError as error:
            if self._interrupt is None:
                raise
            _log.warning(LAST_FAILED, error)
            raise self._interrupt from None

    def _carry_out(self, step: Step, handler: Handler) -> Answer:
        match step:
            case Handle(record):
                return Stop() if self._stopping.is_set() else self._handle(record, handler)
            case Wait(seconds):
                self._stopping.wait(seconds)
            case Bury():
                self._bury(step)
            case Begin():
                self._producer.begin_transaction()
                self._in_transaction = True
            case Abort():
                self._in_transaction = False
                self._producer.abort_transaction(self._patience)
            case Settle():
                self._settle(step)
            case _:
                assert_never(step)
        return None

    def _handle(self, record: ConsumerRecord, handler: Handler) -> Answer:
        try:
            handler(decoded(self._settings, record))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is why its record is given up
            return error
        except BaseException as interrupt:  # noqa: BLE001 - it is raised once the records before are settled
            self._interrupt = interrupt
            return Stop()
        return None

    def _bury(self, letter: Bury) -> None:
        record = letter.record
        headers = letter_headers(
            record, letter.error, letter.tries, self._group_id, time.time_ns() // 1_000_000
        )
        topic = self._settings.letter_topic(record.topic)
        self._deliveries.append(self._producer.send(topic, record.value, record.key, headers=headers))
        if self._settings.on_dead_letter is not None:
            self._settings.on_dead_letter(record, letter.error)

    def _settle(self, step: Settle) -> None:
        patience = self._patience
        if self._in_transaction:
            metadata = self._consumer.group_metadata()
            self._producer.send_offsets_to_transaction(step.offsets, metadata, patience)
            self._producer.commit_transaction(patience)
            self._in_transaction = False
            return
        # What the handler has sent, too.
        self._producer.flush(patience)
        for delivery in self._deliveries:
            delivery.result(patience)
        self._deliveries.clear()
        try:
            self._consumer.commit(step.offsets, patience)
        except Refused as error:
            # Others have the partitions now and handle the records once more.
            if not group_went_on(error):
                raise
