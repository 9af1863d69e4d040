"""Connections that this node opens to others: bytes to frames on the way in, pieces to bytes on the way out.

Reading is a `BufferedProtocol` on one buffer a connection, used again for every answer: a fetch answer of
many megabytes is read into place, handed on as a view, and copied by nobody.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from struct import Struct
from typing import Final, cast

from everlog.edge.same_machine import send_unpaced
from everlog.model.errors import ProtocolError
from everlog.ports.files import Buffer
from everlog.ports.links import LinkOwner
from everlog.wire.frames import SIZE_BYTES, check_frame_size

_log = logging.getLogger(__name__)

MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""Above it the peer does not speak the protocol: a TLS record, taken for a size, claims 352 MB."""

CONNECT_SECONDS: Final = 5.0
BUFFER_BYTES: Final = 64 * 1024
BELIEVED_BYTES: Final = 16 * 1024 * 1024
"""Up to here memory is taken as a frame claims it; above, as its bytes arrive."""

_SMALL_IN_A_ROW: Final = 64
"""After so many answers that needed a fraction of a large buffer, it is given back."""

_UNACKNOWLEDGED_MS: Final = 5_000
_TCP_OPTIONS: Final = {
    "TCP_KEEPIDLE": 10,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    # The kernel tries again and again, at intervals that double, to send what nobody acknowledges. A network
    # that is well again after half a minute would be noticed half a minute later.
    "TCP_USER_TIMEOUT": _UNACKNOWLEDGED_MS,
}
"""Where the system has them."""

_SIZE: Final = Struct(">i")


class Reception:
    """The buffer that answers are read into. What `take` gives is valid until it is asked for more."""

    def __init__(self, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray(BUFFER_BYTES)
        self._have = 0
        """Bytes that have arrived, from the start of the buffer on."""
        self._taken = 0
        """How many of them were taken."""
        self._small_in_a_row = 0

    @property
    def capacity(self) -> int:
        """Bytes of memory in use."""
        return len(self._buffer)

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return memoryview(self._buffer)[self._have :]

    def filled(self, count: int) -> None:
        """Note that `count` bytes were put into the room."""
        self._have += count

    def take(self) -> memoryview | None:
        """Return the next whole frame, without its size; None if there is none yet.

        ProtocolError if what came cannot be the size of a frame.
        """
        at, have = self._taken, self._have
        if have - at >= SIZE_BYTES:
            size: int = _SIZE.unpack_from(self._buffer, at)[0]
            check_frame_size(size, self._max_bytes)
            end = at + SIZE_BYTES + size
            if end <= have:
                self._taken = end
                self._small_in_a_row = 0 if size > len(self._buffer) // 4 else self._small_in_a_row + 1
                return memoryview(self._buffer)[at + SIZE_BYTES : end]
            self._make_room(size + SIZE_BYTES)
        else:
            self._move_up(self._buffer)
            is_spare = self._small_in_a_row > _SMALL_IN_A_ROW and self.capacity > BUFFER_BYTES
            if is_spare and self._have == 0:
                self._buffer = bytearray(BUFFER_BYTES)
        return None

    def _make_room(self, needed: int) -> None:
        capacity = len(self._buffer)
        if needed <= capacity:
            self._move_up(self._buffer)
            return
        rest = self._have - self._taken
        if needed > BELIEVED_BYTES:
            if rest < capacity:
                self._move_up(self._buffer)
                return
            needed = min(needed, max(BELIEVED_BYTES, 2 * capacity))
        # Answers of a kind differ a little in size.
        self._move_up(bytearray(needed + needed // 8))

    def _move_up(self, target: bytearray) -> None:
        """Have what was not taken begin at the start of `target`."""
        if self._taken or target is not self._buffer:
            rest = self._have - self._taken
            if rest:
                memoryview(target)[:rest] = memoryview(self._buffer)[self._taken : self._have]
            self._buffer = target
            self._have = rest
            self._taken = 0


class RealLink(asyncio.BufferedProtocol):
    """One connection, from the attempt on."""

    def __init__(self, links: "RealLinks", host: str, port: int, owner: LinkOwner) -> None:
        self._links = links
        self._host = host
        self._port = port
        self._owner: LinkOwner | None = owner
        """None once it has heard the last of it."""
        self.transport: asyncio.Transport | None = None
        """The connection while it is there."""
        self._kept: list[Buffer] = []
        """What is to be sent once the connection is there."""
        self._reception = Reception(links.max_frame_bytes)
        self._attempt = links.attempt(self._connect())

    # What the owner calls.

    def send(self, frame: Sequence[Buffer]) -> None:
        """Send one frame after all that was sent before; its pieces must not change until it is answered."""
        if self.transport is not None:
            self.transport.writelines(frame)
        elif self._owner is not None:
            self._kept.extend(frame)

    def close(self) -> None:
        """End it; the owner hears nothing more."""
        self._owner = None
        self._kept.clear()
        self._attempt.cancel()
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.abort()
        self._links.forget(self)

    # Connecting.

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._links.connect_seconds):
                made = await self._connect_any(await self._addresses())
                try:
                    await self._links.loop.create_connection(lambda: self, sock=made)
                except BaseException:
                    made.close()
                    raise
        except ConnectionRefusedError:
            self._end("refused the connection", refused=True)
        except TimeoutError:
            self._end(f"did not take the connection within {self._links.connect_seconds:g} s")
        except OSError as error:
            self._end(f"cannot be connected to: {error.strerror or error}")
        except (OverflowError, ValueError) as error:
            self._end(f"is no address: {error}")

    async def _addresses(self) -> list[tuple[socket.AddressFamily, tuple[object, ...]]]:
        if not 0 < self._port < 65_536:
            raise ValueError(f"port {self._port}, expected 1 to 65535")
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                socket.inet_pton(family, self._host)
            except OSError:
                continue
            # Numbers need no resolver, and no thread to ask it on.
            return [(family, (self._host, self._port))]
        found = await self._links.loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]

    async def _connect_any(
        self, addresses: list[tuple[socket.AddressFamily, tuple[object, ...]]]
    ) -> socket.socket:
        """Return a socket that is connected to the first address that takes it.

        ConnectionRefusedError only where all of them refuse: a machine may listen on one of its addresses.
        """
        problems: list[OSError] = []
        for family, address in addresses:
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                made.setblocking(False)
                await self._links.loop.sock_connect(made, cast("tuple[str, int]", address))
                if made.getsockname() == made.getpeername():
                    # The kernel gave us the very port that nobody listens on, and connected us to ourselves.
                    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            except OSError as error:
                made.close()
                problems.append(error)
            except BaseException:
                made.close()
                raise
            else:
                return made
        others = [problem for problem in problems if not isinstance(problem, ConnectionRefusedError)]
        raise (others or problems)[0]

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, with what was to be sent already."""
        made = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        if self._owner is None:
            made.abort()
            return
        self.transport = made
        plain: socket.socket = transport.get_extra_info("socket")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _TCP_OPTIONS.items():
            if hasattr(socket, name):
                plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        send_unpaced(plain)
        kept, self._kept = self._kept, []
        if kept:
            made.writelines(kept)
        self._guarded(self._owner.opened)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; the owner hears of it unless it was its own doing."""
        self.transport = None
        if exc is None:
            self._end("has closed the connection")
        else:
            said = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
            self._end(f"is not connected any more: {said}")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where the next bytes go."""
        return self._reception.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on every frame that is whole now."""
        self._reception.filled(nbytes)
        self._guarded(self._hand_on)

    def _hand_on(self) -> None:
        reception = self._reception
        while self._owner is not None:
            frame = reception.take()
            if frame is None:
                break
            self._owner.received(frame)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Do what an answer means; if that fails, it is this connection that ends."""
        try:
            step()
        except ProtocolError as error:
            self._break(f"sent what cannot be read: {error}")
        except Exception:  # noqa: BLE001  # the connection loop: log, and end what it guards
            _log.exception("an answer of %s:%s failed; its connection is closed", self._host, self._port)
            self._break("sent an answer that could not be handled")
        self._links.settle()

    def _break(self, reason: str) -> None:
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.abort()
        self._end(reason)

    def _end(self, reason: str, *, refused: bool = False) -> None:
        owner, self._owner = self._owner, None
        self._kept.clear()
        self._links.forget(self)
        if owner is not None:
            owner.lost(reason, refused=refused)
            self._links.settle()


class RealLinks:
    """Opens connections on an event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        max_frame_bytes: int = MAX_ANSWER_BYTES,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self.loop = loop
        self.max_frame_bytes = max_frame_bytes
        self.connect_seconds = connect_seconds
        self.settle: Callable[[], None] = lambda: None
        """Called after the answers of a read have been handled."""
        self._links: dict[RealLink, None] = {}
        self._attempts: set[asyncio.Task[None]] = set()

    def connect(self, host: str, port: int, owner: LinkOwner) -> RealLink:
        """Begin to connect; the owner hears of it later, never before this has returned."""
        link = RealLink(self, host, port, owner)
        self._links[link] = None
        return link

    def attempt(self, connecting: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Have an attempt to connect go on; it is known until it has ended."""
        task = self.loop.create_task(connecting)
        self._attempts.add(task)
        task.add_done_callback(self._attempts.discard)
        return task

    def forget(self, link: RealLink) -> None:
        """Take a connection that has ended off the books."""
        self._links.pop(link, None)

    @property
    def count(self) -> int:
        """How many connections there are, attempts included."""
        return len(self._links)

    def close(self) -> None:
        """End all connections; no owner hears of it."""
        for link in list(self._links):
            link.close()

    async def wait_closed(self) -> None:
        """Wait until attempts that `close` has cancelled are over; the loop may end then."""
        if self._attempts:
            await asyncio.wait(self._attempts)
