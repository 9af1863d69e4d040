"""The listening sockets, their connections, and the limits that keep one from hurting the others."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

from everlog.edge.connection import TURN_MS, Connection, Session
from everlog.edge.wakeful import Wakeful
from everlog.model.dataclass import dataclass
from everlog.model.errors import ConfigError, ProtocolError
from everlog.ports.clock import Clock
from everlog.wire.frames import check_frame_size

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
_COMPLAINT_MS = 60_000

ROUND_MS = 1
"""How long answers may wait for other connections to be served, so that all of them leave together."""

PRESSED_BYTES_PER_SECOND = 16 * 1024 * 1024
"""How fast a frame has to come while others wait for the memory that it takes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may take of us."""

    max_frame_bytes: int = 100 * 1024 * 1024
    max_connections: int = 10_000
    max_connections_per_host: int = 1_024
    connections_of_hosts: Mapping[str, int] | None = None
    """For some addresses, what holds in place of that."""
    max_request_memory_bytes: int = 256 * 1024 * 1024
    max_unsent_bytes: int = 1024 * 1024
    idle_ms: int = 600_000
    first_byte_ms: int = 30_000
    """How long a peer that has connected may say nothing at all: every client begins with a request."""
    frame_grace_ms: int = 10_000
    """How long the first bytes of a frame may keep us waiting."""
    frame_bytes_per_second: int = 1024
    """How fast the rest has to come."""
    stalled_peer_ms: int = 60_000
    """How long a peer may leave its answers unread."""
    scratch_bytes: int = 1024 * 1024
    send_buffer_bytes: int = -1
    """The size of a socket's buffer in the kernel; -1 leaves it to the system."""
    receive_buffer_bytes: int = -1
    backlog: int = 50
    """Connections that may wait to be accepted."""


OpenSession = Callable[[Connection, str, str], Session]


class Server:
    """All connections of one broker; every limit is counted here."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        limits: Limits,
        open_session: OpenSession,
        settle: Callable[[], None],
        wakeful: Wakeful | None = None,
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.limits = limits
        self.open_session = open_session
        self._settle = settle
        """Called after the frames of a round have been handled and answered."""
        self._served: list[Connection] = []
        """Those whose requests were handled in this round."""
        self._wakeful = wakeful
        self._round_began_at = 0
        self._round_bytes = 0
        self.max_frame_bytes = limits.max_frame_bytes
        self.max_unsent_bytes = limits.max_unsent_bytes
        self.scratch_bytes = limits.scratch_bytes
        self.scratch = memoryview(bytearray(limits.scratch_bytes))
        self._connections: dict[Connection, None] = {}
        self._per_host: Counter[str] = Counter()
        self._memory_used = 0
        self._waiting_for_memory: deque[tuple[Connection, int]] = deque()
        """Who waits for how many bytes, first come, first served."""
        self._favourite: Connection | None = None
        """The one that may go above the limit, until its frame is whole."""
        self._complained_at: dict[str, int] = {}
        self._listeners: dict[str, asyncio.Server] = {}
        """By the listener's name."""
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen(self, listener_name: str, host: str, port: int) -> int:
        """Bind an address and return the port; 0 picks a free one. Nobody is served before `serve`."""
        try:
            listener = await self.loop.create_server(
                lambda: Connection(self, listener_name),
                host or None,
                port,
                backlog=self.limits.backlog,
                reuse_address=True,
                start_serving=False,
            )
        except OSError as error:
            raise ConfigError(
                f"listener {listener_name} cannot bind {host}:{port}: {error.strerror}"
            ) from error
        self._listeners[listener_name] = listener
        bound: int = listener.sockets[0].getsockname()[1]
        return bound

    async def serve(self, listener_names: Iterable[str]) -> None:
        """Accept connections on these listeners, all of which are bound."""
        for name in listener_names:
            await self._listeners[name].start_serving()
        if self._sweeper is None:
            self._sweeper = self.loop.call_later(SWEEP_SECONDS, self._sweep)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for listener in self._listeners.values():
            listener.close()
        for connection in list(self._connections):
            connection.flush()
            connection.close()
        for listener in self._listeners.values():
            await listener.wait_closed()

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def admit(self, connection: Connection) -> bool:
        """Count a new connection, unless there are too many already."""
        host = connection.peer_host
        self._connections[connection] = None
        self._per_host[host] += 1
        if len(self._connections) > self.limits.max_connections:
            self.complain(
                host, f"refused: {self.limits.max_connections} connections are open (max.connections)"
            )
            return False
        own = (self.limits.connections_of_hosts or {}).get(host)
        most, key = (
            (self.limits.max_connections_per_host, "max.connections.per.ip")
            if own is None
            else (own, "max.connections.per.ip.overrides")
        )
        if self._per_host[host] > most:
            self.complain(host, f"refused: {most} connections are open from there ({key})")
            return False
        return True

    def change_limits(self, limits: Limits) -> None:
        """Obey other limits from now on; connections that are open stay."""
        self.limits = limits
        self.max_frame_bytes = limits.max_frame_bytes
        self.max_unsent_bytes = limits.max_unsent_bytes

    def serving(self, size: int) -> None:
        """Requests of a connection, so many bytes, are about to be handled."""
        if not self._served:
            self._round_bytes = 0
            if self._wakeful is not None:
                self._wakeful.round_begins()
        self._round_bytes += size

    def served(self, connection: Connection, began_at: int) -> bool:
        """Send a connection's answers at the end of this round, once all that were readable are served.

        A client with several connections is then woken once for all of them, rather than for each. Returns
        whether this connection has had its turn, as what it asked for has taken long.
        """
        if not self._served:
            self._round_began_at = began_at
            self.loop.call_soon(self._end_round)
        self._served.append(connection)
        now = self.clock.now()
        if now - self._round_began_at < ROUND_MS:
            return False
        self._end_round()
        return now - began_at >= TURN_MS

    def _end_round(self) -> None:
        served, self._served = self._served, []
        for connection in served:
            connection.flush()
        if served:
            self._settle()
            if self._wakeful is not None:
                self._wakeful.round_ends(len(served), self._round_bytes)

    def forget(self, connection: Connection) -> None:
        """Take a closed connection off the books."""
        if connection in self._connections:
            del self._connections[connection]
            self._per_host[connection.peer_host] -= 1
            if not self._per_host[connection.peer_host]:
                del self._per_host[connection.peer_host]

    def check_frame_size(self, size: int) -> None:
        """Raise ProtocolError for a frame size that is out of bounds, saying what it looks like."""
        check_frame_size(size, self.max_frame_bytes)

    # --- memory for frames that have begun

    def count_memory(self, more: int) -> None:
        """Count bytes that had to be taken, whether there is room or not."""
        self._memory_used += more

    def reserve_memory(self, connection: Connection, more: int) -> bool:
        """Count `more` bytes if there is room for them; if not, `memory_granted` is called once there is."""
        limit = self.limits.max_request_memory_bytes
        if self._memory_used + more > limit:
            for other in self._connections:
                other.trim()
        fits = self._memory_used + more <= limit and not self._waiting_for_memory
        if fits or connection is self._favourite or not self._has_favourite():
            if not fits:
                # All that hold memory may be waiting for more of it, and one frame may need more than there
                # will ever be room for. So one goes on at any time, and we are above the limit by its frame.
                self._favourite = connection
            self._memory_used += more
            return True
        self._waiting_for_memory.append((connection, more))
        return False

    def _has_favourite(self) -> bool:
        favourite = self._favourite
        return favourite is not None and favourite.open and favourite.frame_began_at is not None

    def release_memory(self, bytes_back: int) -> None:
        """Count bytes as free again and let those continue that waited for them."""
        self._memory_used -= bytes_back
        limit = self.limits.max_request_memory_bytes
        while self._waiting_for_memory:
            connection, more = self._waiting_for_memory[0]
            if connection.open:
                if self._memory_used + more > limit:
                    if self._has_favourite():
                        break
                    self._favourite = connection
                self._memory_used += more
                connection.memory_granted(more)
            self._waiting_for_memory.popleft()

    # --- time limits

    def _sweep(self) -> None:
        self._sweeper = self.loop.call_later(SWEEP_SECONDS, self._sweep)
        now = self.clock.now()
        self.release_memory(0)
        share = self._fair_share()
        for connection in list(self._connections):
            problem = self._overdue(connection, now, share)
            if problem is not None:
                if problem:
                    self.complain(connection.peer_host, problem)
                connection.close()
            elif now - connection.last_read_at > 10 * SWEEP_SECONDS * 1000:
                connection.trim()

    def _fair_share(self) -> int | None:
        """What each unfinished frame would hold if all held the same; None while nobody waits for memory."""
        if not self._waiting_for_memory:
            return None
        return self._memory_used // max(1, sum(1 for one in self._connections if one.held_bytes))

    def _overdue(self, connection: Connection, now: int, share: int | None) -> str | None:
        """Say why a connection has to end, '' for no more than idleness, None if it may stay."""
        limits = self.limits
        if connection.unsent and now - connection.last_sent_at > limits.stalled_peer_ms:
            return f"closed: answers were left unread for {limits.stalled_peer_ms} ms"
        may_end = not connection.paused or (share is not None and connection.waits_for_memory)
        if connection.frame_began_at is not None and may_end:
            # While memory is short, those that hold much of it for long make room, even where it is we who
            # keep them waiting: else a few large frames that never end would stop everybody else's.
            pressed = share is not None and connection.held_bytes >= share
            rate = PRESSED_BYTES_PER_SECOND if pressed else limits.frame_bytes_per_second
            allowed = limits.frame_grace_ms + connection.partial_bytes * 1000 // max(rate, 1)
            if now - connection.frame_began_at > allowed:
                return f"closed: a request was not complete after {now - connection.frame_began_at} ms"
        quiet_ms = now - max(connection.last_read_at, connection.last_sent_at)
        if not connection.last_read_at and quiet_ms > limits.first_byte_ms:
            return f"closed: it asked for nothing within {limits.first_byte_ms} ms"
        if quiet_ms > limits.idle_ms and connection.idle:
            return ""
        return None

    def refused(self, host: str, error: ProtocolError) -> None:
        """Note that a peer sent what cannot be read."""
        self.complain(host, f"closed: {error}")

    def complain(self, host: str, problem: str) -> None:
        """Log a peer's fault, once a minute for each host at the most."""
        now = self.clock.now()
        if now - self._complained_at.get(host, -_COMPLAINT_MS) >= _COMPLAINT_MS:
            if len(self._complained_at) > 10_000:
                self._complained_at.clear()
            self._complained_at[host] = now
            _log.warning("connection from %s %s", host, problem.encode("unicode_escape").decode("ascii"))
