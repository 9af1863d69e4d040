"""A cluster as one thing to call: finds its brokers, keeps a connection to each, and knows the leaders."""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from everlog.client.core.coordinators import (
    PASSING,
    CoordinatorKind,
    find_coordinator_request,
    read_coordinator,
)
from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.core.metadata import Broker, ClusterView, Topic, metadata_request, topic_problem
from everlog.client.core.retry import Backoff
from everlog.client.core.settings import ConnectionSettings
from everlog.client.drive.connection import Connection, open_connection
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.wire.message import Message
from everlog.wire.messages.find_coordinator import FindCoordinatorResponse
from everlog.wire.messages.metadata import MetadataResponse

Answer = TypeVar("Answer", bound=Message)


class ClusterLink:
    """Connections to the brokers of one cluster and what is known of it, on one event loop.

    A producer, a consumer or an admin has one of its own. Connections are made when they are first needed
    and made again after they broke, never faster than the reconnect backoff allows.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.view = ClusterView()
        """What the cluster looked like when it was last asked."""
        self._connections: dict[int, asyncio.Task[Connection]] = {}
        self._bootstrap: asyncio.Task[Connection] | None = None
        self._coordinators: dict[tuple[CoordinatorKind, str], Broker] = {}
        self._on_view: list[Callable[[ClusterView], None]] = []
        self._is_closed = False

    @property
    def timeout(self) -> float:
        """Seconds that one request may take."""
        return self.settings.request_timeout_ms / 1000

    def watch(self, on_view: Callable[[ClusterView], None]) -> None:
        """Call this with each new view."""
        self._on_view.append(on_view)

    async def broker(self, node_id: int) -> Connection:
        """An open connection to one broker, for requests that only it can answer, such as a leader's."""
        held = self._connections.get(node_id)
        if held is None or _is_spent(held):
            known = self.view.brokers.get(node_id)
            if known is None:
                raise Unreachable(
                    f"broker {node_id} is not in the cluster: known are {sorted(self.view.brokers)}"
                )
            held = self._connections[node_id] = self._connecting(known.host, known.port)
        return await asyncio.shield(held)

    async def any_broker(self) -> Connection:
        """An open connection to whichever broker answers."""
        for held in self._connections.values():
            if held.done() and not _is_spent(held):
                return held.result()
        if self._bootstrap is None or _is_spent(self._bootstrap):
            self._bootstrap = asyncio.get_running_loop().create_task(self._connect_anywhere())
        return await asyncio.shield(self._bootstrap)

    async def call(self, request: Message, answer_type: type[Answer], timeout: float | None = None) -> Answer:
        """Ask any broker."""
        limit = self.timeout if timeout is None else timeout
        return await (await self.any_broker()).call(request, answer_type, limit)

    async def call_node(
        self,
        node_id: int,
        request: Message,
        answer_type: type[Answer],
        timeout: float | None = None,
        *,
        at_most: int | None = None,
    ) -> Answer:
        """Ask one broker."""
        limit = self.timeout if timeout is None else timeout
        return await (await self.broker(node_id)).call(request, answer_type, limit, at_most=at_most)

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
        try:
            return await self.call_node(broker.node_id, request, answer_type, timeout, at_most=at_most)
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
                answer = await self.call(find_coordinator_request(kind, key), FindCoordinatorResponse)
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

    async def refresh(self, topics: Iterable[str] | None, *, auto_create: bool = False) -> ClusterView:
        """Ask for some topics, or with None for all, and return the new view."""
        answer = await self.call(metadata_request(topics, auto_create=auto_create), MetadataResponse)
        self._set_view(self.view.with_answer(answer))
        return self.view

    async def topics(
        self, names: Collection[str], *, auto_create: bool = False, timeout: float | None = None
    ) -> list[Topic]:
        """Describe topics that can be used: all of their partitions are known and led.

        One that is being created is waited for, up to the time-out. Refused if there is no such topic.
        """
        limit = self.timeout if timeout is None else timeout
        deadline = asyncio.get_running_loop().time() + limit
        backoff = self.backoff()
        while True:
            view = await self.refresh(names, auto_create=auto_create)
            problem = next(
                (found for name in names if (found := topic_problem(view, name)) is not None), None
            )
            if problem is None:
                return [view.topics[name] for name in names]
            waits = auto_create or problem.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not problem.retriable or not waits:
                raise problem
            if not await self.pause(backoff, deadline):
                raise TimedOut(f"gave up after {limit:g} s: {problem}")

    def learn_leader(self, view: ClusterView) -> None:
        """Take in a view that an answer has made newer (KIP-951)."""
        self._set_view(view)

    def backoff(self) -> Backoff:
        """A new count of tries, with the waits that the settings ask for."""
        return Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)

    async def pause(self, backoff: Backoff, deadline: float) -> bool:
        """Wait before another try; False, at once, if the deadline (of the loop's clock) would pass."""
        wait = backoff.next_wait_ms(random.random()) / 1000
        if self._is_closed or asyncio.get_running_loop().time() + wait >= deadline:
            return False
        await asyncio.sleep(wait)
        return not self._is_closed

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        held = [*self._connections.values(), *([self._bootstrap] if self._bootstrap else [])]
        self._connections.clear()
        self._bootstrap = None
        for task in held:
            task.cancel()
        for made in await asyncio.gather(*held, return_exceptions=True):
            if isinstance(made, Connection):
                made.close()

    def _set_view(self, view: ClusterView) -> None:
        self.view = view
        for on_view in self._on_view:
            on_view(view)

    def _connecting(self, host: str, port: int) -> "asyncio.Task[Connection]":
        return asyncio.get_running_loop().create_task(self._connect(host, port))

    async def _connect(self, host: str, port: int) -> Connection:
        if self._is_closed:
            raise Unreachable("this client is closed")
        limit = self.settings.socket_connection_setup_timeout_ms / 1000
        return await open_connection(host, port, client_id=self.settings.client_id, timeout=limit)

    async def _connect_anywhere(self) -> Connection:
        failures: list[str] = []
        known = [(broker.host, broker.port) for broker in self.view.brokers.values()]
        addresses = self.settings.addresses
        for host, port in [*addresses, *(address for address in known if address not in addresses)]:
            try:
                return await self._connect(host, port)
            except EverlogError as error:
                failures.append(str(error))
        raise Unreachable("; ".join(failures))


def _is_spent(held: "asyncio.Task[Connection]") -> bool:
    """Whether a connection, or the attempt at it, has failed."""
    if not held.done():
        return False
    return held.cancelled() or held.exception() is not None or not held.result().is_open
