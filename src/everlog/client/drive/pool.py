"""The open connections of a client: one for each broker and lane, made when needed, paced when they fail."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from everlog.client.core import surroundings
from everlog.client.core.errors import Closed
from everlog.client.core.retry import Backoff
from everlog.client.drive.connection import Connection
from everlog.client.drive.opening import Opening
from everlog.model.errors import EverlogError

FINISH_S = 2.0
"""How long requests without answers may take to leave when a client is closed."""


class Lane(Enum):
    """What a connection is for. Brokers answer a connection's requests in order, so that a group's JoinGroup,
    which waits for other members, must not stand in front of fetches and commits, nor a fetch, which waits
    for records, in front of metadata."""

    DATA = "data"
    FETCH = "fetch"
    GROUP = "group"
    MEMBER = "member"


class Peer(NamedTuple):
    """Where a connection leads."""

    host: str
    port: int
    lane: Lane = Lane.DATA


@dataclass(slots=True)
class _Pace:
    """How often in a row a peer could not be reached, and when it may be tried again."""

    backoff: Backoff
    not_before: float = 0.0


class Pool:
    """Connections by peer, on one event loop.

    An attempt belongs to the pool, not to the caller that asked first: if that one gives up, others go on
    waiting for it. A peer that fails is tried again after `reconnect_backoff_ms`, then ever later.
    """

    def __init__(self, opening: Opening, on_lost: Callable[[Connection], object]) -> None:
        self._opening = opening
        self._settings = opening.settings
        self._on_lost = on_lost
        self._held: dict[Peer, asyncio.Task[Connection]] = {}
        self._paces: dict[tuple[str, int], _Pace] = {}
        self._why_closed: str | None = None
        self._of_another_process: object = None
        self.last_failure: EverlogError | None = None
        """Why the last attempt failed, if it did: whoever waits in vain is told."""

    def ready(self, peer: Peer) -> Connection | None:
        """The connection to a peer, if it is open."""
        held = self._held.get(peer)
        return _connection_of(held) if held is not None else None

    def least_busy(self) -> Connection | None:
        """The open connection with the fewest requests under way, of those that are not silent.

        Not a group's, which may have to wait.
        """
        now = asyncio.get_running_loop().time()
        found = [
            connection
            for peer, held in self._held.items()
            if peer.lane is Lane.DATA
            and (connection := _connection_of(held)) is not None
            and not connection.is_silent(now)
        ]
        return min(found, key=lambda connection: connection.in_flight, default=None)

    async def get(self, peer: Peer) -> Connection:
        """The connection to a peer, made if there is none; raises what the attempt raised."""
        if self._why_closed is not None:
            raise Closed(self._why_closed)
        held = self._held.get(peer)
        if held is not None and (connection := _connection_of(held)) is not None:
            return connection
        if held is None or held.done():
            held = self._held[peer] = asyncio.get_running_loop().create_task(self._open(peer))
            held.add_done_callback(_retrieve)
        try:
            return await asyncio.shield(held)
        except asyncio.CancelledError:
            if self._why_closed is not None and held.cancelled():
                raise Closed("this client was closed meanwhile") from None
            raise

    def is_paced(self, peer: Peer, now: float) -> bool:
        """Whether the last attempt failed and the next must wait."""
        pace = self._paces.get(peer[:2])
        return pace is not None and pace.not_before > now

    def is_silent(self, peer: Peer, now: float) -> bool:
        """Whether there is a connection on which an answer is overdue."""
        connection = self.ready(peer)
        return connection is not None and connection.is_silent(now)

    def close_idle(self, now: float) -> None:
        """Close the connections that were not used for `connections_max_idle_ms`."""
        limit = self._settings.connections_max_idle_ms / 1000
        for peer, held in list(self._held.items()):
            connection = _connection_of(held)
            if connection is None:
                if held.done():
                    del self._held[peer]
            elif connection.idle_for(now) >= limit:
                del self._held[peer]
                connection.close()

    def drop_all(self) -> None:
        """Close the connections that are open; those needed are made again."""
        for connection in [_connection_of(held) for held in self._held.values()]:
            if connection is not None:
                connection.close()

    async def close(self) -> None:
        """Close all connections and end the attempts that are under way."""
        self._why_closed = "this client is closed"
        reason = Closed("this client was closed meanwhile")
        held = list(self._held.values())
        self._held.clear()
        for task in held:
            task.cancel()
        try:
            made = await asyncio.gather(*held, return_exceptions=True)
            await asyncio.gather(
                *(each.finish(FINISH_S, reason) for each in made if isinstance(each, Connection))
            )
        finally:
            # Whoever is cancelled here does not come back for what is still open.
            for connection in map(_connection_of, held):
                if connection is not None:
                    connection.close(reason)

    def inherited(self, why: str) -> None:
        """Have no connections any more, without closing one: they are another process's, too."""
        self._why_closed = why
        if self._held:
            self._of_another_process, self._held = self._held, {}

    async def _open(self, peer: Peer) -> Connection:
        loop = asyncio.get_running_loop()
        pace = self._paces.setdefault(
            peer[:2],
            _Pace(Backoff(self._settings.reconnect_backoff_ms, self._settings.reconnect_backoff_max_ms)),
        )
        if (wait := pace.not_before - loop.time()) > 0:
            await asyncio.sleep(wait)
        try:
            connection = await self._opening.open(peer.host, peer.port)
        except EverlogError as error:
            self.last_failure = error
            _slow_down(pace, loop.time())
            raise
        self.last_failure = None
        connection.when_closed(lambda lost: self._lost(lost, pace, loop.time()))
        return connection

    def _lost(self, connection: Connection, pace: _Pace, now: float) -> None:
        if connection.is_proven:
            pace.backoff.reset()
        else:
            # It opens and then serves nothing: an attempt that failed, only later.
            _slow_down(pace, now)
        if self._why_closed is None:
            self._on_lost(connection)


def _slow_down(pace: _Pace, now: float) -> None:
    pace.not_before = now + pace.backoff.next_wait_ms(surroundings.chance.random()) / 1000


def _connection_of(held: "asyncio.Task[Connection]") -> Connection | None:
    if not held.done() or held.cancelled() or held.exception() is not None:
        return None
    connection = held.result()
    return connection if connection.is_open else None


def _retrieve(held: "asyncio.Task[Connection]") -> None:
    # Whoever waits gets the exception; if nobody does any more, the loop need not complain.
    if not held.cancelled():
        held.exception()
