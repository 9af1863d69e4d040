"""`everlog.Cluster`: brokers for as long as a test or a notebook needs them."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from everlog.embedded.brokers import BrokerFailed, EmbeddedBroker, ProcessBroker, ThreadBroker
from everlog.model.errors import ConfigError

_MAX_BROKERS = 1


class Cluster:
    """Brokers on free ports of this machine, with data in a directory that goes when they do.

    `processes` makes each broker a child process, which can be killed and paused; without it they run on
    threads of this process and start in a fraction of the time. `directory` keeps the data instead.
    `settings` are those of the broker by Kafka's names.

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
    ) -> None:
        if brokers != _MAX_BROKERS:
            raise ConfigError(f"brokers={brokers}: expected 1; clusters of brokers come with a later release")
        self._directory = None if directory is None else Path(directory)
        self._processes = processes
        self._settings = {key: _text(value) for key, value in (settings or {}).items()}
        self._port = port
        self._temporary: TemporaryDirectory[str] | None = None
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
        self.brokers = [make(1, home, self._port, self._settings)]
        try:
            for broker in self.brokers:
                broker.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop every broker cleanly and remove what was temporary. Stopping twice is harmless."""
        brokers, self.brokers = self.brokers, []
        try:
            for broker in brokers:
                broker.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()
                self._temporary = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _text(value: object) -> str:
    """A setting's value as a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
