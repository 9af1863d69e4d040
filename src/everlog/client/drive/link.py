"""A cluster as one thing to call: finds its brokers, keeps a connection to each, and knows the leaders."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, TypeVar

from everlog.client.core import surroundings
from everlog.client.core.coordinators import (
    PASSING,
    CoordinatorKind,
    find_coordinator_request,
    read_coordinator,
)
from everlog.client.core.errors import AuthenticationFailed, Closed, TimedOut, Unreachable
from everlog.client.core.metadata import Broker, ClusterView, Topic, metadata_request, topic_problem
from everlog.client.core.retry import Backoff
from everlog.client.core.settings import ConnectionSettings
from everlog.client.drive import forks
from everlog.client.drive.connection import SILENT_S, Connection
from everlog.client.drive.opening import Opening
from everlog.client.drive.pool import Lane, Peer, Pool
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.wire.message import Message
from everlog.wire.messages.find_coordinator import FindCoordinatorResponse
from everlog.wire.messages.metadata import MetadataResponse

Answer = TypeVar("Answer", bound=Message)
Result = TypeVar("Result")

CARE_PERIOD_S = 5.0
"""How often idle connections and old metadata are looked for, at the least."""


class ClusterLink:
    """Connections to the brokers of one cluster and what is known of it, on one event loop.

    A producer, a consumer or an admin has one of its own; ConfigError when it is made if its settings name
    files that cannot be used. Connections are made when they are first needed and made again after they
    broke, never faster than the reconnect backoff allows. Metadata of the topics that were asked for is asked
    for again when it is `metadata_max_age_ms` old, when a connection is lost, and on `mark_stale`.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.view = ClusterView()
        """What the cluster looked like when it was last asked."""
        self._pool = Pool(Opening(settings), self._lost)
        self._finding: asyncio.Task[Connection] | None = None
        self._coordinators: dict[tuple[CoordinatorKind, str], Broker] = {}
        self._on_view: list[Callable[[ClusterView], None]] = []
        self._followed: dict[str, None] = {}
        """Topics whose metadata is kept fresh, in the order in which they were asked for."""
        self._refreshing: asyncio.Task[ClusterView] | None = None
        self._viewed_at: float | None = None
        self._is_stale = False
        self._care: asyncio.TimerHandle | None = None
        self._why_closed: str | None = None
        self._is_inherited = False
        self._on_inherited: list[Callable[[str], None]] = []

    @property
    def timeout(self) -> float:
        """Seconds that one request may take."""
        return self.settings.request_timeout_ms / 1000

    def watch(self, on_view: Callable[[ClusterView], None]) -> None:
        """Call this with each new view."""
        self._on_view.append(on_view)

    async def broker(self, node_id: int, lane: Lane = Lane.DATA) -> Connection:
        """An open connection to one broker, for requests that only it can answer, such as a leader's."""
        self._begin()
        return await self._pool.get(self._peer(node_id, lane))

    def ready(self, node_id: int, lane: Lane = Lane.DATA) -> Connection | None:
        """The connection to a broker if there is an open one, without a wait."""
        known = self.view.brokers.get(node_id)
        return None if known is None else self._pool.ready(Peer(known.host, known.port, lane))

    async def any_broker(self, timeout: float | None = None) -> Connection:
        """An open connection to whichever broker answers; all addresses are tried if there is no time-out."""
        if timeout is not None:
            return await self._within(
                timeout, self.any_broker(), f"any broker of {self.settings.bootstrap_servers}"
            )
        self._begin()
        ready = self._pool.least_busy()
        if ready is not None:
            return ready
        if self._finding is None or self._finding.done():
            self._finding = asyncio.get_running_loop().create_task(self._find_broker())
            self._finding.add_done_callback(_retrieve)
        return await self._unless_closed(self._finding)

    async def call(self, request: Message, answer_type: type[Answer], timeout: float | None = None) -> Answer:
        """Ask any broker."""
        limit = self.timeout if timeout is None else timeout
        connection = self._pool.least_busy()
        if connection is None:
            connection = await self.any_broker(limit)
        return await connection.call(request, answer_type, limit)

    async def ask(self, request: Message, answer_type: type[Answer], timeout: float | None = None) -> Answer:
        """Ask any broker what may be asked twice; while it says nothing others too, each with more time."""
        loop = asyncio.get_running_loop()
        limit = self.timeout if timeout is None else timeout
        deadline = loop.time() + limit
        patience = 2 * SILENT_S
        while (left := deadline - loop.time()) > patience:
            try:
                return await self.call(request, answer_type, patience)
            except TimedOut:
                patience *= 2
        return await self.call(request, answer_type, max(0.001, left))

    async def call_node(
        self,
        node_id: int,
        request: Message,
        answer_type: type[Answer],
        timeout: float | None = None,
        *,
        at_most: int | None = None,
        lane: Lane = Lane.DATA,
    ) -> Answer:
        """Ask one broker; a connection and then the answer may each take as long as the time-out."""
        limit = self.timeout if timeout is None else timeout
        connection = self.ready(node_id, lane)
        if connection is None:
            connection = await self._within(limit, self.broker(node_id, lane), f"broker {node_id}")
        return await connection.call(request, answer_type, limit, at_most=at_most)

    async def call_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Message,
        answer_type: type[Answer],
        timeout: float | None = None,
        *,
        at_most: int | None = None,
    ) -> Answer:
        """Ask the coordinator of a group or transactional id once; it is looked up if it is not known.

        Codes in the answer are the caller's to read. If one says that the coordinator is elsewhere, call
        `forget_coordinator` before the next try.
        """
        broker = await self.coordinator(kind, key)
        lane = Lane.GROUP if kind is CoordinatorKind.GROUP else Lane.DATA
        try:
            return await self.call_node(
                broker.node_id, request, answer_type, timeout, at_most=at_most, lane=lane
            )
        except EverlogError:
            self.forget_coordinator(kind, key)
            raise

    async def coordinator(self, kind: CoordinatorKind, key: str) -> Broker:
        """The broker that looks after a group or a transactional id; looked for until the time-out."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        deadline = asyncio.get_running_loop().time() + self.timeout
        backoff = self.backoff()
        while True:
            try:
                answer = await self.ask(find_coordinator_request(kind, key), FindCoordinatorResponse)
                found = read_coordinator(answer, kind, key)
            except EverlogError as error:
                passing = error.code in PASSING if isinstance(error, Refused) else error.retriable
                if not passing or not await self.pause(backoff, deadline):
                    raise
                continue
            self._coordinators[kind, key] = found
            if found.node_id not in self.view.brokers:
                self._set_view(self.view.with_broker(found))
            return found

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """Look it up again before the next call."""
        self._coordinators.pop((kind, key), None)

    async def refresh(
        self, topics: Iterable[str] | None, *, auto_create: bool = False, timeout: float | None = None
    ) -> ClusterView:
        """Ask for some topics, or with None for all, of any broker that answers; returns the new view."""
        names = None if topics is None else list(topics)
        request = metadata_request(names, auto_create=auto_create)
        answer = await self.ask(request, MetadataResponse, timeout)
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._start_over()
            raise Unreachable("a broker asks us to begin again with the bootstrap servers (KIP-1102)")
        if names is None or self._viewed_at is None or self._followed.keys() <= set(names):
            # An answer about some of the topics does not make the others any younger.
            self._viewed_at = asyncio.get_running_loop().time()
            self._is_stale = False
        self._set_view(self.view.with_answer(answer))
        return self.view

    def follow(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh; `topics` does so with those it is asked for."""
        self._followed.update(dict.fromkeys(topics))

    def unfollow(self, topics: Iterable[str]) -> None:
        """Ask no more for these of its own accord."""
        for name in topics:
            self._followed.pop(name, None)

    def mark_stale(self) -> None:
        """Something showed that the view is out of date: ask again soon, without a wait for it here.

        Many calls make one request, and requests keep `retry_backoff_ms` apart.
        """
        if self._why_closed is not None:
            return
        self._is_stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_followed())
            self._refreshing.add_done_callback(_retrieve)

    async def fresh(self) -> ClusterView:
        """Ask again for the topics that are followed, and return the new view; tries until the time-out."""
        self._begin()
        self.mark_stale()
        assert self._refreshing is not None
        return await self._unless_closed(self._refreshing)

    async def topics(
        self, names: Collection[str], *, auto_create: bool = False, timeout: float | None = None
    ) -> list[Topic]:
        """Describe topics that can be used: all of their partitions are known and led.

        One that is being created is waited for, and so are brokers that cannot be reached, up to the
        time-out. Refused if there is no such topic.
        """
        self.follow(names)
        limit = self.timeout if timeout is None else timeout
        deadline = asyncio.get_running_loop().time() + limit
        backoff = self.backoff()
        while True:
            problem: EverlogError | None
            try:
                left = max(0.001, deadline - asyncio.get_running_loop().time())
                view = await self.refresh(names, auto_create=auto_create, timeout=min(left, self.timeout))
                problem = _problem_of(view, names)
            except EverlogError as error:
                problem = error
            else:
                if problem is None:
                    return [view.topics[name] for name in names]
            is_missing = isinstance(problem, Refused) and problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not problem.retriable or (is_missing and not auto_create):
                raise problem
            if not await self.pause(backoff, deadline):
                raise TimedOut(f"gave up after {limit:g} s: {problem}") from problem

    def learn_leader(self, view: ClusterView) -> None:
        """Take in a view that an answer has made newer (KIP-951)."""
        self._set_view(view)

    def backoff(self) -> Backoff:
        """A new count of tries, with the waits that the settings ask for."""
        return Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)

    async def pause(self, backoff: Backoff, deadline: float) -> bool:
        """Wait before another try; False, at once, if the deadline (of the loop's clock) would pass.

        Closed if the client was closed: there is no other try.
        """
        wait = backoff.next_wait_ms(surroundings.chance.random()) / 1000
        if self._why_closed is None and asyncio.get_running_loop().time() + wait >= deadline:
            return False
        if self._why_closed is None:
            await asyncio.sleep(wait)
        if self._why_closed is not None:
            raise Closed(self._why_closed)
        return True

    async def close(self) -> None:
        """Close all connections; what is under way fails. Closing twice is harmless."""
        if self._is_inherited:
            return
        self._why_closed = "this client is closed"
        if self._care is not None:
            self._care.cancel()
        held = (self._finding, self._refreshing)
        tasks: list[asyncio.Task[Any]] = [task for task in held if task is not None]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await self._pool.close()

    def when_inherited(self, tell: Callable[[str], None]) -> None:
        """Call this with the reason in a process that is forked once connections were made."""
        self._on_inherited.append(tell)

    def inherited(self, why: str) -> None:
        """This is another process now: take no more calls, and leave the connections alone."""
        self._is_inherited = True
        self._why_closed = why
        self._pool.inherited(why)
        for tell in self._on_inherited:
            tell(why)

    def _begin(self) -> None:
        if self._why_closed is not None:
            raise Closed(self._why_closed)
        if self._care is None:
            forks.watch(self, ClusterLink.inherited)
            self._take_care()

    def _take_care(self) -> None:
        """Close what is idle and ask again for what is old; then, after a while, again."""
        loop = asyncio.get_running_loop()
        age_limit, idle_limit = self.settings.metadata_max_age_ms, self.settings.connections_max_idle_ms
        self._pool.close_idle(loop.time())
        is_old = self._viewed_at is not None and loop.time() - self._viewed_at >= age_limit / 1000
        if is_old or self._is_stale:
            self.mark_stale()
        period = min(CARE_PERIOD_S, min(age_limit, idle_limit) / 4000)
        self._care = loop.call_later(max(0.01, period), self._take_care)

    def _peer(self, node_id: int, lane: Lane) -> Peer:
        known = self.view.brokers.get(node_id)
        if known is None:
            raise Unreachable(
                f"broker {node_id} is not in the cluster: known are {sorted(self.view.brokers)}"
            )
        return Peer(known.host, known.port, lane)

    def _set_view(self, view: ClusterView) -> None:
        self.view = view
        for on_view in self._on_view:
            on_view(view)

    def _start_over(self) -> None:
        self._coordinators.clear()
        self._set_view(ClusterView())
        self._pool.drop_all()

    def _lost(self, connection: Connection) -> None:
        """A connection ended: perhaps its broker did too, and leaders have moved."""
        if isinstance(connection.failure, Unreachable | TimedOut) and self.view.brokers:
            self.mark_stale()

    async def _refresh_followed(self) -> ClusterView:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        backoff = self.backoff()
        if self._viewed_at is not None:
            apart = self.settings.retry_backoff_ms / 1000
            await asyncio.sleep(max(0.0, self._viewed_at + apart - loop.time()))
        while True:
            try:
                view = await self.refresh(list(self._followed))
            except EverlogError as error:
                if not error.retriable or not await self.pause(backoff, deadline):
                    raise
                continue
            return view

    async def _find_broker(self) -> Connection:
        """Connect to a broker: those known, in any order, then the bootstrap servers, in theirs.

        Known ones that just failed come last: if the whole cluster has moved, the others know where to. Those
        that are silent come after those that are not.
        """
        now = asyncio.get_running_loop().time()
        known = [Peer(broker.host, broker.port) for broker in self.view.brokers.values()]
        surroundings.chance.shuffle(known)
        bootstrap = [Peer(host, port) for host, port in self.settings.addresses]
        known.sort(key=lambda peer: self._pool.is_paced(peer, now))
        likely = [peer for peer in known if not self._pool.is_paced(peer, now)]
        likely.sort(key=lambda peer: self._pool.is_silent(peer, now))
        failures: list[EverlogError] = []
        for peer in dict.fromkeys([*likely, *bootstrap, *known]):
            try:
                return await self._pool.get(peer)
            except EverlogError as error:
                failures.append(error)
        # If one broker does not accept who we are, that is what must be put right.
        decisive = [error for error in failures if not error.retriable] or failures
        if len(decisive) == 1 or isinstance(decisive[0], AuthenticationFailed):
            raise decisive[0]
        raise Unreachable("; ".join(str(error) for error in failures))

    async def _within(self, limit: float, work: Awaitable[Result], what: str) -> Result:
        try:
            async with asyncio.timeout(limit):
                return await work
        except TimeoutError:
            why = f": {self._pool.last_failure}" if self._pool.last_failure is not None else ""
            raise TimedOut(f"no connection to {what} within {limit:.3g} s{why}") from None

    async def _unless_closed(self, task: "asyncio.Task[Result]") -> Result:
        """Wait for a task that others wait for too."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._why_closed is not None and task.cancelled():
                raise Closed("this client was closed meanwhile") from None
            raise


def _problem_of(view: ClusterView, names: Iterable[str]) -> Refused | None:
    problems = (topic_problem(view, name) for name in names)
    return next((problem for problem in problems if problem is not None), None)


def _retrieve(task: "asyncio.Task[Any]") -> None:
    # Whoever waits gets the exception; if nobody does any more, the loop need not complain.
    if not task.cancelled():
        task.exception()
