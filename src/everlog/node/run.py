"""Run one node, as a process or on a thread of another program: event loop, signals, start and stop."""

import asyncio
import gc
import logging
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING

from everlog.edge.alarm import LoopAlarm
from everlog.edge.aside import ThreadAside
from everlog.edge.chance import SystemRandom
from everlog.edge.clock import SystemClock
from everlog.edge.descriptors import limit_open_files
from everlog.edge.disk import RealFiles
from everlog.edge.lock import DirectoryLock
from everlog.edge.loop_threads import end_at_exit, new_event_loop
from everlog.edge.server import Limits, Server
from everlog.edge.wakeful import Wakeful, may_stay_awake
from everlog.log.directory import make_dir_durably
from everlog.model.errors import StorageError
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.model.settings.kinds import counts_by_address
from everlog.model.settings.listeners import Listener
from everlog.node.node import Node
from everlog.ports.links import NO_LINKS

if TYPE_CHECKING:
    from everlog.edge.links import RealLinks

_log = logging.getLogger(__name__)

_LEAVE_SECONDS = 30
"""How long a stop waits for others to take over what is led here."""

_DESCRIPTORS_FOR_OTHERS = 128
"""Descriptors kept for the loop, threads, libraries and listeners, besides files and connections."""

# A broker makes few cycles and holds many long-lived objects; the default thresholds would walk them all
# the time. What the start leaves is left out of collections for good, unseen: to look for the few cycles in
# it would keep the first clients waiting for as long as a tenth of the start.
GC_THRESHOLDS = (50_000, 20, 50)


def run_node(settings: BrokerSettings, on_ready: Callable[[str], None]) -> None:
    """Run a node until SIGTERM or SIGINT; `on_ready` gets its bootstrap address when it serves.

    ConfigError if it cannot start as it was told, StorageError if its disk does not let it.
    """
    _configure_logging()
    gc.set_threshold(*GC_THRESHOLDS)
    loop = new_event_loop()

    def served(bootstrap: str) -> None:
        on_ready(bootstrap)
        gc.freeze()

    try:
        process = _Process(settings, loop, Wakeful(loop) if may_stay_awake() else None)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.stop)
        loop.run_until_complete(process.run(served))
    finally:
        loop.close()


class NodeThread:
    """A node on a thread of a program that does other things too; it leaves signals, logging and gc alone.

    Nor does it stay awake for requests to come: the program's own threads wait for the same lock.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._loop = new_event_loop()
        self._process = _Process(settings, self._loop)
        self._ready: Future[str] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, name=f"everlog-node-{settings.node_id}", daemon=True
        )

    def start(self, timeout: float) -> str:
        """Start it and return its bootstrap address once it serves; raises what kept it from that.

        TimeoutError if it does not serve in time, and goes on with its start; CancelledError if it was asked
        to end meanwhile.
        """
        self._thread.start()
        end_at_exit(self)
        return self._ready.result(timeout)

    def stop(self) -> None:
        """Stop it cleanly; raises what has ended it before. Stopping twice is harmless."""
        self.ask_to_end()
        self._ended.result()

    def ask_to_end(self) -> None:
        """Have it stop, and do not wait for it."""
        if not self._ended.done():
            with suppress(RuntimeError):  # The loop is closed: it is about to say so.
                self._loop.call_soon_threadsafe(self._process.stop)

    def wait_until_ended(self, timeout: float) -> None:
        """Wait for its end, whatever that was."""
        wait([self._ended], timeout)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._process.run(self._ready.set_result))
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits for us
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        self._loop.close()
        if error is None:
            self._ended.set_result(None)
            self._ready.cancel()  # Whoever waits for its start would wait for ever; else it is done.
        elif self._ready.done():
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)
            self._ready.set_exception(error)


def _configure_logging() -> None:
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )


class _Process:
    """The parts of a running node that are not the broker's: loop, locks, sockets."""

    def __init__(
        self, settings: BrokerSettings, loop: asyncio.AbstractEventLoop, wakeful: Wakeful | None = None
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._wakeful = wakeful
        self._stop = asyncio.Event()
        self._bug: BaseException | None = None
        self._disk_failed = False

    def stop(self) -> None:
        """Have `run` come to its end."""
        self._stop.set()

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
        locks = _locked(files, settings.log_dirs)
        try:
            links = self._make_links()
            node = Node(settings, files, clock, SystemRandom(), aside, alarm, links or NO_LINKS)
            if links is not None:
                links.settle = node.settle
            server = Server(
                self._loop, clock, _limits(settings), node.open_session, node.settle, self._wakeful
            )
            node.on_failed = self._ended_by_disk
            node.on_settings_changed = lambda changed: server.change_limits(_limits(changed))
            for listener in settings.controller_listeners:
                await server.listen(listener.name, listener.host, listener.port)
            bound = await self._bind(server)
            # Voters elect each other before anybody can serve clients.
            await server.serve(listener.name for listener in settings.controller_listeners)
            alarm.wakes(node.tick)
            if await self._start(node, bound):
                node.tick(clock.now())
                await server.serve(listener.name for listener in settings.broker_listeners)
                on_ready(_bootstrap(bound or settings.controller_listeners))
                await self._stop.wait()
                if not self._disk_failed:
                    await self._leave(node)
            await server.close()
            alarm.stop()
            if links is not None:
                links.close()
                await links.wait_closed()
            aside.close()
            # What the last jobs have done is taken in while the logs are open.
            await asyncio.sleep(0)
            node.close()
        finally:
            for lock in locks:
                lock.release()
        if self._bug is not None:
            raise self._bug

    def _make_links(self) -> "RealLinks | None":
        """The way to other nodes; None for a node that is a cluster of its own."""
        if self._settings.is_controller and not self._settings.controller_listeners:
            return None
        # A node alone is to serve a fraction of a second after its start, and does without.
        from everlog.edge.links import RealLinks

        return RealLinks(self._loop)

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

    async def _start(self, node: Node, bound: list[Listener]) -> bool:
        """Have the node join its cluster; False if it was told to stop before it had."""
        started: asyncio.Future[None] = self._loop.create_future()

        def done(error: Exception | None) -> None:
            if started.done():
                return
            if error is None:
                started.set_result(None)
            else:
                started.set_exception(error)

        node.start(bound, done)
        stopped = self._loop.create_task(self._stop.wait())
        try:
            await asyncio.wait((started, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not started.done():
                return False
            await started
            return True
        finally:
            stopped.cancel()

    async def _leave(self, node: Node) -> None:
        """Let other brokers lead what this one led, before its connections close."""
        left: asyncio.Future[None] = self._loop.create_future()
        node.leave(lambda: None if left.done() else left.set_result(None))
        try:
            await asyncio.wait_for(left, _LEAVE_SECONDS)
        except TimeoutError:
            _log.warning("the others did not take over within %d s; going without", _LEAVE_SECONDS)

    def _ended_by_disk(self, error: StorageError) -> None:
        # It cannot be counted on for anything any more. The others notice at once that it is gone.
        self._disk_failed = True
        self._bug = error
        self._stop.set()

    def _ended_by_bug(self, error: BaseException) -> None:
        self._bug = error
        self._stop.set()


def _locked(files: RealFiles, directories: Iterable[str]) -> list[DirectoryLock]:
    """Take hold of the directories; the node finds out by itself which of them its disks have failed."""
    locks: list[DirectoryLock] = []
    for directory in directories:
        try:
            make_dir_durably(files, directory)
            locks.append(DirectoryLock(directory))
        except OSError as error:
            _log.error("the log directory %s cannot be locked: %s", directory, error)
    return locks


def _bootstrap(listeners: Iterable[Listener]) -> str:
    return ",".join(f"{_bracketed(one.host)}:{one.port}" for one in listeners)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _limits(settings: BrokerSettings) -> Limits:
    return Limits(
        max_frame_bytes=settings[keys.SOCKET_REQUEST_MAX_BYTES],
        max_connections=settings[keys.MAX_CONNECTIONS],
        max_connections_per_host=settings[keys.MAX_CONNECTIONS_PER_IP],
        connections_of_hosts=counts_by_address(settings[keys.MAX_CONNECTIONS_PER_IP_OVERRIDES]),
        max_request_memory_bytes=settings[keys.QUEUED_MAX_REQUEST_BYTES],
        max_unsent_bytes=settings[keys.CONNECTIONS_MAX_UNREAD_BYTES],
        stalled_peer_ms=settings[keys.CONNECTIONS_MAX_UNREAD_MS],
        idle_ms=settings[keys.CONNECTIONS_MAX_IDLE_MS],
        first_byte_ms=settings[keys.CONNECTIONS_FIRST_BYTE_MS],
        frame_grace_ms=settings[keys.REQUEST_READ_TIMEOUT_MS],
        frame_bytes_per_second=settings[keys.REQUEST_READ_MIN_BYTES_PER_SECOND],
        send_buffer_bytes=settings[keys.SOCKET_SEND_BUFFER_BYTES],
        receive_buffer_bytes=settings[keys.SOCKET_RECEIVE_BUFFER_BYTES],
        backlog=settings[keys.SOCKET_LISTEN_BACKLOG_SIZE],
    )
