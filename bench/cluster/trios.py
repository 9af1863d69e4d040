"""The two clusters as processes: three brokers each, any of which can be killed and started again."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests import apache_kafka
from tests.apache_cluster import SETTINGS, ApacheCluster

from bench.brokers import ALIKE, EVERLOG, KAFKA, Kind
from bench.machine import process_cpu_s, status_mb
from everlog import Admin, Cluster
from everlog.embedded.brokers import ProcessBroker

NODES = (1, 2, 3)
PATIENCE_S = 120.0

# On both: leads stay where they are put, and whoever is killed comes back to a group at once.
_ALIKE = {
    **ALIKE,
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class Processes(Protocol):
    """What the two clusters do in their own ways."""

    def pid(self, node: int) -> int:
        """The process of a broker that runs."""
        ...

    def port(self, node: int) -> int:
        """Where clients find a broker; the same after a restart."""
        ...

    def kill(self, node: int) -> None:
        """End a broker with SIGKILL; return once it is gone."""
        ...

    def start(self, node: int) -> None:
        """Start a broker that was killed; return once it serves."""
        ...

    def close(self) -> None:
        """End all."""
        ...


class Trio:
    """A running cluster; a context manager that ends its processes and removes its data."""

    def __init__(self, kind: Kind, directory: Path) -> None:
        """Start three brokers with data in a directory that is not there yet."""
        directory.mkdir(parents=True)
        self.kind = kind
        self._directory = directory
        self._processes: Processes = _MAKERS[kind.name](directory)

    @property
    def bootstrap(self) -> str:
        """Where clients find the cluster."""
        return ",".join(f"127.0.0.1:{self.port(node)}" for node in NODES)

    @property
    def pids(self) -> list[int]:
        """The brokers' processes."""
        return [self._processes.pid(node) for node in NODES]

    def port(self, node: int) -> int:
        """Where a broker serves clients."""
        return self._processes.port(node)

    def cpu_s(self) -> float:
        """CPU seconds that the three have used since they were started."""
        return sum(process_cpu_s(pid) for pid in self.pids)

    def rss_mb(self) -> float:
        """Resident memory of the three now."""
        return sum(status_mb(pid, "VmRSS") for pid in self.pids)

    def kill(self, node: int) -> None:
        """`kill -9`."""
        self._processes.kill(node)

    def start(self, node: int) -> None:
        """Start a broker that was killed."""
        self._processes.start(node)

    def wait_in_sync(self, topic: str) -> None:
        """Return once all three brokers are in sync for every partition of a topic."""
        with Admin(self.bootstrap) as admin:
            wait_until(
                f"{topic} in sync on {self.kind.title}",
                lambda: all(
                    set(one.isr) == set(NODES)
                    for one in admin.describe_topics([topic])[topic].partitions.values()
                ),
            )

    def __enter__(self) -> "Trio":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._processes.close()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    """Ask until it holds; TimeoutError if it does not for two minutes."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.05)


class _Everlog:
    def __init__(self, directory: Path) -> None:
        self._cluster = Cluster(brokers=3, processes=True, directory=directory / "data", settings=_ALIKE)
        self._cluster.start()
        self._brokers: dict[int, ProcessBroker] = {}
        for broker in self._cluster.brokers:
            assert isinstance(broker, ProcessBroker)
            self._brokers[broker.node_id] = broker

    def pid(self, node: int) -> int:
        pid = self._brokers[node].pid
        if pid is None:
            raise RuntimeError(f"broker {node} of Everlog has ended by itself")
        return pid

    def port(self, node: int) -> int:
        return int(self._brokers[node].bootstrap.rpartition(":")[2])

    def kill(self, node: int) -> None:
        self._brokers[node].kill()

    def start(self, node: int) -> None:
        self._brokers[node].start()

    def close(self) -> None:
        self._cluster.stop()


class _Kafka:
    def __init__(self, directory: Path) -> None:
        # With the flags of Kafka's own start script, not those of our tests.
        self._cluster = ApacheCluster(
            directory, overrides={**SETTINGS, **_ALIKE}, flags=apache_kafka.default_flags()
        )
        try:
            self._cluster.start()
        except BaseException:
            self.close()
            raise

    def pid(self, node: int) -> int:
        process = self._cluster.processes[node]
        if process.poll() is not None:
            raise RuntimeError(f"broker {node} of Apache Kafka has ended by itself")
        return process.pid

    def port(self, node: int) -> int:
        return self._cluster.port(node)

    def kill(self, node: int) -> None:
        self._cluster.kill(node)

    def start(self, node: int) -> None:
        self._cluster.launch(node)
        self._cluster.wait(node)

    def close(self) -> None:
        # Nothing of its data is kept: no need to wait for a clean end.
        for process in self._cluster.processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()


_MAKERS: dict[str, Callable[[Path], Processes]] = {EVERLOG.name: _Everlog, KAFKA.name: _Kafka}
