"""The simulated event loop: time and order as the world has them, connections, and the end of a process."""

import asyncio
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from typing import Any

import pytest

from everlog.sim.chance import SimRandom
from everlog.sim.loop import ADDRESS, Ears, SimLoop
from everlog.sim.network import Connection, Weather
from everlog.sim.workloads.actor import Setting


class _Echo:
    """A host that answers each request with itself; and time."""

    setting: Setting

    def __init__(self) -> None:
        self.listens = True
        self.received: list[bytes] = []
        self._now = 0
        self._order = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._connections: dict[int, Connection] = {}

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._events, (self._now + delay_ms, self._order, action))

    def now_ms(self) -> int:
        return self._now

    def run(self) -> None:
        while self._events:
            self._now, _, action = heappop(self._events)
            action()

    def observe(self, frame: bytes) -> None: ...

    def addresses(self, host: str) -> list[str]:
        return [ADDRESS]

    def connect(self, address: str, chance: SimRandom, ears: Ears) -> Connection | None:
        if not self.listens:
            return None
        return Connection(self, self, lambda: Weather(delay_ms=3), chance, ears.on_frame, ears.on_lost)

    def accept(self, connection: Connection) -> Any:
        self._connections[id(connection)] = connection
        return id(connection)

    def deliver(self, session: Any, frame: bytes) -> None:
        self.received.append(frame)
        self._connections[session].send_parts([frame])

    def hang_up(self, session: Any) -> None: ...

    def cut_all(self) -> None:
        for connection in self._connections.values():
            connection.cut()


class _Heard(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.data = bytearray()
        self.error: Exception | None = None
        self.is_over = asyncio.Event()
        self._room = bytearray(5)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._room[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.is_over.set()


def _run(world: _Echo, work: Coroutine[Any, Any, Any]) -> Any:
    loop = SimLoop(world, SimRandom(1))
    task = loop.create_task(work)
    world.run()
    assert loop.problems == []
    loop.kill()
    return task.result()


def _frame(text: str) -> bytes:
    return len(text).to_bytes(4, "big") + text.encode()


def test_time_is_the_world_s_and_timers_come_in_order() -> None:
    heard: list[tuple[str, float]] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(60.0, lambda: heard.append(("later", loop.time())))
        loop.call_later(0.0105, lambda: heard.append(("soon", loop.time())))
        loop.call_later(5, lambda: heard.append(("never", loop.time()))).cancel()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(40)
        heard.append(("late", loop.time()))

    _run(_Echo(), work())

    assert [name for name, _ in heard] == ["soon", "late", "later"]
    # Never early, and behind by no more than a process waits for a processor.
    for (_, found), least in zip(heard, (0.011, 30.0, 60.0), strict=True):
        assert least <= found < least + 0.1


def test_what_is_written_in_pieces_arrives_as_requests_and_is_answered() -> None:
    world = _Echo()

    async def work() -> bytes:
        transport, protocol = await asyncio.get_running_loop().create_connection(_Heard, "host", 9092)
        whole = _frame("hello") + _frame("you there")
        transport.write(whole[:6])
        transport.writelines([whole[6:12], whole[12:]])
        await asyncio.sleep(1)
        return bytes(protocol.data)

    assert _run(world, work()) == _frame("hello") + _frame("you there")
    assert world.received == [_frame("hello"), _frame("you there")]


def test_a_connection_that_is_cut_is_lost_with_an_error_and_one_that_is_closed_without() -> None:
    world = _Echo()

    async def work() -> tuple[Exception | None, Exception | None]:
        loop = asyncio.get_running_loop()
        cut, heard = await loop.create_connection(_Heard, "host", 9092)
        cut.write(_frame("hello"))
        await asyncio.sleep(1)
        world.cut_all()
        await heard.is_over.wait()
        closed, silent = await loop.create_connection(_Heard, "host", 9092)
        closed.close()
        await silent.is_over.wait()
        return heard.error, silent.error

    lost, closed = _run(world, work())
    assert isinstance(lost, ConnectionResetError)
    assert closed is None


def test_nobody_listens() -> None:
    world = _Echo()
    world.listens = False

    async def work() -> None:
        await asyncio.get_running_loop().create_connection(_Heard, "host", 9092)

    with pytest.raises(ConnectionRefusedError):
        _run(world, work())


def test_a_process_that_is_killed_is_unwound_at_once_and_does_nothing_more() -> None:
    world = _Echo()
    heard: list[str] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(_Heard, "host", 9092)
        loop.call_later(20, lambda: heard.append("a timer"))
        try:
            await asyncio.sleep(100)
        finally:
            heard.append("unwound")
            transport.write(_frame("too late"))
            await asyncio.sleep(100)

    loop = SimLoop(world, SimRandom(1))
    task = loop.create_task(work())
    world.at(10_000, loop.kill)
    world.run()

    assert task.cancelled()
    assert loop.is_closed()
    assert heard == ["unwound"]
    assert world.received == []


def test_what_nobody_handles_is_kept() -> None:
    world = _Echo()
    loop = SimLoop(world, SimRandom(1))

    loop.call_soon(lambda: 1 // 0)
    world.run()
    loop.kill()

    assert len(loop.problems) == 1
    assert "ZeroDivisionError" in loop.problems[0]
