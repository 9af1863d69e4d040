"""An event loop of asyncio whose time and network are those of a simulated world.

The clients that programs use run on it as they are: it has all that their driver asks of a loop, which is
time, tasks and connections. Each simulated process has a loop of its own, which can be stopped in the middle
of anything, as a process is killed.
"""

import asyncio
import contextvars
import socket
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack, cast

from everlog.sim.chance import SimRandom
from everlog.sim.player import Connection

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ADDRESS = "192.0.2.1"
"""Where the only host of a world is found."""
_CONNECT_MS = 5
"""Connections take up to this."""
_UNWINDING_ROUNDS = 200
_TIDY_TASKS = 500


class Link(Connection, Protocol):
    """A connection that may take a while to come to be."""

    @property
    def is_ready(self) -> bool:
        """Whether the far end has taken it."""
        ...


@dataclass(frozen=True, slots=True)
class Ears:
    """Whoever hears what becomes of a connection."""

    on_frame: Callable[[bytes], None]
    on_lost: Callable[[], None]
    on_opened: Callable[[], None]
    """Called once, later, if the connection was not ready from the beginning."""


class Surroundings(Protocol):
    """What a loop asks of its world."""

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        ...

    def now_ms(self) -> int:
        """The time."""
        ...

    def addresses(self, host: str) -> list[str]:
        """Where a host is found."""
        ...

    def connect(self, address: str, chance: SimRandom, ears: "Ears") -> Link | None:
        """A connection to an address; None if it is known at once that nobody listens there."""
        ...


class SimTransport(asyncio.Transport):
    """The client's end of a simulated connection, for a buffered protocol."""

    def __init__(self, loop: "SimLoop", protocol: asyncio.BufferedProtocol, chance: SimRandom) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._chance = chance
        self._connection: Connection | None = None
        self._unsent = bytearray()
        """The beginning of a request of which the rest was not written yet."""
        self._is_over = False

    def opened(self, connection: Connection) -> None:
        """Begin."""
        self._connection = connection

    # What the protocol asks for.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send what is whole; requests travel one by one."""
        if self._is_over or self._connection is None:
            return
        assert not self._loop.is_closed(), "a dead process writes"
        self._unsent += data
        while len(self._unsent) >= 4:
            size = 4 + int.from_bytes(self._unsent[:4], "big")
            if len(self._unsent) < size:
                break
            self._connection.send(bytes(self._unsent[:size]))
            del self._unsent[:size]

    def writelines(self, list_of_data: Any) -> None:
        """Send some pieces."""
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        """End; what was sent may still arrive."""
        self._finish(None)

    def abort(self) -> None:
        """End as well: nothing waits here."""
        self._finish(None)

    def is_closing(self) -> bool:
        """Whether it has ended."""
        return self._is_over

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits, whatever the limits."""

    # What the network says.

    def arrived(self, frame: bytes) -> None:
        """Hand an answer over, now and then in pieces as streams do."""
        self._loop.enter(lambda: self._feed(memoryview(frame)))

    def lost(self) -> None:
        """The far end is gone."""
        self._loop.enter(lambda: self._finish(ConnectionResetError("connection reset by peer")))

    def _feed(self, left: memoryview) -> None:
        whole = self._chance.happens(90)
        while left and not self._is_over:
            room = memoryview(self._protocol.get_buffer(-1))
            taken = min(len(left), len(room))
            if not whole:
                taken = 1 + self._chance.below(taken)
            room[:taken] = left[:taken]
            left = left[taken:]
            self._protocol.buffer_updated(taken)

    def _finish(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._connection is not None:
            self._connection.give_up()
        self._loop.call_soon(self._protocol.connection_lost, error)


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of one simulated process; callbacks run in order, whenever its world says so."""

    _is_dead = False
    """From the class: the base class asks before anything is set."""

    def __init__(self, world: Surroundings, chance: SimRandom) -> None:
        super().__init__()
        self._world = world
        self._chance = chance
        self._ready: deque[asyncio.Handle] = deque()
        self._is_due = False
        self._transports: list[SimTransport] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.problems: list[str] = []
        """What nobody handled: a task that failed, a callback that raised."""

    # The world's side.

    def enter(self, action: Callable[[], object]) -> None:
        """Do something as a callback of the loop does it."""
        self.call_soon(action)

    def unfinished(self) -> list[str]:
        """The tasks that have not ended, by what they do."""
        return [str(task.get_coro()) for task in self._tasks if not task.done()]

    def kill(self) -> None:
        """End the process: nothing it does from here on reaches the world, and its connections end."""
        self._is_dead = True
        for transport in self._transports:
            transport.abort()
        # Its coroutines are unwound now, and not when the garbage is collected, which no seed decides.
        for _ in range(_UNWINDING_ROUNDS):
            waiting = [task for task in self._tasks if not task.done()]
            if not waiting and not self._ready:
                break
            for task in waiting:
                task.cancel()
            self._run_ready()
        self._ready.clear()
        assert not self.unfinished(), self.unfinished()

    def _run_ready(self) -> None:
        self._is_due = False
        before = events._get_running_loop()  # pyright: ignore[reportPrivateUsage]
        events._set_running_loop(self)  # as BaseEventLoop does
        try:
            # What they add runs in the next round, as in any loop; time may pass in between.
            for _ in range(len(self._ready)):
                if not self._ready:
                    break
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()  # as BaseEventLoop does
        finally:
            events._set_running_loop(before)
        self._arm()

    def _arm(self) -> None:
        if self._ready and not self._is_due and not self._is_dead:
            self._is_due = True
            # Most rounds take no time; processes wait for a processor now and then.
            self._world.at(1 + self._chance.below(20) if self._chance.happens(1) else 0, self._turn)

    def _turn(self) -> None:
        if not self._is_dead:
            self._run_ready()

    # What asyncio asks for.

    def time(self) -> float:
        """Seconds of the world."""
        return self._world.now_ms() / 1000

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Call in the next round."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._arm()
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """The same: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call after some seconds, rounded up to the world's milliseconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call at a time of this loop."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        # A hair's breadth less, as no sum of fractions is exact; a call is never early.
        delay_ms = max(0, ceil((when - self.time()) * 1000 - 1e-6))
        if not self._is_dead:
            self._world.at(delay_ms, lambda: self._is_time(handle))
        return handle

    def _is_time(self, handle: asyncio.TimerHandle) -> None:
        if not handle.cancelled() and not self._is_dead:
            self._ready.append(handle)
            self._arm()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to tidy: it does nothing when its time comes."""

    def create_future(self) -> "asyncio.Future[Any]":
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # typeshed has the newest Python's keywords
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Any = None
    ) -> "asyncio.Task[T]":
        """A task of this loop."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        if len(self._tasks) > _TIDY_TASKS:
            self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        """No."""
        return False

    def is_closed(self) -> bool:
        """Whether its process is gone."""
        return self._is_dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what nobody handled."""
        self.problems.append(f"{context.get('message')}: {context.get('exception')!r}")

    async def getaddrinfo(self, host: Any, port: Any, **_options: Any) -> Any:
        """The addresses that the world knows."""
        places = self._world.addresses(str(host))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (place, port)) for place in places]

    async def create_connection(  # type: ignore[override]  # without what the driver does not use
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any, *_more: Any, **_options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to an address; ConnectionRefusedError while nobody listens there."""
        await asyncio.sleep(self._chance.below(_CONNECT_MS) / 1000)
        assert not self._is_dead, "a dead process connects"
        protocol = protocol_factory()
        transport = SimTransport(self, cast(asyncio.BufferedProtocol, protocol), self._chance)
        ready: asyncio.Future[None] = self.create_future()

        def opened() -> None:
            self.enter(lambda: None if ready.done() else ready.set_result(None))

        def lost() -> None:
            if ready.done():
                transport.lost()
            else:
                self.enter(lambda: ready.set_exception(ConnectionRefusedError("nobody listens")))

        connection = self._world.connect(str(host), self._chance, Ears(transport.arrived, lost, opened))
        if connection is None:
            raise ConnectionRefusedError("nobody listens")
        if connection.is_ready:
            ready.set_result(None)
        else:
            try:
                await ready
            except BaseException:
                connection.give_up()
                raise
        transport.opened(connection)
        self._transports = [each for each in self._transports if not each.is_closing()]
        self._transports.append(transport)
        protocol.connection_made(transport)
        return transport, protocol
