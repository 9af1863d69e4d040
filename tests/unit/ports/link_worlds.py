"""Two worlds with another node in each: real sockets on an event loop, and the simulated mesh."""

import asyncio
import socket
import struct
from collections.abc import Callable
from heapq import heappop, heappush

import uvloop

from everlog.edge.links import RealLinks
from everlog.ports.links import LinkOwner, Links
from everlog.sim.chance import SimRandom
from everlog.sim.links import SimLinks
from everlog.sim.mesh import Mesh
from everlog.sim.wire import WireEnd

PATIENCE_SECONDS = 20


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Owner(LinkOwner):
    """Notes what it hears, in order."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.frames: list[bytes] = []
        self.on_frame: Callable[[memoryview], None] = lambda _: None

    def opened(self) -> None:
        self.heard.append("opened")

    def received(self, frame: memoryview) -> None:
        self.heard.append("received")
        self.frames.append(bytes(frame))
        self.on_frame(frame)

    def lost(self, reason: str, *, refused: bool) -> None:
        assert reason
        self.heard.append("refused" if refused else "lost")


class Far:
    """The other node's side of one connection."""

    def __init__(self, send: Callable[[bytes], None], hang_up: Callable[[], None]) -> None:
        self.frames: list[bytes] = []
        self.send = send
        """Send bytes, whole frames or not."""
        self.hang_up = hang_up
        self.is_over = False


class RealWorld:
    """A server on loopback, and an event loop to run both on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.taken: list[Far] = []
        self.real_links = RealLinks(loop)
        self.links: Links = self.real_links
        self._server = loop.run_until_complete(loop.create_server(self._accept, "127.0.0.1", 0))
        self.host = "127.0.0.1"
        self.port: int = self._server.sockets[0].getsockname()[1]
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            self.silent_port: int = unused.getsockname()[1]

    def _accept(self) -> asyncio.Protocol:
        return _Taken(self)

    def until(self, condition: Callable[[], bool]) -> None:
        async def wait() -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():  # noqa: ASYNC110  # it asks about several things at once
                    await asyncio.sleep(0.001)

        self.loop.run_until_complete(wait())

    def close(self) -> None:
        self.real_links.close()
        self._server.close()
        for far in self.taken:
            far.hang_up()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


class _Taken(asyncio.Protocol):
    def __init__(self, world: RealWorld) -> None:
        self._world = world
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        self._far = Far(transport.write, transport.abort)  # type: ignore[attr-defined]  # it is one
        self._world.taken.append(self._far)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if end > len(self._received):
                break
            self._far.frames.append(self._received[4:end])
            self._received = self._received[end:]

    def connection_lost(self, exc: Exception | None) -> None:
        self._far.is_over = True


class SimWorld:
    """A mesh with one machine to connect to."""

    host = "node2"
    port = 9092
    silent_port = 9999

    def __init__(self) -> None:
        self.taken: list[Far] = []
        self._now = 0
        self._order = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        mesh = Mesh(self, SimRandom("links"))
        mesh.add("node2", self)
        self.links: Links = SimLinks(mesh, "node1", lambda action: action())

    # What the mesh asks for.

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._events, (self._now + delay_ms, self._order, action))

    def observe(self, frame: bytes) -> None:
        pass

    def powered(self) -> bool:
        return True

    def accept(self, end: WireEnd, port: int, peer: str) -> "_Ear | None":
        if port != self.port:
            return None
        ear = _Ear(Far(end.send, end.close))
        self.taken.append(ear.far)
        return ear

    # What tests ask for.

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self._events, "nothing more will happen"
            self._now, _, action = heappop(self._events)
            action()

    def close(self) -> None:
        pass


class _Ear:
    def __init__(self, far: Far) -> None:
        self.far = far

    def opened(self) -> None:
        raise AssertionError("only the near end hears this")

    def received(self, frame: bytes) -> None:
        self.far.frames.append(frame[4:])

    def lost(self, reason: str, *, refused: bool) -> None:
        self.far.is_over = True


World = RealWorld | SimWorld


def a_world(kind: str) -> World:
    if kind == "sim":
        return SimWorld()
    return RealWorld(uvloop.new_event_loop() if kind == "uvloop" else asyncio.new_event_loop())
