"""A client's connection as the broker sees it: requests in order, answers in the same order."""

import struct
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from everlog.broker.exchange import Exchange, Parts
from everlog.broker.handlers.produce_run import OwedRun, take_runs
from everlog.model.errors import ProtocolError

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_HEADER = Struct(">hhih")
_HEADER_BYTES = _HEADER.size
_SIZE_BYTES = 4
_NULL = -1

MOST_HELD_BYTES: Final = 1 << 20
"""What answers of runs may take while they wait for an earlier request's; those of one read count as one."""


class Outlet(Protocol):
    """What a session can do to its connection."""

    def send(self, parts: Parts) -> None:
        """Send bytes and file ranges after all that was sent before."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...

    def pause(self, reason: str) -> None:
        """Stop reading requests."""
        ...

    def resume(self, reason: str) -> None:
        """Read requests again."""
        ...


class Service(Protocol):
    """Who answers the requests of a connection: a broker, or a controller's desk."""

    def dispatch(self, api_key: int, exchange: Exchange, frame: memoryview, after_client_id: int, /) -> None:
        """Hand one request to its handler; ProtocolError if it cannot be read or is not served."""
        ...

    def session_closed(self, session: "Session") -> None:
        """Take note that a connection has gone."""
        ...


class Session:
    """One connection: reads request headers, hands bodies to handlers, keeps the answers in order."""

    __slots__ = (
        "_broker",
        "_dispatch",
        "_held_bytes",
        "_max_waiting",
        "_outlet",
        "_service",
        "_waiting",
        "gathered",
        "listener_name",
        "number",
        "open",
        "peer_host",
    )

    def __init__(
        self,
        service: Service,
        outlet: Outlet,
        listener_name: str,
        peer_host: str,
        max_waiting: int,
        broker: "Broker | None" = None,
    ) -> None:
        """Take on a connection of which `max_waiting` requests may wait before we stop reading from it.

        With a `broker` its produce requests may come as runs.
        """
        self._service = service
        self._dispatch = service.dispatch
        self._broker = broker
        self._max_waiting = max_waiting
        self._outlet = outlet
        self.open = True
        self.listener_name = listener_name
        self.peer_host = peer_host
        self.number = 0
        """Counts the connections to this node, the oldest first."""
        # Requests without an answer, or with one that has to wait for an earlier request's, oldest first.
        self._waiting: deque[Exchange] = deque()
        # What the answers of runs among them take, at most.
        self._held_bytes = 0
        self.gathered: list[bytes] = []
        """Answers of runs that are being taken, to be sent together after what is still owed; else empty."""

    def receive(self, frame: memoryview) -> None:
        """Take in one request. ProtocolError means that the connection cannot go on."""
        try:
            api_key, version, correlation_id, client_id_bytes = _HEADER.unpack_from(frame)
        except struct.error:
            raise ProtocolError(
                f"a request header has at least {_HEADER_BYTES} bytes, found {len(frame)}"
            ) from None
        if client_id_bytes < 0:
            if client_id_bytes != _NULL:
                raise ProtocolError(f"a client id of length {client_id_bytes}")
            client_id_bytes = 0
        exchange = Exchange(self, version, correlation_id)
        waiting = self._waiting
        waiting.append(exchange)
        self._dispatch(api_key, exchange, frame, _HEADER_BYTES + client_id_bytes)
        if len(waiting) >= self._max_waiting:
            self._outlet.pause("waiting")

    def receive_whole(self, data: memoryview) -> None:
        """Take in one request with its size field, the short way if it is plain, as a connection does."""
        if self.receive_run(data, 0, len(data)) == 0:
            self.receive(data[_SIZE_BYTES:])

    def receive_run(self, data: memoryview, at: int, end: int) -> int:
        """Take in the produce requests at `at` that can be handled as runs; returns where those end.

        Nothing was taken if that is `at`: then `receive` is right for the request there.
        """
        broker = self._broker
        if broker is None:
            return at
        try:
            return take_runs(broker, self, data, at, end)
        finally:
            if self.gathered:
                self._answer_gathered()

    def owe_run(self, run: OwedRun) -> Exchange:
        """Owe the answers of a run, all at once, in the place of its requests."""
        if self.gathered:
            self._answer_gathered()
        exchange = Exchange(self, run.version, run.correlation_ids[0])
        self._owe(exchange)
        return exchange

    def _answer_gathered(self) -> None:
        gathered = self.gathered
        parts = (gathered[0] if len(gathered) == 1 else b"".join(gathered),)
        gathered.clear()
        if self._waiting:
            exchange = Exchange(self, 0, 0)
            exchange.answered = True
            exchange.parts = parts
            self._held_bytes += len(parts[0])
            self._owe(exchange)
        else:
            self._outlet.send(parts)

    def _owe(self, exchange: Exchange) -> None:
        self._waiting.append(exchange)
        if self._full:
            self._outlet.pause("waiting")

    @property
    def _full(self) -> bool:
        return len(self._waiting) >= self._max_waiting or self._held_bytes > MOST_HELD_BYTES

    def closed(self) -> None:
        """The connection has gone; answers to what it asked are dropped when they come."""
        self.open = False
        self._waiting.clear()
        self._service.session_closed(self)

    def close(self) -> None:
        """End the connection, as is due to whoever broke the protocol or wants no answer to an error."""
        self._outlet.close()

    @property
    def idle(self) -> bool:
        """Whether no request waits for its answer."""
        return not self._waiting

    def send_answered(self) -> None:
        """Send the answers that no earlier request holds up any more."""
        waiting = self._waiting
        was_full = self._full
        while waiting and waiting[0].answered:
            parts = waiting.popleft().parts
            if parts:
                self._outlet.send(parts)
        if not waiting:
            self._held_bytes = 0
        if was_full and not self._full:
            self._outlet.resume("waiting")
