"""A broker of a test module's own, which can be killed and started again on the same port and data."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests import apache_kafka, brokers

SETTINGS = {
    # Groups that assemble and notice a death at once; what is tested here is not the length of the waits.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Many a test writes records with times of its own choice: none goes for its age while a session lasts.
    "log.retention.check.interval.ms": "86400000",
    # One broker has no second replica, and fewer partitions are made faster.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
}


class Target(Protocol):
    """The broker under test."""

    bootstrap: str

    def kill(self) -> None:
        """End it as `kill -9` does."""
        ...

    def start(self) -> None:
        """Start it (again) and return once it serves."""
        ...

    def stop(self) -> None:
        """End it cleanly, if it runs."""
        ...

    def pause(self) -> None:
        """Freeze it, as a machine that swaps does; connections stay open."""
        ...

    def resume(self) -> None:
        """Let it go on, if it is paused."""
        ...


class Everlog:
    """Everlog by its command line."""

    def __init__(self, directory: Path, overrides: Mapping[str, str] = SETTINGS) -> None:
        self._directory = directory
        self.errors = directory / "stderr"
        self._port = brokers.free_port()
        self._flags = [flag for pair in overrides.items() for flag in ("--override", "=".join(pair))]
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._broker: brokers.BrokerProcess | None = None

    def start(self) -> None:
        place = ["--dir", str(self._directory / "data"), "--port", str(self._port)]
        self._broker = brokers.start(["up", *place, *self._flags], self.errors)

    def kill(self) -> None:
        assert self._broker is not None
        self._broker.kill()

    def stop(self) -> None:
        if self._broker is not None and self._broker.process.poll() is None:
            self._broker.stop()

    def pause(self) -> None:
        assert self._broker is not None
        _freeze(self._broker.process)

    def resume(self) -> None:
        if self._broker is not None and self._broker.process.poll() is None:
            self._broker.process.send_signal(signal.SIGCONT)


class ApacheKafka:
    """Apache Kafka, which tells whether a failing test or Everlog is wrong."""

    def __init__(
        self,
        directory: Path,
        overrides: Mapping[str, str] = SETTINGS,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self._features = features
        self._directory = directory / "data"
        self._overrides = overrides
        self._port = brokers.free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = apache_kafka.start_broker(
            self._port, self._directory, self._overrides, features=self._features
        )
        apache_kafka.wait_ready(self._process, self._directory)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    def pause(self) -> None:
        assert self._process is not None
        _freeze(self._process)

    def resume(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)


def _freeze(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """Stop a process, and return once all of its threads have: one that runs may answer until then."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
