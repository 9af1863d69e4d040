"""Writing records: batches per partition, several requests in flight, retries in order (P1-P4)."""

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from everlog.client.core.errors import TimedOut, error_code, refusal
from everlog.client.core.metadata import ClusterView
from everlog.client.core.partitioner import StickyPartitioner, partition_of_key
from everlog.client.core.retry import Backoff
from everlog.client.core.writer_batches import Accumulator, PendingBatch
from everlog.client.core.writer_plan import (
    FIRST_VERSION_BY_ID,
    Delivered,
    Failed,
    Outcome,
    Outgoing,
    ProducerIdentity,
    SendPlan,
)
from everlog.client.sync.cluster import Cluster
from everlog.model.errors import ConfigError, ErrorCode, EverlogError
from everlog.model.ids import Instant
from everlog.model.topics import TopicPartition
from everlog.records.builder import Header, NewRecord
from everlog.records.compression import Codec
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.produce import ProduceResponse

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How a BatchWriter works; the defaults are Kafka's but for the linger, which is none."""

    acks: int = ACKS_ALL
    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = 16 * 1024
    linger_ms: int = 0
    max_in_flight: int = 5
    max_request_bytes: int = 1024 * 1024
    idempotent: bool = False
    auto_create: bool = False
    delivery_timeout: float = 30.0
    """Seconds after which a batch that could not be delivered has failed."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.idempotent and (self.acks != ACKS_ALL or self.max_in_flight > 5):
            raise ConfigError(
                f"idempotence with acks={self.acks} and {self.max_in_flight} requests in flight: "
                "expected acks=all and at most 5"
            )


Report = Callable[[Delivered | Failed], None]


class BatchWriter:
    """Writes records; each call of `report` tells what became of one batch, in order within a partition.

    Nothing runs in the background: `send` and `flush` do the waiting. Leaving a `with` block flushes.

    >>> with BatchWriter(cluster, print) as writer:
    ...     writer.send("orders", b"customer-42", b"…")
    """

    def __init__(self, cluster: Cluster, report: Report, settings: WriterSettings | None = None) -> None:
        self._cluster = cluster
        self._report = report
        self._settings = settings or WriterSettings()
        self._accumulator = Accumulator(self._settings.batch_bytes, self._settings.linger_ms)
        self._sticky = StickyPartitioner(self._settings.batch_bytes, random.randrange)
        self._plan = SendPlan(
            acks=self._settings.acks,
            codec=self._settings.codec,
            level=self._settings.level,
            timeout_ms=int(cluster.timeout * 1000),
        )
        self._in_flight: deque[Outgoing] = deque()
        self._led: dict[str, tuple[list[int], int]] = {}
        self._holes: set[TopicPartition] = set()
        """Partitions where a batch with a sequence number was given up: its successors would be refused."""
        if self._settings.idempotent:
            self._plan.identity = self._new_identity()

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> PendingBatch:
        """Take a record and return the batch it is in.

        The batch is sent when it is full, or at the next `send_due` or `flush`. May wait for answers to
        earlier batches. Refused if there is no such topic or partition.
        """
        led, count = self._led.get(topic) or self._look_up(topic)
        if partition is None:
            size = len(key or b"") + len(value or b"")
            partition = self._sticky.pick(topic, led, size) if key is None else partition_of_key(key, count)
        elif not 0 <= partition < count:
            raise refusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"expected a partition from 0 to {count - 1}",
                f"{topic}-{partition}",
            )
        wall = int(time.time() * 1000) if timestamp is None else timestamp
        now = Instant(int(time.monotonic() * 1000))
        place = TopicPartition(topic, partition)
        batch = self._accumulator.add(place, NewRecord(key, value, headers, wall), now)
        if self._accumulator.has_full:
            self._dispatch(self._accumulator.take_full())
        return batch

    def send_due(self) -> None:
        """Send the batches that have lingered, for a caller that has been idle."""
        self._dispatch(self._accumulator.take_ready(Instant(int(time.monotonic() * 1000))))

    def flush(self) -> None:
        """Send all that is buffered and wait until every batch is delivered or has failed."""
        self._dispatch(self._accumulator.take_all())
        while self._in_flight:
            self._receive_oldest()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()

    def _look_up(self, topic: str) -> tuple[list[int], int]:
        described = self._cluster.topic(topic, auto_create=self._settings.auto_create)
        found = self._cluster.view.led_partitions(topic), len(described.partitions)
        self._led[topic] = found
        return found

    def _new_identity(self) -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        deadline = time.monotonic() + self._cluster.timeout
        backoff = Backoff()
        while True:
            answer = self._cluster.call(request, InitProducerIdResponse)
            code = error_code(answer.error_code)
            if code is ErrorCode.NONE:
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            if not code.retriable or not self._cluster.pause(backoff, deadline):
                raise refusal(answer.error_code, None, "a producer id for idempotence")

    def _dispatch(self, batches: Sequence[PendingBatch]) -> None:
        outgoing, leaderless = self._plan.group(batches, self._cluster.view, self._settings.max_request_bytes)
        for request in outgoing:
            while len(self._in_flight) >= self._settings.max_in_flight:
                self._receive_oldest()
            self._send(request)
        if leaderless:
            self._recover(leaderless, TimedOut("its partition has no leader"))

    def _send(self, outgoing: Outgoing) -> None:
        silent = self._settings.acks == ACKS_NONE
        at_most = None if outgoing.has_topic_ids else FIRST_VERSION_BY_ID - 1
        try:
            connection = self._cluster.broker(outgoing.node_id)
            connection.send(outgoing.request, self._cluster.timeout, at_most=at_most, silent=silent)
        except EverlogError as error:
            self._recover(outgoing.batches, error)
            return
        if silent:
            self._settle(self._plan.read_answer(outgoing, None, self._cluster.view))
        else:
            self._in_flight.append(outgoing)

    def _receive_oldest(self) -> None:
        self._settle(self._read_oldest())

    def _read_oldest(self) -> Outcome:
        outgoing = self._in_flight.popleft()
        limit = self._cluster.timeout * 2  # The broker may use all of the first half to gather acks.
        try:
            response = self._cluster.broker(outgoing.node_id).receive(ProduceResponse, limit)
        except EverlogError as error:
            if not error.retriable:
                raise
            return Outcome(again=list(outgoing.batches), last_error=error)
        return self._plan.read_answer(outgoing, response, self._cluster.view)

    def _settle(self, outcome: Outcome) -> None:
        self._tell(outcome)
        if outcome.again or self._holes:
            self._recover(outcome.again, outcome.last_error or TimedOut("no answer"))

    def _tell(self, outcome: Outcome) -> None:
        for delivered in outcome.delivered:
            self._report(delivered)
        for failed in outcome.failed:
            if failed.batch.base_sequence >= 0:
                self._holes.add(failed.batch.place)
            self._report(failed)

    def _recover(self, again: Sequence[PendingBatch], error: EverlogError) -> None:
        """Deliver batches that were not, before any younger one of their partitions.

        All that is in flight is received first. A younger batch in flight behind a failed one may have been
        refused as out of order, which then is no error of its own: it joins the line.
        """
        waiting = list(again)
        while self._in_flight:
            outcome = self._read_oldest()
            held = {batch.place for batch in waiting} | self._holes
            out_of_order = [
                failed for failed in outcome.failed if failed.batch.place in held and _is_out_of_order(failed)
            ]
            outcome.failed = [failed for failed in outcome.failed if failed not in out_of_order]
            self._tell(outcome)
            waiting.extend(outcome.again)
            waiting.extend(failed.batch for failed in out_of_order)
        self._retry(waiting, error)

    def _retry(self, waiting: list[PendingBatch], error: EverlogError) -> None:
        """Send batches one request at a time until each is delivered, has failed, or time is up."""
        deadline = time.monotonic() + self._settings.delivery_timeout
        backoff = Backoff()
        while True:
            if self._holes:
                # Nothing is in flight. A new producer id is a new count, which has no hole in it.
                self._plan.start_over(self._new_identity(), waiting)
                self._holes.clear()
            if not waiting:
                return
            splits = getattr(error, "code", None) is ErrorCode.MESSAGE_TOO_LARGE
            if not (error.retriable or splits) or not self._cluster.pause(backoff, deadline):
                self._tell(Outcome(failed=[Failed(batch, error) for batch in waiting]))
                waiting = []
                continue
            try:
                view = self._cluster.refresh({batch.place.topic for batch in waiting})
            except EverlogError as failure:
                error = failure
                continue
            waiting, error = self._retry_once(waiting, view, error)

    def _retry_once(
        self, waiting: list[PendingBatch], view: ClusterView, error: EverlogError
    ) -> tuple[list[PendingBatch], EverlogError]:
        """Try each batch once, in order; return those that still wait, and why."""
        requests, leaderless = self._plan.group(waiting, view, self._settings.max_request_bytes)
        done: set[PendingBatch] = set()
        again: dict[PendingBatch, list[PendingBatch]] = {}
        blocked = {batch.place for batch in leaderless}
        for outgoing in requests:
            if any(batch.place in blocked for batch in outgoing.batches):
                continue
            outcome = self._try_once(outgoing)
            self._tell(outcome)
            error = outcome.last_error or error
            done.update(delivered.batch for delivered in outcome.delivered)
            done.update(failed.batch for failed in outcome.failed)
            blocked |= {batch.place for batch in outcome.again} | self._holes
            for batch in outgoing.batches:
                again[batch] = [part for part in outcome.again if part.place == batch.place]
        still = [part for batch in waiting if batch not in done for part in again.get(batch, [batch])]
        return still, error

    def _try_once(self, outgoing: Outgoing) -> Outcome:
        at_most = None if outgoing.has_topic_ids else FIRST_VERSION_BY_ID - 1
        silent = self._settings.acks == ACKS_NONE
        try:
            connection = self._cluster.broker(outgoing.node_id)
            connection.send(outgoing.request, self._cluster.timeout, at_most=at_most, silent=silent)
            response = None if silent else connection.receive(ProduceResponse, self._cluster.timeout * 2)
        except EverlogError as error:
            return Outcome(again=list(outgoing.batches), last_error=error)
        return self._plan.read_answer(outgoing, response, self._cluster.view)


def _is_out_of_order(failed: Failed) -> bool:
    return getattr(failed.error, "code", None) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
