"""One client's connection: bytes to frames on the way in, buffers and file ranges to bytes on the way out.

Reading is a `BufferedProtocol`: the kernel writes into a buffer that is used again and again, and a frame is
handed on as a view of it. Writing goes around the transport, on a duplicate of its descriptor, so that file
ranges can leave by `sendfile` in order with everything else.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Protocol, cast

from everlog.edge.disk import RealFile
from everlog.edge.same_machine import send_unpaced
from everlog.model.errors import ProtocolError
from everlog.ports.files import FileSlice

if TYPE_CHECKING:
    from everlog.edge.server import Server

_log = logging.getLogger(__name__)

_SIZE = Struct(">i")
_SIZE_BYTES = 4

OWN_BUFFER_BYTES = 256 * 1024
"""The least a connection takes for itself once a frame did not arrive in one piece."""

SENDFILE_FROM_BYTES = 64 * 1024
"""Below this a range is read and sent with its neighbours in one call, which is cheaper."""

_JOIN_UP_TO_BYTES = 256 * 1024

TURN_MS = 20
"""How long one connection's requests are served before the others have their turn."""


class Session(Protocol):
    """What a connection's frames mean; the broker's side of it."""

    def receive(self, frame: memoryview) -> None:
        """Take in one frame. The view is valid until this returns. ProtocolError ends the connection."""
        ...

    def receive_run(self, data: memoryview, at: int, end: int) -> int:
        """Take in requests from `at` on that can be handled in runs; returns where those end."""
        ...

    def closed(self) -> None:
        """The connection has gone: nothing more comes, nothing more can be sent."""
        ...

    @property
    def idle(self) -> bool:
        """Whether no request waits for its answer."""
        ...


class _FileRange:
    """A file range on its way out; held, so that its bytes stay readable whatever becomes of the name.

    An answer may have thousands, each of another file: they take descriptors one after the other.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, part: FileSlice) -> None:
        assert isinstance(part.file, RealFile)
        self.file = part.file
        self.position = part.position
        self.length = part.length
        part.file.hold()

    def ends_early(self) -> OSError:
        return OSError(f"{self.file.path} ends before position {self.position + self.length}")


class Connection(asyncio.BufferedProtocol):
    """The edge of one connection. It owns buffers and descriptors, and decides nothing."""

    def __init__(self, server: "Server", listener_name: str) -> None:
        self._server = server
        self._listener_name = listener_name
        self._session: Session
        self._transport: asyncio.Transport
        self._socket: socket.socket
        self.peer_host = "unknown"
        self.open = False

        # What has arrived and is not yet a whole frame lies in _own[:_have]. Without any, bytes go to the
        # server's scratch buffer, which all connections share since each empties it before it returns.
        self._own: bytearray | None = None
        self._have = 0
        self._idle_below = 0
        """With fewer bytes than this in `_own` there is nothing to do but to wait for more."""
        self._reserved = 0
        self.frame_began_at: int | None = None
        self.last_read_at = 0
        """0 until something was."""

        self._out: deque[bytes | _FileRange] = deque()
        self._sent_of_first = 0
        self._out_bytes = 0  # Bytes of `_out` that are held in memory, file ranges not counted.
        self.last_sent_at = 0
        self._handling = False
        self._writer_armed = False
        self._paused_for: set[str] = set()
        self._turn_over = False
        """Whether others are served before this one goes on, with what is in the buffer or is to be read."""

    # --- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection on, unless a limit says no."""
        # uvloop's transports are transports without inheriting from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        peer: tuple[object, ...] | str | None = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer_host = str(peer[0])
        original: socket.socket = transport.get_extra_info("socket")
        self._socket = socket.socket(fileno=os.dup(original.fileno()))
        self._socket.setblocking(False)
        self.open = True
        self.last_sent_at = self._server.clock.now()
        if not self._server.admit(self):
            self.close()
            return
        if self._socket.family in (socket.AF_INET, socket.AF_INET6):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            send_unpaced(self._socket)
            limits = self._server.limits
            if limits.send_buffer_bytes > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
            if limits.receive_buffer_bytes > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        self._session = self._server.open_session(self, self._listener_name, self.peer_host)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything, whoever ended the connection."""
        self._release()

    def close(self) -> None:
        """End the connection at once; answers not yet sent are dropped."""
        if self.open:
            self._release()
            self._transport.abort()

    def _release(self) -> None:
        if not self.open:
            return
        self.open = False
        if self._writer_armed:
            self._server.loop.remove_writer(self._socket.fileno())
        self._socket.close()
        for part in self._out:
            if isinstance(part, _FileRange):
                part.file.release()
        self._out.clear()
        self._own = None
        self._server.release_memory(self._reserved)
        self._reserved = 0
        self._server.forget(self)
        if hasattr(self, "_session"):
            self._session.closed()

    # --- in

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where the next bytes go."""
        own = self._own
        if own is None or self._reads_to_scratch(own):
            return self._server.scratch
        return memoryview(own)[self._have :]

    def _reads_to_scratch(self, own: bytearray) -> bool:
        # Requests that arrive whole are best where everybody's are: the processor has that memory at hand. A
        # frame larger than that arrives in pieces, and would only be copied.
        return self._have == 0 and len(own) <= OWN_BUFFER_BYTES

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on every frame that is whole now, then send what they were answered with."""
        now = self.last_read_at = self._server.clock.now()
        if self._have + nbytes < self._idle_below:
            self._have += nbytes
        else:
            self._serve(nbytes, now)

    def _next_turn(self) -> None:
        self._turn_over = False
        if self.open:
            self._serve(0, self._server.clock.now())
            if not self._turn_over:
                self.resume("turn")

    def _serve(self, nbytes: int, now: int) -> None:
        self._handling = True
        self._idle_below = 0
        self._server.serving(self._have + nbytes)
        try:
            if self._own is None or (nbytes and self._reads_to_scratch(self._own)):
                used = self._hand_on(self._server.scratch, nbytes, now)
                rest = nbytes - used
                if rest and self.open:
                    self._keep(self._server.scratch[used:nbytes], now)
            else:
                self._have += nbytes
                whole = memoryview(self._own)
                used = self._hand_on(whole, self._have, now)
                rest = self._have - used
                if self.open:
                    if used and rest:
                        whole[:rest] = whole[used : self._have]
                    self._have = rest
                    if used:
                        self.frame_began_at = now if rest else None
                    if rest:
                        self._make_room()
                    elif len(self._own) > 2 * self._server.scratch_bytes:
                        self.trim()
        except ProtocolError as error:
            self._server.refused(self.peer_host, error)
            self._end_after_flush()
            return
        except Exception:  # noqa: BLE001  # the connection loop: log, and end what it guards
            _log.exception("a request from %s failed; its connection is closed", self.peer_host)
            self._end_after_flush()
            return
        finally:
            self._handling = False
        # The loop may read thirty times from one socket before it looks at another. After a dear request it
        # must not.
        if self._server.served(self, now):
            self._turn_over = True
        if self._turn_over and self.open:
            self.pause("turn")
            self._server.loop.call_soon(self._next_turn)

    def _end_after_flush(self) -> None:
        """End the connection, but send what was answered before the request that broke it."""
        self._handling = False
        self.flush()
        self.close()

    def _hand_on(self, data: memoryview, end: int, began_at: int) -> int:
        """Give whole frames in `data[:end]` to the session while its turn lasts; return the bytes taken."""
        at = 0
        receive = self._session.receive
        receive_run = self._session.receive_run
        # Requests of a run are not looked at one by one, so none may be able to be too large.
        may_run = end <= self._server.max_frame_bytes
        while end - at >= _SIZE_BYTES and self.open:
            after_run = receive_run(data, at, end) if may_run else at
            if after_run != at:
                at = after_run
                if at < end and self._server.clock.now() - began_at >= TURN_MS:
                    self._turn_over = True
                    break
                continue
            size = _SIZE.unpack_from(data, at)[0]
            if not 0 <= size <= self._server.max_frame_bytes:
                self._server.check_frame_size(size)
            after = at + _SIZE_BYTES + size
            if after > end:
                break
            receive(data[at + _SIZE_BYTES : after])
            at = after
            # A request may be dear: a thousand of them in one read must not keep everybody else waiting.
            if after < end and self._server.clock.now() - began_at >= TURN_MS:
                self._turn_over = True
                break
        return at

    def _keep(self, rest: memoryview, now: int) -> None:
        if self._own is None or len(self._own) < len(rest):
            self._server.release_memory(self._reserved)
            self._own = bytearray(max(OWN_BUFFER_BYTES, len(rest)))
            self._reserved = len(self._own)
            self._server.count_memory(self._reserved)
        self._own[: len(rest)] = rest
        self._have = len(rest)
        self.frame_began_at = now
        self._make_room()

    def _make_room(self) -> None:
        """Grow the buffer for the frame that has begun, as its bytes arrive rather than as it claims."""
        assert self._own is not None
        capacity = len(self._own)
        if self._have < _SIZE_BYTES:
            return
        size = _SIZE.unpack_from(self._own)[0]
        if not 0 <= size <= self._server.max_frame_bytes:
            self._server.check_frame_size(size)
        needed = size + _SIZE_BYTES
        self._idle_below = min(needed, capacity)
        if needed <= capacity:
            return
        if needed <= self._server.scratch_bytes * 2:
            grown = needed
        elif self._have < capacity:
            return
        else:
            grown = min(needed, capacity * 2)
        more = grown - self._reserved
        if self._server.reserve_memory(self, more):
            self._grow(more)
        else:
            self.pause("memory")

    def memory_granted(self, more: int) -> None:
        """Go on with the frame that had to wait for `more` bytes, which are counted as ours now."""
        self._grow(more)
        self.resume("memory")

    def _grow(self, more: int) -> None:
        assert self._own is not None
        self._reserved += more
        larger = bytearray(self._reserved)
        larger[: self._have] = memoryview(self._own)[: self._have]
        self._own = larger

    def trim(self) -> None:
        """Give the buffer back if nothing lies in it."""
        if self._own is not None and self._have == 0:
            self._own = None
            self._server.release_memory(self._reserved)
            self._reserved = 0

    def pause(self, reason: str) -> None:
        """Stop reading until `resume` has been called for every reason there was."""
        if not self._paused_for and self.open:
            self._transport.pause_reading()
        self._paused_for.add(reason)

    def resume(self, reason: str) -> None:
        """Read again, unless another reason is left."""
        if reason in self._paused_for:
            self._paused_for.discard(reason)
            if not self._paused_for and self.open:
                self._transport.resume_reading()

    @property
    def paused(self) -> bool:
        """Whether it is we who keep the peer from sending."""
        return bool(self._paused_for)

    @property
    def held_bytes(self) -> int:
        """The memory that its unfinished frame takes."""
        return self._reserved

    @property
    def waits_for_memory(self) -> bool:
        """Whether it is paused because others have the memory that its frame needs."""
        return "memory" in self._paused_for

    @property
    def partial_bytes(self) -> int:
        """How much has arrived of a frame that is not whole yet."""
        return self._have

    # --- out

    def send(self, parts: Sequence[bytes | FileSlice]) -> None:
        """Send the parts after all that was sent before. File ranges stay readable until they are out."""
        if not self.open:
            return
        try:
            for part in parts:
                if isinstance(part, bytes):
                    self._out_bytes += len(part)
                    self._out.append(part)
                else:
                    self._out.append(_FileRange(part))
        except OSError:
            # A file could not be opened any more. The header before it promised its bytes.
            self.close()
            return
        if not self._handling and not self._writer_armed:
            self.flush()

    @property
    def unsent(self) -> bool:
        """Whether answers wait for the peer to read."""
        return bool(self._out)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way in either direction."""
        return not self._out and self._have == 0 and self._session.idle

    def flush(self) -> None:
        """Write as much as the socket takes; the rest goes when the peer has read."""
        out = self._out
        if not out or not self.open:
            return
        try:
            while out:
                first = out[0]
                if isinstance(first, bytes) and len(out) == 1 and not self._sent_of_first:
                    # One answer in one piece, as most are: gathering and counting would only cost time.
                    sent = self._socket.send(first)
                    if sent != len(first):
                        self._advance(sent)
                    else:
                        out.clear()
                        self._out_bytes = 0
                elif (
                    isinstance(first, _FileRange)
                    and first.length - self._sent_of_first >= SENDFILE_FROM_BYTES
                ):
                    self._send_file(first)
                else:
                    self._send_buffers()
        except (BlockingIOError, InterruptedError):
            self._wait_for_peer()
            return
        except OSError:
            # The peer has gone, or a file could not be read half way through an answer: either way
            # the stream cannot be continued.
            self.close()
            return
        self.last_sent_at = self.last_read_at
        if self._writer_armed:
            self._server.loop.remove_writer(self._socket.fileno())
            self._writer_armed = False
            self.last_sent_at = self._server.clock.now()
        if self._paused_for:
            self.resume("unsent")

    def _wait_for_peer(self) -> None:
        if not self._writer_armed:
            self._server.loop.add_writer(self._socket.fileno(), self._writable)
            self._writer_armed = True
            self.last_sent_at = self._server.clock.now()
        if self._out_bytes > self._server.max_unsent_bytes:
            self.pause("unsent")

    def _writable(self) -> None:
        before = (len(self._out), self._sent_of_first)
        self.flush()
        if self.open and (len(self._out), self._sent_of_first) != before:
            self.last_sent_at = self._server.clock.now()

    def _send_file(self, part: _FileRange) -> None:
        done = self._sent_of_first
        with part.file.pinned() as number:
            sent = os.sendfile(self._socket.fileno(), number, part.position + done, part.length - done)
        if sent == 0:
            raise part.ends_early()
        self._advance(sent)

    def _send_buffers(self) -> None:
        buffers: list[bytes | memoryview] = []
        gathered = 0
        for part in self._out:
            if isinstance(part, bytes):
                buffers.append(part)
            elif part.length >= SENDFILE_FROM_BYTES and part is not self._out[0]:
                # What comes next goes by sendfile. The peer is woken for the header already: it then takes
                # bytes over while we send, which is cheaper for both than to hold the header back.
                break
            else:
                data = part.file.read(part.position, part.length)
                if len(data) != part.length:
                    raise part.ends_early()
                buffers.append(data)
            gathered += len(buffers[-1])
            if gathered >= _JOIN_UP_TO_BYTES:
                break
        if self._sent_of_first:
            buffers[0] = memoryview(buffers[0])[self._sent_of_first :]
        # Copying small answers together is cheaper than telling the kernel where each of them lies.
        sent = self._socket.send(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        self._advance(sent)

    def _advance(self, sent: int) -> None:
        """Take `sent` bytes off the front of what is to go out."""
        out = self._out
        sent += self._sent_of_first
        while out:
            first = out[0]
            length = len(first) if isinstance(first, bytes) else first.length
            if sent < length:
                break
            sent -= length
            out.popleft()
            if isinstance(first, bytes):
                self._out_bytes -= length
            else:
                first.file.release()
        self._sent_of_first = sent
