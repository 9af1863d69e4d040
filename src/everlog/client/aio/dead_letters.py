"""Runs a handler on each record; what it cannot handle goes to a dead-letter topic (asyncio; C8)."""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Unpack, assert_never

from everlog.client.aio.consumer import Consumer
from everlog.client.aio.producer import Producer
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
from everlog.model.errors import EverlogError, Refused
from everlog.records.rows import ConsumerRecord

_log = logging.getLogger("everlog.dead_letters")

Handler = Callable[[ConsumerRecord], Awaitable[object] | object]

POLL_S = 0.5
LAST_COMMIT_S = 5.0
"""How long what was handled before a cancellation may take to be committed."""


class DeadLetters:
    """Runs a handler on each record a consumer reads; one that fails `tries` times becomes a dead letter.

    >>> letters = DeadLetters(consumer, producer, tries=5, value_deserializer=json.loads)
    >>> await letters.run(handle)

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
        self._stopping = asyncio.Event()
        self._interrupt: BaseException | None = None
        """What came while a handler ran; raised once what was handled before it is committed."""

    async def run(self, handler: Handler, *, idle_timeout: float | None = None) -> Handled:
        """Poll and handle records until `stop`, or until none came for `idle_timeout` seconds."""
        total = Handled()
        idle_since = time.monotonic()
        try:
            while not self._stopping.is_set():
                records = await self._consumer.poll(POLL_S)
                if records:
                    total += await self._process_unless_moved(records, handler)
                    idle_since = time.monotonic()
                elif idle_timeout is not None and time.monotonic() - idle_since >= idle_timeout:
                    break
        finally:
            # Not at the beginning: who stops it before it runs has stopped it, too.
            self._stopping.clear()
        return total

    def stop(self) -> None:
        """Have `run` end after the record that is being handled, or at once if it has not begun."""
        self._stopping.set()

    async def process(self, records: Sequence[ConsumerRecord], handler: Handler) -> Handled:
        """Handle records of a poll and commit their offsets.

        After an error, and after `stop`, the consumer reads on with the first record that was not settled.
        When it is cancelled, as by Ctrl-C, what was handled before is committed first.
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
                answer = await self._carry_out_unless_interrupted(step, handler)
        finally:
            if self._in_transaction:
                self._in_transaction = False
                with suppress(EverlogError):
                    await self._producer.abort_transaction(self._patience)
            assigned = self._consumer.assignment()
            for place, offset in handling.unsettled.items():
                if place in assigned:
                    await self._consumer.seek(place, offset)
        if self._interrupt is not None:
            raise self._interrupt
        return handling.outcome

    async def _process_unless_moved(self, records: Sequence[ConsumerRecord], handler: Handler) -> Handled:
        try:
            return await self.process(records, handler)
        except TransactionFailed as error:
            # Others have the partitions now and handle the records once more.
            if not group_went_on(error):
                raise
            return Handled()

    @property
    def _patience(self) -> float | None:
        """Who was cancelled is not to wait for a broker that is gone."""
        return None if self._interrupt is None else LAST_COMMIT_S

    async def _carry_out_unless_interrupted(self, step: Step, handler: Handler) -> Answer:
        """Carry out a step; one that fails after an interrupt is not to hide it."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._carry_out(step, handler)
        except (EverlogError, TimeoutError) as error:
            if self._interrupt is None:
                raise
            _log.warning(LAST_FAILED, error or "no answer in time")
            raise self._interrupt from None

    async def _carry_out(self, step: Step, handler: Handler) -> Answer:
        match step:
            case Handle(record):
                return Stop() if self._stopping.is_set() else await self._handle(record, handler)
            case Wait(seconds):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), seconds)
            case Bury():
                await self._bury(step)
            case Begin():
                await self._producer.begin_transaction()
                self._in_transaction = True
            case Abort():
                self._in_transaction = False
                await self._producer.abort_transaction()
            case Settle():
                await self._settle(step)
            case _:
                assert_never(step)
        return None

    async def _handle(self, record: ConsumerRecord, handler: Handler) -> Answer:
        try:
            result = handler(decoded(self._settings, record))
            if inspect.isawaitable(result):
                await result
        except (KeyboardInterrupt, asyncio.CancelledError) as interrupt:
            self._interrupt = interrupt
            return Stop()
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is why its record is given up
            return error
        return None

    async def _bury(self, letter: Bury) -> None:
        record = letter.record
        headers = letter_headers(
            record, letter.error, letter.tries, self._group_id, time.time_ns() // 1_000_000
        )
        topic = self._settings.letter_topic(record.topic)
        self._deliveries.append(await self._producer.send(topic, record.value, record.key, headers=headers))
        if self._settings.on_dead_letter is not None:
            self._settings.on_dead_letter(record, letter.error)

    async def _settle(self, step: Settle) -> None:
        if self._in_transaction:
            metadata = self._consumer.group_metadata()
            await self._producer.send_offsets_to_transaction(step.offsets, metadata)
            await self._producer.commit_transaction()
            self._in_transaction = False
            return
        # What the handler has sent, too.
        await self._producer.flush()
        for delivery in self._deliveries:
            await delivery
        self._deliveries.clear()
        try:
            await self._consumer.commit(step.offsets)
        except Refused as error:
            # Others have the partitions now and handle the records once more.
            if not group_went_on(error):
                raise
