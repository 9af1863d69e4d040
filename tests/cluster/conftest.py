"""Three brokers as processes: Everlog's, or with `--broker apache` those of Apache Kafka."""

from collections.abc import Generator
from pathlib import Path
from typing import Protocol

import pytest

import everlog
from everlog.embedded.brokers import ProcessBroker
from tests import apache_kafka
from tests.apache_cluster import ApacheCluster


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


class EverlogTrio:
    """Everlog's brokers."""

    def __init__(self, cluster: everlog.Cluster) -> None:
        self._cluster = cluster
        self.bootstrap = cluster.bootstrap_servers

    def stop(self, node: int) -> None:
        self._broker(node).stop()

    def kill(self, node: int) -> None:
        self._broker(node).kill()

    def _broker(self, node: int) -> ProcessBroker:
        found = next(broker for broker in self._cluster.brokers if broker.node_id == node)
        assert isinstance(found, ProcessBroker)
        return found


@pytest.fixture(scope="module")
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Trio]:
    """Three brokers for the tests of a module."""
    directory: Path = tmp_path_factory.mktemp("trio")
    if request.config.getoption("--broker") == "apache":
        if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
            pytest.skip(jars.reason)
        with ApacheCluster(directory, disks=2) as apache:
            yield apache
        return
    with everlog.Cluster(brokers=3, processes=True, directory=directory) as cluster:
        _skip_unless_one(cluster)
        yield EverlogTrio(cluster)


@pytest.fixture(scope="module")
def needs_clusters() -> None:
    """Skip where three nodes of Everlog do not make one cluster yet."""
    with everlog.Cluster(brokers=3, processes=True) as cluster:
        _skip_unless_one(cluster)


def _skip_unless_one(cluster: everlog.Cluster) -> None:
    with everlog.Admin(cluster.bootstrap_servers) as admin:
        if len(admin.describe_cluster().brokers) != len(cluster.brokers):
            pytest.skip("three nodes of Everlog do not make one cluster yet: --broker apache")
