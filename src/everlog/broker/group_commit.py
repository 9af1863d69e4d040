"""Group commit: one fsync for all appends to a partition that wait for one (`flush.messages`, `flush.ms`).

While a sync runs, appends go on and their waiters gather; the next sync covers them all. With `flush.ms`
the first waiter sets the time of the sync, and whoever appends until then shares it.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from everlog.log.partition import PartitionLog
from everlog.log.sync import SyncPlan, SyncPostponedError
from everlog.model.ids import Instant
from everlog.ports.alarm import Alarm
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock

_log = logging.getLogger(__name__)

Waiter = Callable[[bool], None]
"""Called once: with True when the append is durable, with False if that can no longer be hoped for."""


class _Wait(NamedTuple):
    """One who waits for the records of one partition."""

    end: int
    """Where those end that have to be durable."""
    generation: int
    """The life of the log in which they were there: cutting it begins another."""
    tell: Waiter


class _Queue:
    """Those who wait for one partition."""

    __slots__ = ("due_at", "running", "waiters")

    def __init__(self) -> None:
        self.waiters: list[_Wait] = []
        self.running = False
        self.due_at: Instant | None = None


class GroupCommit:
    """All waiting appends of a broker."""

    def __init__(self, aside: Aside, clock: Clock, alarm: Alarm, settle: Callable[[], None]) -> None:
        """`settle` is called when a sync has ended and those who waited for it were told."""
        self._settle_broker = settle
        self._aside = aside
        self._clock = clock
        self._alarm = alarm
        self._queues: dict[PartitionLog, _Queue] = {}

    def wait(self, log: PartitionLog, end_offset: int, due_at: Instant | None, waiter: Waiter) -> None:
        """Tell `waiter` once all below `end_offset` is durable; the sync begins at `due_at` at the latest.

        Without a time the sync that covers it is under way, or begins at once.
        """
        due_at = self._clock.now() if due_at is None else due_at
        queue = self._queues.get(log)
        if queue is None:
            queue = self._queues[log] = _Queue()
        queue.waiters.append(_Wait(end_offset, log.generation, waiter))
        if queue.due_at is None or due_at < queue.due_at:
            queue.due_at = due_at
        if queue.running:
            return
        if due_at <= self._clock.now():
            self._start(log, queue)
        else:
            self._alarm.ring_by(due_at)

    def moved(self, old: PartitionLog, new: PartitionLog) -> None:
        """Another log has taken the place of one, with all its records: it is to be durable for all who wait.

        What a sync of the old one brings is nobody's any more.
        """
        queue = self._queues.pop(old, None)
        if queue is not None:
            for wait in queue.waiters:
                self.wait(new, wait.end, None, wait.tell)

    def tick(self, now: Instant) -> None:
        """Begin the syncs that are due."""
        for log, queue in list(self._queues.items()):
            if not queue.running and queue.due_at is not None and queue.due_at <= now:
                self._start(log, queue)

    def _start(self, log: PartitionLog, queue: _Queue) -> None:
        plan = log.sync_plan()
        queue.due_at = None
        if plan is None:
            # What is there is durable, or never will be by a sync: it was deleted, or its disk has failed it.
            self._settle(log, queue, is_last=True)
            return
        queue.running = True
        self._aside.run(plan.run, lambda result: self._ended(log, queue, plan, result))

    def _ended(self, log: PartitionLog, queue: _Queue, plan: SyncPlan, result: OSError | None) -> None:
        queue.running = False
        if self._queues.get(log) is not queue:
            return
        if isinstance(result, OSError):
            if isinstance(result, SyncPostponedError):
                _log.error("%s cannot be synced for now: %s", log.partition, result)
                log.sync_postponed()
            else:
                _log.error("%s takes no records for now, fsync failed: %s", log.partition, result)
                log.sync_failed(result)
            waiters, queue.waiters = queue.waiters, []
            del self._queues[log]
            for wait in waiters:
                wait.tell(False)
        else:
            log.synced(plan)
            self._settle(log, queue)
        # What the sync has committed may be what others wait to read.
        self._settle_broker()

    def _settle(self, log: PartitionLog, queue: _Queue, *, is_last: bool = False) -> None:
        durable_to, generation = log.recovery_point, log.generation
        ended: list[_Wait] = []
        left: list[_Wait] = []
        for wait in queue.waiters:
            # After a cut nobody knows whether the records that were waited for are there, or others instead.
            is_over = wait.end <= durable_to or wait.generation != generation
            (ended if is_over or is_last else left).append(wait)
        queue.waiters = left
        if not left:
            del self._queues[log]
        elif queue.due_at is None or queue.due_at <= self._clock.now():
            self._start(log, queue)
        else:
            self._alarm.ring_by(queue.due_at)
        for wait in ended:
            wait.tell(wait.end <= durable_to and wait.generation == generation)
