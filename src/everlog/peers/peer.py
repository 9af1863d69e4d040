"""One other node: a connection when needed, requests in order, to each an answer or why there is none."""

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from everlog.model.errors import ProtocolError
from everlog.model.ids import Instant
from everlog.peers.address import Address, Unreachable
from everlog.peers.asked import Asked, Done
from everlog.peers.probe import PROBE_TIMEOUT_MS, Probe
from everlog.ports.links import Link
from everlog.wire.codec import decode_response, encode_request_pieces
from everlog.wire.message import Message, Records

if TYPE_CHECKING:
    from everlog.peers.peers import Peers

FrameDone = Callable[[memoryview | Unreachable], None]
Lost = Callable[[Unreachable], None]

FIRST_WAIT_MS: Final = 10
MAX_WAIT_MS: Final = 500
"""How long the next attempt to connect waits at most, after many that came to nothing."""

GONE_WAITS_MS: Final = (10, 20, 40, 80, 250)
"""How long after a port has taken a connection it is tried again, to see whether it still does."""

MAX_WAITING: Final = 10_000
MAX_WAITING_BYTES: Final = 256 * 1024 * 1024
"""What may wait for the answers of one peer; more is refused, for it does not keep up."""

_HEADER: Final = Struct(">ihhi")
_HEADER_BYTES: Final = _HEADER.size
_INT32: Final = Struct(">i")


class _Line:
    """One connection, so that what an earlier one still has to say can be told apart."""

    __slots__ = ("_peer", "answered", "link", "opened_at")

    link: Link

    def __init__(self, peer: "Peer") -> None:
        self._peer = peer
        self.answered = False
        self.opened_at: Instant | None = None

    def opened(self) -> None:
        self._peer.line_opened(self)

    def received(self, frame: memoryview) -> None:
        self._peer.line_received(self, frame)

    def lost(self, reason: str, *, refused: bool) -> None:
        self._peer.line_lost(self, reason, refused=refused)


class Peer:
    """A node at an address. It is connected to when something is asked of it and stays so.

    A connection that is lost fails all that was asked on it: nothing is sent twice by itself. A request that
    is not answered in time ends its connection, since answers come in the order of requests. After attempts
    to connect that came to nothing the next waits, 10 ms and twice as long each time up to 500 ms; what is
    asked meanwhile waits too, unless nobody listened there: then it fails at once.
    """

    def __init__(self, peers: "Peers", address: Address, lane: str) -> None:
        self.address = address
        self.lane = lane
        self._peers = peers
        self._correlation_id = 0
        self._asked: deque[Asked] = deque()
        """Oldest first. All of it was sent on `_line` if there is one, else none of it was sent."""
        self._asked_bytes = 0
        self._line: _Line | None = None
        self._wait_ms = 0
        self._next_attempt_at = Instant(0)
        self._refusal: str | None = None
        """What the last attempt met with if nobody listened, until another one begins."""
        self._lost: list[Lost] = []
        self._probes: list[Probe] = []
        self._closed = False

    # What callers use.

    @property
    def is_connected(self) -> bool:
        """Whether the far end has taken a connection that has not ended since."""
        return self._line is not None and self._line.opened_at is not None

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answers."""
        return len(self._asked)

    def on_lost(self, tell: Lost) -> None:
        """Tell of each connection that ends and each attempt that fails, after what was asked on it has."""
        self._lost.append(tell)

    def ask(self, request: Message, version: int, timeout_ms: int, done: Done) -> None:
        """Send a request; `done` gets its answer, or Unreachable within `timeout_ms` from now.

        Records in the answer are views that are valid until `done` returns. Records in the request must not
        change before `done` is called. A ProtocolError from `done` ends the connection.
        """
        key = request.KEY
        assert key is not None, request
        correlation_id = self._next_correlation_id()
        pieces = encode_request_pieces(request, version, correlation_id, self._peers.client_id)

        def read(frame: memoryview) -> Message:
            return decode_response(key, version, frame)[1]

        self._ask(Asked(key, correlation_id, pieces, read, done), timeout_ms)

    def ask_frame(self, pieces: Sequence[Records], timeout_ms: int, done: FrameDone) -> None:
        """Send a whole request frame, its size field included, as `ask` does; the correlation id is put in.

        The first piece has the fixed part of the header at least. `done` gets the answer's frame without its
        size field, valid until it returns. A ProtocolError from `done` ends the connection.
        """
        first = pieces[0]
        assert len(first) >= _HEADER_BYTES, len(first)
        size, key, version, _ = _HEADER.unpack_from(first)
        assert size + 4 == sum(map(len, pieces)), (size, [len(piece) for piece in pieces])
        correlation_id = self._next_correlation_id()
        head = _HEADER.pack(size, key, version, correlation_id)
        numbered = (head + bytes(first[_HEADER_BYTES:]), *pieces[1:])
        self._ask(Asked(key, correlation_id, numbered, lambda frame: frame, done), timeout_ms)

    def probe(self, done: Callable[[bool], None]) -> None:
        """Connect once, beside all else, and say whether nobody listened there: True if it was refused."""
        now = self._peers.clock.now()
        probe = Probe(Instant(now + PROBE_TIMEOUT_MS), done)
        probe.link = self._peers.links.connect(self.address.host, self.address.port, probe)
        self._probes = [other for other in self._probes if not other.ended]
        self._probes.append(probe)
        self._peers.wake_by(probe.deadline)

    def find_out_if_gone(self, done: Callable[[bool], None]) -> None:
        """Say whether the process there has ended: True once a connection is refused, False after 0.4 s.

        A process that is killed closes what it has open piece by piece, so that others may hear the end of a
        connection while its port still takes new ones. So somebody who is there is asked for several times.
        """
        waits = iter(GONE_WAITS_MS)

        def probed(refused: bool) -> None:
            wait_ms = next(waits, None)
            if refused or wait_ms is None:
                done(refused)
            else:
                self._peers.later(wait_ms, lambda: self.probe(probed))

        self.probe(probed)

    # What Peers calls.

    def close(self, reason: str) -> None:
        """End the connection and fail what was asked; whatever is asked from now on fails too."""
        self._closed = True
        line, self._line = self._line, None
        if line is not None:
            line.link.close()
        self._fail_all(line, reason, refused=False)

    def abandon(self) -> None:
        """End everything and tell nobody."""
        self._closed = True
        self._asked.clear()
        self._lost.clear()
        for probe in self._probes:
            if not probe.ended:
                probe.link.close()
        self._probes.clear()
        line, self._line = self._line, None
        if line is not None:
            line.link.close()

    def tick(self, now: Instant) -> None:
        """Give up what waited too long and connect again where that is due; ask to be woken again."""
        for probe in self._probes:
            probe.end_if_late(now)
        self._probes = [probe for probe in self._probes if not probe.ended]
        self._give_up_late(now)
        if self._line is None and self._asked and self._next_attempt_at <= now:
            self._connect()
        deadlines = [asked.deadline for asked in self._asked]
        deadlines.extend(probe.deadline for probe in self._probes)
        if self._line is None and self._asked:
            deadlines.append(self._next_attempt_at)
        if deadlines:
            self._peers.wake_by(min(deadlines))

    # What a connection says.

    def line_opened(self, line: _Line) -> None:
        """The far end has taken a connection."""
        if line is self._line:
            line.opened_at = self._peers.clock.now()

    def line_received(self, line: _Line, frame: memoryview) -> None:
        """An answer has come."""
        if line is not self._line:
            return
        asked = self._asked[0] if self._asked else None
        if asked is None or len(frame) < _INT32.size:
            self._drop(line, f"sent {len(frame)} bytes that nobody asked for")
            return
        found = _INT32.unpack_from(frame)[0]
        if found != asked.correlation_id:
            self._drop(
                line, f"answered request {found} where {asked.name}, request {asked.correlation_id}, is due"
            )
            return
        try:
            answer = asked.read(frame)
            self._asked.popleft()
            self._asked_bytes -= asked.size
            line.answered = True
            asked.done(answer)
        except ProtocolError as error:
            self._drop(line, f"sent an answer to {asked.name} that cannot be read: {error}")

    def line_lost(self, line: _Line, reason: str, *, refused: bool) -> None:
        """A connection has ended, or was not to be had."""
        if line is self._line:
            self._ended(line, reason, refused=refused)

    # Steps.

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def _ask(self, asked: Asked, timeout_ms: int) -> None:
        now = self._peers.clock.now()
        problem = self._why_not(asked, now)
        if problem is not None:
            self._peers.soon(lambda: asked.done(problem))
            return
        asked.timeout_ms = timeout_ms
        asked.deadline = Instant(now + timeout_ms)
        self._asked.append(asked)
        self._asked_bytes += asked.size
        self._peers.wake_by(asked.deadline)
        if self._line is not None:
            self._send(self._line, asked)
        elif self._next_attempt_at <= now:
            self._connect()
        else:
            self._peers.wake_by(self._next_attempt_at)

    def _why_not(self, asked: Asked, now: Instant) -> Unreachable | None:
        """Say why a request fails at once, if it does."""
        if self._closed:
            return self._unreachable("is not in use any more", unsent=True)
        if self._refusal is not None and now < self._next_attempt_at:
            return self._unreachable(self._refusal, refused=True, unsent=True)
        waiting, size = len(self._asked), self._asked_bytes
        if waiting >= MAX_WAITING or (waiting and size + asked.size > MAX_WAITING_BYTES):
            return self._unreachable(f"owes {waiting} answers, to requests of {size} bytes", unsent=True)
        return None

    def _connect(self) -> None:
        self._refusal = None
        line = self._line = _Line(self)
        line.link = self._peers.links.connect(self.address.host, self.address.port, line)
        for asked in self._asked:
            self._send(line, asked)

    def _send(self, line: _Line, asked: Asked) -> None:
        assert asked.pieces is not None, asked.name
        pieces, asked.pieces = asked.pieces, None
        line.link.send(pieces)

    def _give_up_late(self, now: Instant) -> None:
        late = [asked for asked in self._asked if asked.deadline <= now]
        if not late:
            return
        reason = f"did not answer {late[0].name} within {late[0].timeout_ms} ms"
        if self._line is not None:
            # Whatever comes now would be taken for the answer to another request.
            self._drop(self._line, reason)
            return
        for asked in late:
            self._asked.remove(asked)
            self._asked_bytes -= asked.size
        for asked in late:
            asked.done(self._unreachable(reason, unsent=True))

    def _drop(self, line: _Line, reason: str) -> None:
        """End a connection ourselves; nothing to do if it has ended meanwhile."""
        if line is self._line:
            line.link.close()
            self._ended(line, reason, refused=False)

    def _ended(self, line: _Line, reason: str, *, refused: bool) -> None:
        """Fail all that was asked on a connection, and let the next attempt wait if it was of no use."""
        self._line = None
        self._wait_ms = 0 if line.answered else min(max(FIRST_WAIT_MS, 2 * self._wait_ms), MAX_WAIT_MS)
        self._next_attempt_at = Instant(self._peers.clock.now() + self._wait_ms)
        self._refusal = reason if refused else None
        self._fail_all(line, reason, refused=refused)
        for tell in list(self._lost):
            tell(self._unreachable(reason, refused=refused))

    def _fail_all(self, line: _Line | None, reason: str, *, refused: bool) -> None:
        failed, self._asked, self._asked_bytes = self._asked, deque(), 0
        unsent = line is None or line.opened_at is None
        for asked in failed:
            asked.done(self._unreachable(reason, refused=refused, unsent=unsent))

    def _unreachable(self, reason: str, *, refused: bool = False, unsent: bool = False) -> Unreachable:
        return Unreachable(f"{self.address} {reason}", refused=refused, unsent=unsent)
