"""A broker process that can be killed, stopped, paused, and started again where it was."""

import signal
import subprocess
from pathlib import Path
from typing import Protocol

from tests import apache_kafka, brokers

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "400",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
}
SESSION_MS = 2_000
"""As in the settings above; members of classic groups ask for the same."""


class Target(Protocol):
    """A broker under test, at one address in all its lives."""

    bootstrap: str

    def start(self) -> None:
        """Start it and return when it serves."""
        ...

    def kill(self) -> None:
        """End it by SIGKILL."""
        ...

    def stop(self) -> None:
        """End it cleanly."""
        ...

    def pause(self, on: bool) -> None:
        """SIGSTOP, or SIGCONT."""
        ...


class Everlog:
    """An `everlog` process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = brokers.free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._broker: brokers.BrokerProcess | None = None

    def start(self) -> None:
        flags = ["up", "--dir", str(self._directory / "data"), "--port", str(self._port)]
        for key, value in SETTINGS.items():
            flags += ["--override", f"{key}={value}"]
        self._broker = brokers.start(flags, self._directory / "stderr")

    def kill(self) -> None:
        if self._broker is not None:
            self._broker.kill()

    def stop(self) -> None:
        assert self._broker is not None
        code = self._broker.stop()
        assert code == 0, f"a clean stop ended with {code}:\n{self._broker.errors[-2000:]}"

    def pause(self, on: bool) -> None:
        assert self._broker is not None
        self._broker.process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)


class Apache:
    """An Apache Kafka process."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        self._port = brokers.free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = apache_kafka.start_broker(self._port, self._data, SETTINGS)
        apache_kafka.wait_ready(self._process, self._data)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(60)

    def pause(self, on: bool) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)
