"""Three brokers as processes: Everlog's, or with `--broker apache` those of Apache Kafka."""

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

import everlog
from everlog.embedded.brokers import ProcessBroker
from tests import apache_kafka
from tests.apache_cluster import ApacheCluster

_PATIENCE_S = 60.0


class Trio(Protocol):
    """Brokers 1, 2 and 3, of which any may be stopped."""

    @property
    def bootstrap(self) -> str: ...

    def stop(self, node: int) -> None:
        """End a broker cleanly."""
        ...

    def kill(self, node: int) -> None:
        """End a broker as `kill -9` does."""
        ...

    def revive(self, node: int) -> None:
        """Start a broker that has ended, and return once it serves."""
        ...


class EverlogTrio:
    """Everlog's brokers."""

    def __init__(self, cluster: everlog.Cluster) -> None:
        self._cluster = cluster
        self.bootstrap = cluster.bootstrap_servers

    def stop(self, node: int) -> None:
        self._broker(node).stop()

    def kill(self, node: int) -> None:
        self._broker(node).kill()

    def revive(self, node: int) -> None:
        self._broker(node).start()

    def _broker(self, node: int) -> ProcessBroker:
        found = next(broker for broker in self._cluster.brokers if broker.node_id == node)
        assert isinstance(found, ProcessBroker)
        return found


@contextmanager
def open_trio(config: pytest.Config, directory: Path, settings: Mapping[str, str]) -> Generator[Trio]:
    """Three brokers; `settings` are for ours, Apache Kafka's has what `tests.apache_cluster` says."""
    if config.getoption("--broker") == "apache":
        if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
            pytest.skip(jars.reason)
        with ApacheCluster(directory, disks=2) as apache:
            yield apache
        return
    with everlog.Cluster(
        brokers=3, processes=True, directory=directory, settings=settings, disks=2
    ) as cluster:
        _wait_until_one(cluster)
        yield EverlogTrio(cluster)


@pytest.fixture(scope="module")
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Trio]:
    """Three brokers for the tests of a module."""
    with open_trio(request.config, tmp_path_factory.mktemp("trio"), {}) as trio:
        yield trio


def _wait_until_one(cluster: everlog.Cluster) -> None:
    """Return once every broker tells of all of them: news of the last one may be on its way."""
    deadline = time.monotonic() + _PATIENCE_S
    for broker in cluster.brokers:
        with everlog.Admin(broker.bootstrap) as admin:
            while len(admin.describe_cluster().brokers) != len(cluster.brokers):
                assert time.monotonic() < deadline, f"broker {broker.node_id} does not know all of the others"
                time.sleep(0.05)
