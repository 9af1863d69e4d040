"""`everlog.Cluster`: brokers for as long as a test or a notebook needs them."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from everlog.embedded.brokers import BrokerFailed, EmbeddedBroker, ProcessBroker, ThreadBroker
from everlog.embedded.layout import Layout
from everlog.model.errors import ConfigError

_HOST = "127.0.0.1"
_GIVE_UP_S = 0.02
"""How often those that are still starting are told to give up, when another has failed."""


class Cluster:
    """Brokers on free ports of this machine, with data in a directory that goes when they do.

    `processes` makes each broker a child process, which can be killed and paused; without it they run on
    threads of this process and start in a fraction of the time. `directory` keeps the data instead.
    `settings` are those of the brokers by Kafka's names, `disks` how many log directories each has, `racks`
    where each stands, in the order of their ids.

    Three brokers or more hold three copies of what is written, and acknowledge it (`acks=all`) once two have
    it: one may be away. Give `default.replication.factor` and `min.insync.replicas` to have it otherwise.

    >>> with Cluster() as cluster:
    ...     with everlog.Producer(cluster.bootstrap_servers) as producer:
    ...         producer.send("orders", b"…")
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        processes: bool = False,
        directory: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
        disks: int = 1,
        racks: Sequence[str] = (),
    ) -> None:
        if brokers < 1:
            raise ConfigError(f"brokers={brokers}: expected 1 or more")
        self._count = brokers
        self._directory = None if directory is None else Path(directory)
        self._processes = processes
        self._settings = {key: _text(value) for key, value in (settings or {}).items()}
        self._port = port
        if disks < 1:
            raise ConfigError(f"disks={disks}: expected 1 or more")
        self._disks = disks
        if racks and len(racks) != brokers:
            raise ConfigError(f"racks={list(racks)}: expected one for each of {brokers} brokers")
        self._racks = tuple(racks)
        self._temporary: TemporaryDirectory[str] | None = None
        self._majority = 1
        self.brokers: list[EmbeddedBroker] = []
        """The brokers, to stop, start, kill and pause; empty before `start` and after `stop`."""

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find the cluster."""
        if not self.brokers:
            raise BrokerFailed("this cluster is not running: use it in a `with` block, or call start()")
        return ",".join(broker.bootstrap for broker in self.brokers)

    def start(self) -> Self:
        """Start every broker and return once all of them serve; in a `with` block this has happened."""
        if self.brokers:
            return self
        if self._directory is None:
            self._temporary = TemporaryDirectory(prefix="everlog-", ignore_cleanup_errors=True)
        home = Path(self._temporary.name) if self._temporary is not None else self._directory
        assert home is not None
        make = ProcessBroker if self._processes else ThreadBroker
        try:
            planned, self._majority = self._plan(home)
            if self._disks > 1:
                planned = [_on_disks(settings, self._disks) for settings in planned]
            for settings, rack in zip(planned, self._racks, strict=False):
                settings["broker.rack"] = rack
            self.brokers = [make(settings) for settings in planned]
            start_all(self.brokers)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop every broker cleanly and remove what was temporary. Stopping twice is harmless."""
        brokers, self.brokers = self.brokers, []
        try:
            stop_all(brokers, self._majority)
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()
                self._temporary = None

    def _plan(self, home: Path) -> tuple[list[dict[str, str]], int]:
        """What each broker is told, and how many of them make a majority of the voters."""
        if self._count == 1 and Layout.found(home) is None:
            return [_alone(home, self._port, self._settings)], 1
        layout = Layout.planned(home, self._count, self._port)
        planned = [layout.settings(one, home, _HOST, self._settings) for one in layout.brokers]
        home.mkdir(parents=True, exist_ok=True)
        layout.keep(home)
        return planned, layout.majority

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_all(brokers: Sequence[EmbeddedBroker]) -> None:
    """Start brokers at the same time, as none serves before most do; raises what kept one from it."""
    if len(brokers) == 1:
        brokers[0].start()
        return
    outcomes: SimpleQueue[Exception | None] = SimpleQueue()

    def start(broker: EmbeddedBroker) -> None:
        try:
            broker.start()
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits for us
            outcomes.put(error)
        else:
            outcomes.put(None)

    starts = [
        threading.Thread(target=start, args=(broker,), name="everlog-start", daemon=True)
        for broker in brokers
    ]
    try:
        for each in starts:
            each.start()
        for _ in brokers:
            if (error := outcomes.get()) is not None:
                raise error
    except BaseException:
        # The others may wait for a majority that never comes, and some may not have begun yet.
        while left := [each for each in starts if each.is_alive()]:
            for broker in brokers:
                broker.give_up()
            left[0].join(_GIVE_UP_S)
        raise


def stop_all(brokers: Sequence[EmbeddedBroker], majority: int) -> None:
    """Stop brokers one after the other, each handing over what it leads to those that are left.

    The last ones go together: nobody is left to take over, nor a majority to decide that.
    """
    running = [broker for broker in reversed(brokers) if broker.is_running]
    ending = len(running) - max(majority - 1, 1)
    try:
        for broker in running[: max(0, ending)]:
            broker.stop()
    finally:
        last = [broker for broker in running if broker.is_running]
        if last:
            with ThreadPoolExecutor(len(last)) as pool:
                for stopped in [pool.submit(broker.stop) for broker in last]:
                    stopped.result()


def _alone(home: Path, port: int, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{_HOST}:{port}",
        "advertised.listeners": f"PLAINTEXT://{_HOST}:{port}",
        "log.dirs": str(home.absolute()),
        **settings,
    }


def _on_disks(settings: Mapping[str, str], disks: int) -> dict[str, str]:
    """The same with so many log directories, as on a machine with so many disks."""
    home = settings["log.dirs"]
    return {**settings, "log.dirs": ",".join(f"{home}/disk-{number + 1}" for number in range(disks))}


def _text(value: object) -> str:
    """A setting's value as a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
