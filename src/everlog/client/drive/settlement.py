"""What answers, and time, do to batches: deliver them, put them back, split them, give them up (P4)."""

import logging
import math
from typing import Protocol

from everlog.client.core import surroundings
from everlog.client.core.errors import TimedOut
from everlog.client.core.producer.accumulator import Accumulator
from everlog.client.core.producer.metrics import SendCounts
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.send_plan import Departure, Fate, Ruling
from everlog.client.core.producer.settings import ProducerSettings
from everlog.client.core.retry import Backoff
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition

_log = logging.getLogger("everlog.producer")


class Admission(Protocol):
    """What a transaction says about sending; see drive.transactions."""

    @property
    def produce_at_most(self) -> int | None:
        """The newest version of Produce that it allows."""
        ...

    def admits(self, place: TopicPartition) -> bool:
        """Whether a partition may be written to now; if not yet, `wake` is called once it may."""
        ...

    def batch_failed(self, error: EverlogError) -> None:
        """Take in that a batch will not be delivered."""
        ...


class Settlement:
    """Carries out what becomes of batches. The sender asks it and sends what it puts back."""

    def __init__(
        self, link: ClusterLink, settings: ProducerSettings, accumulator: Accumulator, counts: SendCounts
    ) -> None:
        self.session: Admission | None = None
        self.stale: set[str] = set()
        """Topics whose leaders are in doubt."""
        self._first_error: EverlogError | None = None
        """Why the first record that failed did."""
        self._link = link
        self._settings = settings
        self._accumulator = accumulator
        self._counts = counts
        self._delivery_s = settings.delivery_timeout_ms / 1000

    def settle(self, departure: Departure, ruling: Ruling, moved_from: int | None = None) -> None:
        """Do what an answer means for one batch."""
        queue, batch = departure.queue, departure.batch
        queue.answered(batch)
        if ruling.fate is Fate.DELIVERED:
            queue.delivered(surroundings.monotonic())
        if batch.is_done:
            # Its time was up while it was under way, and it has been reported.
            return
        if ruling.fate is Fate.DELIVERED:
            self._counts.records_delivered += batch.count
            self._accumulator.finished(batch)
            batch.deliver(ruling.base_offset, ruling.append_time)
            return
        assert ruling.error is not None
        if ruling.fate is Fate.FAILED or batch.doom is not None or batch.attempts > self._settings.retries:
            self.finish(batch, batch.doom or ruling.error)
        elif ruling.fate is Fate.TOO_LARGE:
            self._divide(queue, batch, ruling.error)
        elif ruling.fate is Fate.OUT_OF_ORDER:
            self._out_of_order(queue, batch, ruling.error)
        else:
            self._again(queue, batch, ruling, moved_from)

    def _again(
        self, queue: PartitionQueue, batch: PendingBatch, ruling: Ruling, moved_from: int | None
    ) -> None:
        assert ruling.error is not None
        error, now = ruling.error, surroundings.monotonic()
        retry_at = now + self._wait_s(batch.attempts)
        if ruling.fate is Fate.MOVED:
            leader = self._link.view.leader_of(queue.place)
            if moved_from is not None and leader is not None and leader.node_id != moved_from:
                retry_at = now  # The answer has said who leads now (KIP-951).
            else:
                self.stale.add(queue.place.topic)
        self._accumulator.put_back(queue, lambda: queue.again(batch, error, retry_at))

    def _out_of_order(self, queue: PartitionQueue, batch: PendingBatch, error: EverlogError) -> None:
        if not self._settings.enable_idempotence or batch.is_doubtful:
            # Under a new number it might be written twice.
            self.finish(batch, error)
            return
        found: list[bool] = []
        self._accumulator.put_back(queue, lambda: found.append(queue.out_of_order(batch, error)))
        if not found[0]:
            return
        if self.session is not None:
            # Only an abort can close a hole in a transaction.
            assert queue.waiting[0] is batch, queue.place
            queue.renumbers = False
            self.finish(self._accumulator.take(queue), error)
            return
        _log.warning("%s; going on with a new epoch, as something before it was not written", error)
        self._counts.epoch_bumps += 1
        queue.retry_at = surroundings.monotonic() + self._wait_s(batch.attempts)

    def _divide(self, queue: PartitionQueue, batch: PendingBatch, error: EverlogError) -> None:
        self._counts.batches_split += 1
        batch.last_error = error
        topic = self._accumulator.topics[queue.place.topic]
        # So that the batches to come need not be split.
        topic.batch_limit = min(topic.batch_limit, batch.charged_bytes // 2)
        self._accumulator.put_back(queue, lambda: queue.divided(batch))
        assert batch.parts is not None
        self._accumulator.replaced(batch, batch.parts)

    def finish(self, batch: PendingBatch, error: EverlogError) -> None:
        """Report that a batch is not delivered."""
        self._counts.records_failed += batch.count
        self._first_error = self._first_error or error
        self._accumulator.finished(batch)
        batch.fail(error)
        if self.session is not None and error is not batch.doom:
            self.session.batch_failed(error)

    def tell_lost(self) -> None:
        """Log how many records were not delivered, and why: nobody may have asked after them.

        Of those in transactions the commit has told, or an abort was asked for.
        """
        if self._first_error is not None and self.session is None:
            _log.warning(
                "closed; records that were not delivered: %d; the first error: %s",
                self._counts.records_failed,
                self._first_error,
            )

    def expire(self, now: float) -> float:
        """Fail the batches whose time is up; return when the next one's is."""
        while (oldest := self._accumulator.oldest()) is not None:
            if oldest.opened_at + self._delivery_s > now:
                return oldest.opened_at + self._delivery_s
            self._accumulator.withdraw(oldest)
            said = f": {oldest.last_error}" if oldest.last_error is not None else ""
            late = TimedOut(
                f"{oldest.count} records for {oldest.place} were not delivered within delivery_timeout_ms="
                f"{self._settings.delivery_timeout_ms}{said}"
            )
            self.finish(oldest, late)
        return math.inf

    def _wait_s(self, attempts: int) -> float:
        backoff = Backoff(self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms, attempts - 1)
        return backoff.next_wait_ms(surroundings.chance.random()) / 1000
