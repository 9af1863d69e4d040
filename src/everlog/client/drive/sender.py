"""Carries batches to the leaders of their partitions and reads what became of them (P2-P4).

Everything is done in `pump`, which looks at all lines and sends what may be sent; it runs when records
come, when an answer comes, when the cluster's picture changes and when a timer is due. It never waits.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from everlog.client.core import surroundings
from everlog.client.core.errors import Closed, TimedOut
from everlog.client.core.metadata import ClusterView
from everlog.client.core.producer.accumulator import Accumulator
from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.core.producer.metrics import ProducerMetrics, SendCounts
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import NOBODY
from everlog.client.core.producer.send_plan import (
    FIRST_VERSION_BY_ID,
    Departure,
    Fate,
    Ruling,
    answers_by_place,
    encode,
    learned,
    produce_request,
    rule,
)
from everlog.client.core.producer.settings import ACKS_NONE, ProducerSettings
from everlog.client.core.retry import Backoff
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.produce_lane import ProduceLane
from everlog.client.drive.producer_id import new_identity
from everlog.client.drive.settlement import Admission, Settlement
from everlog.client.drive.silence import OVERDUE_S, Silence
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.wire.messages.produce import ProduceResponse

_log = logging.getLogger("everlog.producer")


class Sender:
    """The sender of one producer, on one event loop. It takes from the accumulator, whoever fills it."""

    def __init__(self, link: ClusterLink, settings: ProducerSettings, accumulator: Accumulator) -> None:
        self.counts = SendCounts()
        self._settlement = Settlement(link, settings, accumulator, self.counts)
        self._link = link
        self._settings = settings
        self._accumulator = accumulator
        self._identity: ProducerIdentity | None = None if settings.enable_idempotence else NOBODY
        self._is_asking = False
        self._lanes: dict[int, ProduceLane] = {}
        self._silence = Silence(link, settings, self._settlement)
        self._refresh_backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._refresh_at = 0.0
        self._is_refreshing = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they began, so that they end in it too."""
        self._is_closed = False
        self._turn = 0
        self._linger_s = settings.linger_ms / 1000
        link.watch(self._see)

    # What a producer and a transaction ask for.

    @property
    def session(self) -> Admission | None:
        """The transactions that what is sent belongs to, if any."""
        return self._settlement.session

    @session.setter
    def session(self, session: Admission) -> None:
        self._settlement.session = session

    def wake(self) -> None:
        """Look for something to send. Only on the loop's thread."""
        self.pump()

    def adopt(self, identity: ProducerIdentity) -> None:
        """Send as this producer from now on; sequence numbers begin at 0. Nothing is under way."""
        self._identity = identity
        self.pump()

    async def flush(self, timeout: float | None) -> None:
        """Wait until every record so far was delivered or has failed; TimedOut if that takes too long."""
        loop = asyncio.get_running_loop()
        batches = self._accumulator.begin_flush()
        left = len(batches)
        done: asyncio.Future[None] = loop.create_future()

        def count_down() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not done.done():
                done.set_result(None)

        try:
            self.pump()
            for batch in batches:
                batch.when_done(count_down)
            if batches:
                async with asyncio.timeout(timeout):
                    await done
        except TimeoutError:
            raise TimedOut(f"{left} batches were not delivered within {timeout:g} s so far") from None
        finally:
            self._accumulator.end_flush()

    def drop(self, error: EverlogError) -> None:
        """Fail with this what has not been sent, and what is under way as soon as it would be sent again."""
        for queue in self._accumulator.lines():
            while queue.waiting:
                self._settlement.finish(self._accumulator.take(queue), error)
        for batch in self._accumulator.unfinished():
            batch.doom = error

    def inherited(self) -> None:
        """Send nothing any more: this is another process now."""
        self._is_closed = True

    async def close(self) -> None:
        """End what runs; what is not delivered fails."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            # Even if whoever closes is in a hurry and does not wait: somebody may wait for a delivery.
            self.drop(Closed("the producer was closed before the record was delivered"))
            for batch in self._accumulator.unfinished():
                self._settlement.finish(
                    batch, Closed("the producer was closed before the record was known to be delivered")
                )
            self._settlement.tell_lost()

    def metrics(self) -> ProducerMetrics:
        """What was counted so far."""
        return self.counts.read(
            in_flight=sum(lane.in_flight for lane in self._lanes.values()),
            used_bytes=self._accumulator.used_bytes,
            waiting=sum(len(queue.waiting) for queue in self._accumulator.lines()),
        )

    # The one place where it is decided what is sent now.

    def pump(self) -> None:
        """Send what may be sent, and see that this is called again when more may be."""
        if self._is_closed:
            return
        try:
            self._pump()
        except Exception:
            _log.exception("the sender failed; the producer is closed")
            self._accumulator.close(Closed("the producer failed: see the log"))
            self.drop(Closed("the producer failed: see the log"))
            raise

    def _pump(self) -> None:
        now = surroundings.monotonic()
        accumulator = self._accumulator
        # Before the look around: what is appended from here on calls again, unless the timer is soon enough.
        accumulator.wakes_on_first = accumulator.wakes_on_ready = True
        due = min(self._settlement.expire(now), self._silence.look(now))
        lines = accumulator.lines()
        if self._identity is None:
            if lines and self.session is None:
                self._ask_identity()
            self._arm(due, now)
            return
        ways: dict[int, list[PartitionQueue]] = {}
        for queue in lines:
            due = min(due, self._sort(queue, ways, now))
        for node_id, queues in ways.items():
            due = min(due, self._fill(node_id, queues, now))
        if self._settlement.stale:
            due = min(due, self._refresh(now))
        self._arm(due, now)

    def _sort(self, queue: PartitionQueue, ways: dict[int, list[PartitionQueue]], now: float) -> float:
        """Put a line on the way to its leader if its oldest batch may go; return when to look again."""
        if not queue.waiting:
            return math.inf
        if queue.retry_at > now:
            return queue.retry_at
        if not self._accumulator.is_ready(queue, now):
            return self._accumulator.ready_at(queue)
        leader = self._link.view.leader_of(queue.place)
        if leader is None:
            self._settlement.stale.add(queue.place.topic)
            return math.inf
        if not self._may_send(queue, leader.node_id):
            return math.inf
        if self.session is not None and not self.session.admits(queue.place):
            return math.inf
        ways.setdefault(leader.node_id, []).append(queue)
        return math.inf

    def _may_send(self, queue: PartitionQueue, node_id: int) -> bool:
        if self._identity is None or not queue.may_send(node_id):
            return False
        queue.adopt(self._identity)
        if queue.needs_identity and queue.renumbers:
            self._identity = None
            self._ask_identity()
            return False
        return True

    def _fill(self, node_id: int, queues: Sequence[PartitionQueue], now: float) -> float:
        """Send to one broker as much as may be under way; return when to look again."""
        lane = self._lanes.get(node_id)
        if lane is None:
            lane = self._lanes[node_id] = ProduceLane(node_id, self._link.backoff())
        if lane.blocked_until > now:
            return lane.blocked_until
        if not lane.is_open:
            # What is under way on a broken connection comes back first, in order.
            if not lane.in_flight and not lane.is_connecting:
                lane.is_connecting = True
                lane.connecting_since = now
                self._start(self._connect(lane))
            return min(self._silence.doubt(queue, lane.connecting_since, now) for queue in queues)
        self._turn += 1
        first = self._turn % len(queues)
        line = [*queues[first:], *queues[:first]]
        while line and lane.in_flight < self._settings.max_in_flight_requests_per_connection:
            departures, line = self._load(lane, line, now)
            self._send(lane, departures, now)
        return now + OVERDUE_S

    def _load(
        self, lane: ProduceLane, line: Sequence[PartitionQueue], now: float
    ) -> tuple[list[Departure], list[PartitionQueue]]:
        """Take one batch of each partition, as far as they fit; also return the lines that have more."""
        departures: list[Departure] = []
        passed: list[PartitionQueue] = []
        more: list[PartitionQueue] = []
        size = 0
        for queue in line:
            if departures and size + queue.waiting[0].size_bytes > self._settings.max_request_size:
                passed.append(queue)
                continue
            batch = self._accumulator.take(queue)
            queue.number(batch)
            size += len(encode(batch, self._settings, transactional=self.session is not None))
            queue.sent(batch, lane.node_id, now)
            self.counts.batch_sent(batch, len(batch.encoded or b""))
            self._silence.sent(queue)
            departures.append(Departure(queue, batch, batch.attempts))
            if queue.waiting and self._accumulator.is_ready(queue, now) and queue.may_send(lane.node_id):
                more.append(queue)
        return departures, [*passed, *more]

    def _send(self, lane: ProduceLane, departures: Sequence[Departure], now: float) -> None:
        assert lane.connection is not None
        view = self._link.view
        request, has_ids = produce_request(departures, view, self._settings)
        limits = [None if self.session is None else self.session.produce_at_most]
        limits.append(None if has_ids else FIRST_VERSION_BY_ID - 1)
        at_most = min((limit for limit in limits if limit is not None), default=None)
        lane.in_flight += 1
        self.counts.requests_sent += 1
        if self._settings.acks == ACKS_NONE:
            self._start(
                self._send_silent(
                    lane, departures, partial(lane.connection.send_silent, request, at_most=at_most)
                )
            )
            return
        names = {bytes(topic.topic_id): topic.name for topic in request.topic_data}
        answer = lane.connection.send(request, ProduceResponse, self._link.timeout, at_most=at_most)
        answer.add_done_callback(partial(self._answered, lane, departures, names, now))

    async def _send_silent(
        self, lane: ProduceLane, departures: Sequence[Departure], send: Callable[[], None]
    ) -> None:
        """Send without an answer; the memory is given back once the socket has taken it."""
        error: EverlogError | None = None
        try:
            assert lane.connection is not None
            send()
            await lane.connection.drained()
        except EverlogError as failure:
            error = failure
        lane.in_flight -= 1
        for departure in departures:
            ruling = Ruling(Fate.DELIVERED) if error is None else Ruling(Fate.MOVED, error=error)
            self._settlement.settle(departure, ruling)
        self.pump()

    # Answers.

    def _answered(
        self,
        lane: ProduceLane,
        departures: Sequence[Departure],
        names: dict[bytes, str],
        sent_at: float,
        answer: "asyncio.Future[ProduceResponse]",
    ) -> None:
        lane.in_flight -= 1
        if self._is_closed or answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self._take_in(lane, departures, names, sent_at, answer.result())
        else:
            failure = error if isinstance(error, EverlogError) else Closed(f"the producer failed: {error!r}")
            fate = Fate.MOVED if failure.retriable else Fate.FAILED
            for departure in departures:
                if departure.is_awaited:
                    self._settlement.settle(departure, Ruling(fate, error=failure))
        self.pump()

    def _take_in(
        self,
        lane: ProduceLane,
        departures: Sequence[Departure],
        names: dict[bytes, str],
        sent_at: float,
        response: ProduceResponse,
    ) -> None:
        now = surroundings.monotonic()
        self.counts.answered(now - sent_at)
        lane.backoff.reset()
        if response.throttle_time_ms > 0:
            lane.blocked_until = now + response.throttle_time_ms / 1000
        view = learned(response, names, self._link.view)
        if view is not self._link.view:
            self._link.learn_leader(view)
        answers = answers_by_place(response, names)
        for departure in departures:
            if departure.is_awaited:
                ruling = rule(departure.batch, answers.get(departure.queue.place))
                self._settlement.settle(departure, ruling, moved_from=lane.node_id)

    # What takes time.

    def _arm(self, due: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due < math.inf:
            # A millisecond more than none: a timer that is early by a hair would be set again and again.
            wait = max(0.0, due - now) + 0.0005
            self._timer = asyncio.get_running_loop().call_later(wait, self.pump)
        if due <= now + self._linger_s:
            self._accumulator.wakes_on_first = False

    def _see(self, view: ClusterView) -> None:
        """Take in a new picture of the cluster."""
        for name in self._accumulator.topics:
            topic = view.topics.get(name)
            if topic is not None and topic.partitions:
                self._accumulator.open_topic(name, len(topic.partitions), view.led_partitions(name))
        asyncio.get_running_loop().call_soon(self.pump)

    def _refresh(self, now: float) -> float:
        if self._is_refreshing:
            return math.inf
        if self._refresh_at > now:
            return self._refresh_at
        self._is_refreshing = True
        self._silence.asked(now)
        topics = sorted(self._settlement.stale)
        self._settlement.stale.clear()
        self._start(self._ask_metadata(topics))
        return math.inf

    async def _ask_metadata(self, topics: Sequence[str]) -> None:
        try:
            await self._link.refresh(topics)
            led = all(self._link.view.leader_of(place) is not None for place in self._waiting_places())
            if led:
                self._refresh_backoff.reset()
        except EverlogError as error:
            _log.debug("metadata could not be had: %s", error)
            self._settlement.stale.update(topics)
        finally:
            self._is_refreshing = False
            self._refresh_at = (
                surroundings.monotonic()
                + self._refresh_backoff.next_wait_ms(surroundings.chance.random()) / 1000
            )
        self.pump()

    def _waiting_places(self) -> list[TopicPartition]:
        return [queue.place for queue in self._accumulator.lines()]

    async def _connect(self, lane: ProduceLane) -> None:
        try:
            lane.connection = await self._link.broker(lane.node_id)
        except EverlogError as error:
            now = surroundings.monotonic()
            lane.blocked_until = now + lane.backoff.next_wait_ms(surroundings.chance.random()) / 1000
            self._note_unreachable(lane, error)
        finally:
            lane.is_connecting = False
        self.pump()

    def _note_unreachable(self, lane: ProduceLane, error: EverlogError) -> None:
        for queue in self._accumulator.lines():
            leader = self._link.view.leader_of(queue.place)
            if leader is None or leader.node_id != lane.node_id:
                continue
            self._settlement.stale.add(queue.place.topic)
            if queue.waiting:
                queue.waiting[0].last_error = error
            while queue.waiting and not error.retriable:
                self._settlement.finish(self._accumulator.take(queue), error)

    def _ask_identity(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            self._start(self._take_identity())

    async def _take_identity(self) -> None:
        try:
            self._identity = await new_identity(self._link)
        except EverlogError as error:
            # Nothing but another setting or another permission would help.
            for queue in self._accumulator.lines():
                while queue.waiting:
                    self._settlement.finish(self._accumulator.take(queue), error)
        finally:
            self._is_asking = False
        self.pump()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
