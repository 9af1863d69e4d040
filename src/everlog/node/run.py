"""Run one node as a process: event loop, signals, start and stop."""

import asyncio
import gc
import logging
import signal
from collections.abc import Callable

from everlog.edge.alarm import LoopAlarm
from everlog.edge.aside import ThreadAside
from everlog.edge.chance import SystemRandom
from everlog.edge.clock import SystemClock
from everlog.edge.descriptors import limit_open_files
from everlog.edge.disk import RealFiles
from everlog.edge.lock import DirectoryLock
from everlog.edge.server import Limits, Server
from everlog.log.directory import make_dir_durably
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.model.settings.listeners import Listener
from everlog.node.node import Node

_log = logging.getLogger(__name__)

_DESCRIPTORS_FOR_OTHERS = 128
"""Descriptors kept for the loop, threads, libraries and listeners, besides files and connections."""

# A broker makes few cycles and holds many long-lived objects; the default thresholds would walk them all
# the time. What is alive after the start is left out of collections for good.
_GC_THRESHOLDS = (50_000, 20, 50)


def run_node(settings: BrokerSettings, on_ready: Callable[[str], None]) -> None:
    """Run a node until SIGTERM or SIGINT; `on_ready` gets its bootstrap address when it serves.

    ConfigError if it cannot start as it was told, StorageError if its disk does not let it.
    """
    _configure_logging()
    loop = _new_event_loop()
    try:
        loop.run_until_complete(_Process(settings, loop).run(on_ready))
    finally:
        loop.close()


def _configure_logging() -> None:
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _Process:
    """The parts of a running node that are not the broker's: loop, locks, sockets, signals."""

    def __init__(self, settings: BrokerSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self._stop = asyncio.Event()
        self._bug: BaseException | None = None

    async def run(self, on_ready: Callable[[str], None]) -> None:
        """Start, serve until told to stop, and stop cleanly."""
        settings = self._settings
        clock = SystemClock()
        max_connections = settings[keys.MAX_CONNECTIONS]
        files = RealFiles(
            limit_open_files(settings[keys.MAX_OPEN_FILES], max_connections * 2 + _DESCRIPTORS_FOR_OTHERS)
        )
        aside = ThreadAside(self._loop, self._ended_by_bug)
        alarm = LoopAlarm(self._loop, clock)
        for directory in settings.log_dirs:
            make_dir_durably(files, directory)
        locks = [DirectoryLock(directory) for directory in settings.log_dirs]
        try:
            node = Node(settings, files, clock, SystemRandom(), aside, alarm)
            server = Server(self._loop, clock, _limits(settings), node.open_session, node.broker.settle)
            node.broker.on_settings_changed = lambda changed: server.change_limits(_limits(changed))
            bound = await self._bind(server)
            await self._start(node, bound)
            alarm.wakes(node.tick)
            node.tick(clock.now())
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self._stop.set)
            await server.serve()
            on_ready(",".join(f"{_bracketed(one.host)}:{one.port}" for one in bound))
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_GC_THRESHOLDS)
            await self._stop.wait()
            await server.close()
            alarm.stop()
            aside.close()
            node.close()
        finally:
            for lock in locks:
                lock.release()
        if self._bug is not None:
            raise self._bug

    async def _bind(self, server: Server) -> list[Listener]:
        """Bind every listener; what is advertised gets the ports that were really taken."""
        advertised: list[Listener] = []
        for listener in self._settings.broker_listeners:
            port = await server.listen(listener.name, listener.host, listener.port)
            told = next(one for one in self._settings.advertised if one.name == listener.name)
            advertised.append(
                Listener(told.name, told.host or listener.host, told.port or port, told.protocol)
            )
        return advertised

    async def _start(self, node: Node, bound: list[Listener]) -> None:
        started: asyncio.Future[None] = self._loop.create_future()

        def done(error: Exception | None) -> None:
            if error is None:
                started.set_result(None)
            else:
                started.set_exception(error)

        node.start(bound, done)
        await started

    def _ended_by_bug(self, error: BaseException) -> None:
        self._bug = error
        self._stop.set()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _limits(settings: BrokerSettings) -> Limits:
    return Limits(
        max_frame_bytes=settings[keys.SOCKET_REQUEST_MAX_BYTES],
        max_connections=settings[keys.MAX_CONNECTIONS],
        max_connections_per_host=settings[keys.MAX_CONNECTIONS_PER_IP],
        max_request_memory_bytes=settings[keys.QUEUED_MAX_REQUEST_BYTES],
        max_unsent_bytes=settings[keys.CONNECTIONS_MAX_UNREAD_BYTES],
        idle_ms=settings[keys.CONNECTIONS_MAX_IDLE_MS],
        frame_grace_ms=settings[keys.REQUEST_READ_TIMEOUT_MS],
        frame_bytes_per_second=settings[keys.REQUEST_READ_MIN_BYTES_PER_SECOND],
        send_buffer_bytes=settings[keys.SOCKET_SEND_BUFFER_BYTES],
        receive_buffer_bytes=settings[keys.SOCKET_RECEIVE_BUFFER_BYTES],
        backlog=settings[keys.SOCKET_LISTEN_BACKLOG_SIZE],
    )
