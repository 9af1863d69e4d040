"""Targets of what bytes meet first: the readers of a stream, and the session of a broker behind them."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from functools import cache

from everlog.broker.dispatch import SERVED
from everlog.client.core.answer_frames import AnswerFrames
from everlog.edge.connection import Connection
from everlog.edge.links import Reception
from everlog.edge.server import Limits, Server
from everlog.model.errors import ProtocolError
from everlog.sim.clock import SimClock
from everlog.wire.apis import APIS
from everlog.wire.codec import encode_request
from tests.fuzz.target import Target, found
from tests.fuzz.wire_targets import filled_message
from tests.unit.broker.simulated import Client, SimulatedNode

_FRAME_LIMIT = 1 << 12
_LEAST_ANSWER = 4
"""An answer has a correlation id at least."""
_SIZE_BYTES = 4

Reader = Callable[[Iterator[bytes]], tuple[list[bytes], bool]]
"""Pieces of a stream to the frames in it, and whether it was refused in the end."""


def _frames(data: bytes) -> None:
    """However a stream comes, each reader finds the frames in it, and stops where there cannot be one."""
    if not data:
        return
    step, stream = data[0] % 16 + 1, data[1:]
    for reader, least in ((_by_connection, 0), (_by_link, 0), (_by_client, _LEAST_ANSWER)):
        expected = _split(stream, least)
        pieces = (stream[at : at + step] for at in range(0, len(stream), step))
        for frames, refused in (reader(pieces), reader(iter((stream,)))):
            wanted = expected[0]
            if refused and reader is _by_client:
                # What came with the same bytes as that which cannot be is lost with the connection.
                wanted = wanted[: len(frames)]
            found(
                (frames, refused) == (wanted, expected[1]),
                f"{reader.__name__} has {frames}, {refused}, expected {expected}",
            )


def _split(stream: bytes, least: int) -> tuple[list[bytes], bool]:
    """What a stream holds, in the plainest way."""
    frames: list[bytes] = []
    while len(stream) >= _SIZE_BYTES:
        size = int.from_bytes(stream[:_SIZE_BYTES], "big", signed=True)
        if not least <= size <= _FRAME_LIMIT:
            return frames, True
        if len(stream) < _SIZE_BYTES + size:
            break
        frames.append(stream[_SIZE_BYTES : _SIZE_BYTES + size])
        stream = stream[_SIZE_BYTES + size :]
    return frames, False


def _by_link(pieces: Iterator[bytes]) -> tuple[list[bytes], bool]:
    reception = Reception(_FRAME_LIMIT)
    frames: list[bytes] = []
    for piece in pieces:
        while piece:
            room = reception.room()
            count = min(len(room), len(piece))
            room[:count] = piece[:count]
            piece = piece[count:]
            reception.filled(count)
            try:
                while (frame := reception.take()) is not None:
                    frames.append(bytes(frame))
            except ProtocolError:
                return frames, True
    return frames, False


def _by_client(pieces: Iterator[bytes]) -> tuple[list[bytes], bool]:
    answers = AnswerFrames("the peer")
    answers.max_bytes = _FRAME_LIMIT
    frames: list[bytes] = []
    for piece in pieces:
        while piece:
            room = answers.buffer()
            count = min(len(room), len(piece))
            room[:count] = piece[:count]
            piece = piece[count:]
            try:
                frames += [bytes(frame) for frame in answers.filled(count)]
            except ProtocolError:
                return frames, True
    return frames, False


class _Transport(asyncio.Transport):
    """A socket that nothing comes from: the bytes are put where the connection wants them."""

    def __init__(self, own: socket.socket) -> None:
        super().__init__({"socket": own, "peername": ("127.0.0.1", 1)})

    def abort(self) -> None:
        """The sockets are closed when the input is over."""


class _Listener:
    """A session that notes the frames it gets."""

    idle = True

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def receive(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))

    def receive_run(self, data: memoryview, at: int, end: int) -> int:
        return at

    def closed(self) -> None:
        pass


@cache
def _server() -> Server:
    limits = Limits(max_frame_bytes=_FRAME_LIMIT, scratch_bytes=256)
    return Server(
        asyncio.new_event_loop(),
        SimClock(),
        limits,
        lambda _connection, _name, _peer: _Listener(),
        lambda: None,
    )


def _by_connection(pieces: Iterator[bytes]) -> tuple[list[bytes], bool]:
    server = _server()
    session = _Listener()

    def open_session(_connection: Connection, _name: str, _peer: str) -> _Listener:
        return session

    server.open_session = open_session
    own, far = socket.socketpair()
    with own, far:
        connection = Connection(server, "PLAINTEXT")
        connection.connection_made(_Transport(own))
        for piece in pieces:
            while piece and connection.open:
                room = connection.get_buffer(-1)
                count = min(len(room), len(piece))
                room[:count] = piece[:count]
                piece = piece[count:]
                connection.buffer_updated(count)
        refused = not connection.open
        server.loop.run_until_complete(asyncio.sleep(0))
        connection.close()
    found(server.connection_count == 0, "a connection that is closed is still counted")
    return session.frames, refused


def _frame_seeds() -> list[bytes]:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in (b"", b"a", b"b" * 40, b"c" * 600))
    tls = bytes.fromhex("1603010200010001fc0303")
    return [
        b"\x00" + stream,
        b"\x07" + stream,
        b"\x0f" + stream[:-9],
        b"\x00" + tls,
        b"\x00GET / HTTP/1.1\r\n\r\n",
    ]


_INPUTS_A_NODE = 2_000
"""After so many a new node begins: what one has been told to keep would fill the memory in the end."""


class _Nodes:
    def __init__(self) -> None:
        self._left = 0
        self._node: SimulatedNode | None = None

    def client(self) -> tuple[SimulatedNode, Client]:
        if self._node is None or self._left == 0:
            self._node = SimulatedNode(max_partitions="200", num_partitions="1")
            self._node.create_topic("abc")
            self._left = _INPUTS_A_NODE
        self._left -= 1
        return self._node, self._node.client()


_nodes = _Nodes()


def _session(data: bytes) -> None:
    """Whatever is in a frame, a broker answers it, or refuses it as what it is: no handler fails."""
    node, client = _nodes.client()
    try:
        client.session.receive(memoryview(bytearray(data)))
    except ProtocolError:
        client.close()
    node.node.settle()
    node.aside.run_all()
    client.session.closed()


def _session_seeds() -> list[bytes]:
    _nodes.client()  # Before anybody counts what an input takes.
    return [
        encode_request(filled_message(f"{APIS[key].name}Request", version), version, 7, "fuzz")[4:]
        for key, (first, last) in SERVED.items()
        for version in {max(first, APIS[key].min_version), last}
    ]


CONNECTION_TARGETS = (
    Target("frames", _frames, _frame_seeds),
    Target("session", _session, _session_seeds, weight=3),
)
