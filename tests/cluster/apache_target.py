"""Apache Kafka as what is tormented, to see what the torment itself is worth."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.apache_cluster import ApacheCluster


class ApacheTarget:
    """A cluster of Apache Kafka with the face of `everlog.chaos.target.Target`."""

    def __init__(self, cluster: ApacheCluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def nodes(self) -> Sequence[int]:
        return list(self._cluster.processes)

    def pid(self, node: int) -> int | None:
        process = self._cluster.processes[node]
        return process.pid if process.poll() is None else None

    def start(self, node: int, environment: Mapping[str, str]) -> None:
        assert not environment, "Java does not take to other clocks"
        self._cluster.launch(node)
        self._cluster.wait(node)

    def stop(self, node: int) -> None:
        self._cluster.stop(node)

    def ballast(self, node: int) -> Path | None:
        return None

    def kill(self, node: int) -> None:
        self._cluster.kill(node)
