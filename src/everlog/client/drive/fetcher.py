"""Keeps records coming: fetches ahead of the application from every broker that leads its partitions (C1)."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from everlog.client.core import surroundings
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.fetching import ConsumerFetch, Fetching
from everlog.client.core.consumer.positions import PartitionState, Positions
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.metadata import ClusterView, topic_problem
from everlog.client.core.retry import Backoff
from everlog.client.drive.connection import SILENT_S
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.pool import Lane
from everlog.client.drive.position_finder import Lookup, PositionFinder
from everlog.model.errors import ErrorCode, EverlogError
from everlog.wire.messages.fetch import FetchRequest, FetchResponse

_log = logging.getLogger(__name__)

OVERDUE_S = SILENT_S + 0.1
"""An answer is overdue so long after it had to come: others are asked then who leads."""

GOODBYE_S = 1.0
"""How long closing waits for brokers to forget sessions; they do so by themselves too."""


@dataclass(slots=True)
class FetchCounts:
    """What was fetched so far."""

    fetches: int = 0
    failures: int = 0
    chunks: int = 0
    bytes: int = 0


class Fetcher:
    """Sends requests whenever there is room for their answers, on connections of its own.

    Of its own, because a broker answers one connection in order: a commit would wait behind a long poll.
    `kick` looks for something to do; call it whenever positions have changed or chunks were taken.
    """

    def __init__(
        self,
        link: ClusterLink,
        settings: ConsumerSettings,
        positions: Positions,
        committed: Lookup,
        on_news: Callable[[], None],
    ) -> None:
        self.counts = FetchCounts()
        self._link = link
        self._settings = settings
        self._positions = positions
        self._fetching = Fetching(positions, settings)
        self._on_news = on_news
        self._finder = PositionFinder(
            link, positions, committed, self._found, read_committed=settings.read_committed
        )
        self._busy: set[int] = set()
        self._doubts: dict[int, asyncio.TimerHandle] = {}
        """By broker that is asked, when its answer is overdue."""
        self._backoffs: dict[int, Backoff] = {}
        self._stale: set[str] = set()
        self._refreshing: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they began, so that they end in it too."""
        self._timer: asyncio.TimerHandle | None = None
        self._trouble: EverlogError | None = None
        self._missing: set[str] = set()
        self._refresh_at = 0.0
        self._refresh_backoff = link.backoff()
        self._crash: BaseException | None = None
        self._failure: EverlogError | None = None
        self._is_closed = False
        link.watch(self._saw_view)

    @property
    def trouble(self) -> EverlogError | None:
        """Why nothing comes, if the cluster has never been reached."""
        return None if self._link.view.brokers else self._trouble or self._finder.trouble

    @property
    def crash(self) -> BaseException | None:
        """What ended a task of ours that should not have ended: nothing more will come."""
        return self._crash or self._finder.crash

    def failure(self) -> EverlogError | None:
        """What keeps brokers from answering and will not pass by itself; told once, then tried again."""
        failure, self._failure = self._failure, None
        return failure

    def kick(self) -> None:
        """Send what can be sent."""
        for fetch in self._next_requests():
            self._spawn(self._keep_fetching(fetch))

    def _next_requests(self) -> list[ConsumerFetch]:
        """The requests to send now, each counted as sent; comes back when there may be more."""
        if self._is_closed:
            return []
        loop = asyncio.get_running_loop()
        now = loop.time()
        found = self._fetching.plan(self._link.view, now, self._busy)
        self._finder.kick()
        self._busy.update(fetch.node_id for fetch in found.requests)
        if found.leaderless:
            self._refresh(found.leaderless)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if found.wake_at is not None:
            self._timer = loop.call_at(found.wake_at, self.kick)
        return found.requests

    def expect(self, take_bytes: int) -> None:
        """Know how much is taken at a time: answers bring half of it, so that the next is on its way."""
        self._fetching.answer_bytes = take_bytes // 2

    def take(self, max_bytes: int) -> list[tuple[PartitionState, Chunk]]:
        """Take over chunks of partitions that are not paused, in turn, at least one and up to `max_bytes`."""
        taken: list[tuple[PartitionState, Chunk]] = []
        size = 0
        ready = [state for state in self._positions if state.buffered and not state.paused]
        ready.sort(key=lambda state: state.turn)
        for state in ready:
            while state.buffered and (not taken or size < max_bytes):
                chunk = self._fetching.take_chunk(state)
                size += chunk.size_bytes
                taken.append((state, chunk))
        if taken:
            self.kick()
        return taken

    async def close(self, *, in_a_hurry: bool = False) -> None:
        """Stop; tell brokers to forget the sessions, if they are there and there is time."""
        self._is_closed = True
        for timer in (self._timer, *self._doubts.values()):
            if timer is not None:
                timer.cancel()
        await self._finder.close()
        tasks = [*self._tasks, *([self._refreshing] if self._refreshing is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if in_a_hurry:
            return
        try:
            async with asyncio.timeout(GOODBYE_S):
                await asyncio.gather(*(self._say_goodbye(*each) for each in self._fetching.closing().items()))
        except TimeoutError:
            pass

    async def _say_goodbye(self, node_id: int, request: FetchRequest) -> None:
        try:
            # Not on the connection of the fetches, where it would wait behind a long poll.
            await self._link.call_node(node_id, request, FetchResponse, GOODBYE_S)
        except EverlogError as error:
            _log.debug("the fetch session at broker %d was not closed: %s", node_id, error)

    async def _keep_fetching(self, fetch: ConsumerFetch) -> None:
        """Fetch from one broker for as long as there is room for its answers.

        The next request leaves in the same step of the loop in which an answer was taken in: a task of its
        own would begin a step later, behind whoever was told that something has come.
        """
        node_id = fetch.node_id
        following: ConsumerFetch | None = fetch
        while following is not None:
            await self._fetch(following)
            self._busy.discard(node_id)
            following = None
            for found in self._next_requests():
                if found.node_id == node_id:
                    following = found
                else:
                    self._spawn(self._keep_fetching(found))
        self._on_news()

    async def _fetch(self, fetch: ConsumerFetch) -> None:
        node_id = fetch.node_id
        limit = self._link.timeout + self._settings.fetch_max_wait_ms / 1000
        self.counts.fetches += 1
        self._doubt_after(self._settings.fetch_max_wait_ms / 1000 + OVERDUE_S, fetch)
        try:
            response = await self._ask(fetch, limit)
            now = asyncio.get_running_loop().time()
            taken = self._fetching.take(fetch, response, self._link.view, now)
            failure, pause_s = taken.failure, response.throttle_time_ms / 1000
        except EverlogError as error:
            self._fetching.failed(node_id)
            failure, pause_s = error, 0.0
        else:
            self.counts.chunks += taken.chunks
            self.counts.bytes += taken.bytes
            if taken.view is not self._link.view:
                self._link.learn_leader(taken.view)
            if taken.stale:
                self._refresh(taken.stale)
        finally:
            self._doubts.pop(node_id).cancel()
        if failure is not None:
            self.counts.failures += 1
            self._note(failure, f"fetch from broker {node_id}")
            self._refresh({place.topic for place in fetch.asked})
            backoff = self._backoffs.setdefault(node_id, self._link.backoff())
            pause_s = _wait_s(backoff)
        else:
            self._backoffs.pop(node_id, None)
        if pause_s > 0:
            # It cannot be reached, or it asked for a pause (KIP-219).
            self._on_news()
            await asyncio.sleep(pause_s)

    async def _ask(self, fetch: ConsumerFetch, limit: float) -> FetchResponse:
        """Send a request, tell of what the one before it has brought, and wait for the answer."""
        connection = self._link.ready(fetch.node_id, Lane.FETCH)
        if connection is None:
            self._on_news()
            return await self._link.call_node(
                fetch.node_id, fetch.request, FetchResponse, limit, at_most=fetch.at_most, lane=Lane.FETCH
            )
        answer = connection.send(fetch.request, FetchResponse, limit, at_most=fetch.at_most)
        # After the request has left: what came is looked at while the broker answers.
        self._on_news()
        return await answer

    def _doubt_after(self, seconds: float, fetch: ConsumerFetch) -> None:
        loop = asyncio.get_running_loop()
        self._doubts[fetch.node_id] = loop.call_later(seconds, self._doubt, fetch)

    def _doubt(self, fetch: ConsumerFetch) -> None:
        """Ask others who leads while a broker says nothing; whoever has taken over is asked for the records.

        A broker that is frozen keeps its connections, and its cluster has replaced it long before
        `request_timeout_ms` is over. Should it answer after all, what was read meanwhile is not taken twice.
        """
        view = self._link.view
        waiting: set[str] = set()
        for place in fetch.asked:
            leader, state = view.leader_of(place), self._positions.get(place)
            is_near = state is not None and state.replica == fetch.node_id
            if is_near or (leader is not None and leader.node_id == fetch.node_id):
                waiting.add(place.topic)
        self._refresh(waiting)
        self._doubt_after(OVERDUE_S, fetch)

    def _note(self, error: EverlogError, what: str) -> None:
        self._trouble = error
        _log.info("%s: %s", what, error)
        if not error.retriable:
            self._failure = error

    def _found(self, stale: set[str]) -> None:
        if stale:
            self._refresh(stale)
        self._on_news()
        self.kick()

    def _refresh(self, topics: set[str]) -> None:
        self._stale |= topics
        if self._stale and (self._refreshing is None or self._refreshing.done()) and not self._is_closed:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_all())
            self._refreshing.add_done_callback(self._ended)

    async def _refresh_all(self) -> None:
        """Ask for metadata until nothing is stale: at once, then at growing intervals."""
        loop = asyncio.get_running_loop()
        while self._stale:
            await asyncio.sleep(max(0.0, self._refresh_at - loop.time()))
            names = sorted(self._stale & self._positions.topics)
            self._stale.clear()
            try:
                if names:
                    self._link.follow(names)
                    await self._link.refresh(names, auto_create=self._settings.allow_auto_create_topics)
                    self._look_for_problems(names)
            except EverlogError as error:
                self._note(error, "metadata")
                self._stale.update(names)
            self._refresh_at = loop.time() + _wait_s(self._refresh_backoff)
            self._on_news()
            self.kick()

    def _look_for_problems(self, names: list[str]) -> None:
        problems = {name: topic_problem(self._link.view, name) for name in names}
        if not any(problems.values()):
            self._refresh_backoff.reset()
        for name, problem in problems.items():
            if problem is None:
                self._missing.discard(name)
                continue
            if problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name not in self._missing:
                self._missing.add(name)
                _log.warning("topic %r does not exist; it is read once it does", name)
            if not problem.retriable:
                for state in self._positions:
                    if state.place.topic == name:
                        state.problem = problem

    def _saw_view(self, view: ClusterView) -> None:
        self._positions.take_view(view)
        self._finder.saw_view()
        if not self._is_closed:
            asyncio.get_running_loop().call_soon(self.kick)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self._crash = task.exception()
            self._on_news()


def _wait_s(backoff: Backoff) -> float:
    return backoff.next_wait_ms(surroundings.chance.random()) / 1000
