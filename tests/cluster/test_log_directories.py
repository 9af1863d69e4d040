"""Brokers with two log directories each, as processes: a replica moves under load, and a directory fails."""

import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import everlog
from everlog.admin import NewTopic, Replica, TopicPartition
from everlog.embedded.brokers import EmbeddedBroker

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("log-directories")]

PATIENCE_S = 60.0
TOPIC = "orders"
PLACE = TopicPartition(TOPIC, 0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[everlog.Cluster]:
    home = tmp_path_factory.mktemp("disks")
    with everlog.Cluster(brokers=3, processes=True, directory=home, disks=2) as cluster:
        with everlog.Admin(cluster.bootstrap_servers) as admin:
            until(lambda: len(admin.describe_cluster().brokers) == 3)
            admin.create_topics([NewTopic(TOPIC, assignments={0: [1, 2, 3]})])
        yield cluster


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def where(admin: everlog.Admin, broker: int) -> str:
    """The directory in which a broker's replica lies."""
    (path,) = [
        entry.path
        for entry in admin.describe_log_dirs([broker], [PLACE])
        if PLACE in entry.partition_bytes and PLACE not in entry.moving_in
    ]
    return path


class Load:
    """A producer that writes numbers, one after the other, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.acknowledged: list[bytes] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with everlog.Producer(self._bootstrap, acks="all") as producer:
            number = 0
            while not self._stop.is_set():
                value = b"%d" % number
                producer.send(TOPIC, value, partition=0).result()
                self.acknowledged.append(value)
                number += 1

    def go_on(self, count: int) -> None:
        """Return once so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= wanted)


def read_all(bootstrap: str, count: int) -> list[bytes | None]:
    with everlog.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([PLACE])
        read: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(read) < count:
            assert time.monotonic() < deadline, len(read)
            read += [record.value for record in consumer.poll(1.0)]
        return read


def broker_of(cluster: everlog.Cluster, node: int) -> EmbeddedBroker:
    return next(broker for broker in cluster.brokers if broker.node_id == node)


def test_a_leader_moves_under_load_and_then_loses_its_disk(cluster: everlog.Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    with everlog.Admin(bootstrap) as admin, Load(bootstrap) as load:
        load.go_on(50)
        leader = admin.describe_topics([TOPIC])[TOPIC].partitions[0].leader
        before = where(admin, leader)
        # Not the directory of the metadata log, which no broker does without.
        target = next(
            entry.path for entry in admin.describe_log_dirs([leader]) if entry.path.endswith("disk-2")
        )
        if before == target:
            other = next(entry.path for entry in admin.describe_log_dirs([leader]) if entry.path != target)
            admin.alter_replica_log_dirs({Replica(PLACE, leader): other})
            until(lambda: where(admin, leader) == other)
        admin.alter_replica_log_dirs({Replica(PLACE, leader): target})
        until(lambda: where(admin, leader) == target)
        assert admin.describe_topics([TOPIC])[TOPIC].partitions[0].leader == leader
        load.go_on(50)

        # The disk goes: there is something else where it was.
        lost = Path(target)
        kept = lost.rename(lost.with_name("kept"))
        lost.write_bytes(b"no directory")

        def led_by_another() -> bool:
            partition = admin.describe_topics([TOPIC])[TOPIC].partitions[0]
            return partition.leader not in {-1, leader} and leader not in partition.isr

        until(led_by_another)
        assert admin.describe_topics([TOPIC])[TOPIC].partitions[0].offline == (leader,)
        assert broker_of(cluster, leader).is_running
        failed = [entry.path for entry in admin.describe_log_dirs([leader]) if entry.error is not None]
        assert failed == [target]
        load.go_on(50)

        lost.unlink()
        kept.rename(lost)
        broker_of(cluster, leader).stop()
        broker_of(cluster, leader).start()
        until(lambda: leader in admin.describe_topics([TOPIC])[TOPIC].partitions[0].isr)
        assert where(admin, leader) == target
        load.go_on(50)
    acknowledged = load.acknowledged
    assert read_all(bootstrap, len(acknowledged)) == acknowledged
