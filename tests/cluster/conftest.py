"""Three brokers as processes: Everlog's, or with `--broker apache` those of Apache Kafka."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

import everlog
from everlog.embedded.brokers import ProcessBroker
from everlog.embedded.layout import home_of
from tests import apache_cluster, apache_kafka
from tests.apache_cluster import ApacheCluster

_PATIENCE_S = 60.0


class Trio(Protocol):
    """Brokers 1, 2 and 3, of which any may be stopped."""

    @property
    def bootstrap(self) -> str: ...

    def address(self, node: int) -> str:
        """Where one broker listens."""
        ...

    def directories(self, node: int) -> Sequence[Path]:
        """Where a broker keeps its logs."""
        ...

    def stop(self, node: int) -> None:
        """End a broker cleanly."""
        ...

    def kill(self, node: int) -> None:
        """End a broker as `kill -9` does."""
        ...

    def revive(self, node: int) -> None:
        """Start a broker that has ended, and return once it serves."""
        ...

    def pause(self, node: int) -> None:
        """Freeze a broker: its connections stay open and nothing is answered."""
        ...

    def resume(self, node: int) -> None:
        """Let a broker go on after `pause`."""
        ...


class EverlogTrio:
    """Everlog's brokers."""

    def __init__(self, cluster: everlog.Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self.bootstrap = cluster.bootstrap_servers

    def address(self, node: int) -> str:
        return self._broker(node).bootstrap

    def directories(self, node: int) -> Sequence[Path]:
        return sorted({path.parent for path in home_of(self._directory, node).rglob("meta.properties")})

    def stop(self, node: int) -> None:
        self._broker(node).stop()

    def kill(self, node: int) -> None:
        self._broker(node).kill()

    def revive(self, node: int) -> None:
        self._broker(node).start()

    def pause(self, node: int) -> None:
        self._broker(node).pause()

    def resume(self, node: int) -> None:
        self._broker(node).resume()

    def _broker(self, node: int) -> ProcessBroker:
        found = next(broker for broker in self._cluster.brokers if broker.node_id == node)
        assert isinstance(found, ProcessBroker)
        return found


@contextmanager
def open_trio(
    config: pytest.Config, directory: Path, settings: Mapping[str, str], racks: Sequence[str] = ()
) -> Generator[Trio]:
    """Three brokers; Apache Kafka's have what `tests.apache_cluster` says beside the settings."""
    if config.getoption("--broker") == "apache":
        if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
            pytest.skip(jars.reason)
        overrides = {**apache_cluster.SETTINGS, **settings}
        with ApacheCluster(directory, racks or (None, None, None), overrides, disks=2) as apache:
            yield apache
        return
    with everlog.Cluster(
        brokers=3, processes=True, directory=directory, settings=settings, disks=2, racks=racks
    ) as cluster:
        _wait_until_one(cluster)
        yield EverlogTrio(cluster, directory)


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
