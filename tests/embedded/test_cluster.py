"""`everlog.Cluster`: brokers for tests and notebooks, with the ways in which they can fail."""

import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

import everlog
from everlog import Admin, Cluster, ConfigError, Consumer, Producer, TopicPartition
from everlog.embedded.brokers import BrokerFailed, EmbeddedBroker, ProcessBroker
from tests import brokers

pytestmark = pytest.mark.e2e

both_kinds = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """The values of the first records of a topic's first partition."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes | None] = []
        for record in consumer:
            values.append(record.value)
            if len(values) == count:
                return values
    raise AssertionError(values)


@both_kinds
def test_a_cluster_serves_and_leaves_nothing_behind(processes: bool) -> None:
    threads = set(threading.enumerate())
    with Cluster(processes=processes) as cluster:
        bootstrap = cluster.bootstrap_servers
        with Admin(bootstrap) as admin:
            (found,) = admin.describe_log_dirs()
        assert (Path(found.path) / "meta.properties").exists()
        with Producer(bootstrap) as producer:
            producer.send("orders", b"one").result(30)
        assert read(bootstrap, "orders", 1) == [b"one"]

    assert not cluster.brokers
    assert not Path(found.path).exists()
    with Producer(bootstrap, max_block_ms=300) as producer, pytest.raises(everlog.EverlogError):
        producer.send("orders", b"two").result(5)
    with pytest.raises(BrokerFailed, match="not running"):
        assert cluster.bootstrap_servers
    for thread in set(threading.enumerate()) - threads:
        thread.join(10)  # Those that read what a process says see its end a moment later.
    assert set(threading.enumerate()) <= threads


@both_kinds
def test_a_broker_that_stops_and_starts_has_its_address_and_its_records(processes: bool) -> None:
    with Cluster(processes=processes) as cluster:
        (broker,) = cluster.brokers
        bootstrap = cluster.bootstrap_servers
        with Producer(bootstrap) as producer:
            producer.send("orders", b"one").result(30)
            broker.stop()
            assert not broker.is_running
            broker.start()
            producer.send("orders", b"two").result(60)

        assert cluster.bootstrap_servers == bootstrap
        assert read(bootstrap, "orders", 2) == [b"one", b"two"]


def test_a_killed_broker_has_what_it_acknowledged() -> None:
    with Cluster(processes=True) as cluster:
        (broker,) = cluster.brokers
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("orders", b"one").result(30)
            broker.kill()
            broker.start()
            producer.send("orders", b"two").result(60)

        assert read(cluster.bootstrap_servers, "orders", 2) == [b"one", b"two"]


def test_a_paused_broker_answers_when_it_goes_on() -> None:
    with Cluster(processes=True) as cluster:
        (broker,) = cluster.brokers
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("orders", b"one").result(30)
            broker.pause()
            late = producer.send("orders", b"two")
            with pytest.raises(everlog.TimedOut):
                late.result(0.5)
            broker.resume()
            assert late.result(60).offset == 1


def test_a_stopped_broker_says_that_it_cannot_be_paused() -> None:
    with Cluster(processes=True) as cluster:
        cluster.brokers[0].stop()
        with pytest.raises(BrokerFailed, match="broker 1 is not running"):
            cluster.brokers[0].pause()


def test_a_broker_on_a_thread_says_what_it_needs_to_be_killed() -> None:
    with Cluster() as cluster:
        for control in (cluster.brokers[0].kill, cluster.brokers[0].pause, cluster.brokers[0].resume):
            with pytest.raises(BrokerFailed, match="processes=True"):
                control()


@both_kinds
def test_settings_reach_the_broker(processes: bool) -> None:
    with Cluster(
        processes=processes, settings={"num.partitions": 7, "auto.create.topics.enable": False}
    ) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic("orders")
            assert len(admin.describe_topics(["orders"])["orders"].partitions) == 7
        with (
            Producer(cluster.bootstrap_servers, max_block_ms=500) as producer,
            pytest.raises(everlog.EverlogError),
        ):
            producer.send("other", b"lost").result(10)


@both_kinds
def test_a_wrong_setting_is_named(processes: bool) -> None:
    with pytest.raises(everlog.EverlogError, match=r"log\.segment\.bytes is 'many'"):
        Cluster(processes=processes, settings={"log.segment.bytes": "many"}).start()


@pytest.mark.parametrize("count", [1, 2])
def test_a_port_of_ones_choice_is_the_first_brokers_and_those_behind_it_are_the_others(count: int) -> None:
    port = free_ports(count)
    with Cluster(brokers=count, port=port) as cluster:
        assert [one.bootstrap for one in cluster.brokers] == [
            f"127.0.0.1:{port + index}" for index in range(count)
        ]
        with Admin(f"127.0.0.1:{port}") as admin:
            assert admin.describe_cluster().cluster_id


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody uses."""
    while True:
        first = brokers.free_port()
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first


@both_kinds
def test_a_broker_that_cannot_start_leaves_none_of_the_others_running(processes: bool) -> None:
    threads = set(threading.enumerate())
    port = free_ports(3)
    with socket.create_server(("127.0.0.1", port + 1)):
        cluster = Cluster(brokers=3, port=port, processes=processes)
        with pytest.raises(BrokerFailed, match=r"broker 2 .*start"):
            cluster.start()

    assert not cluster.brokers
    assert_gone(set(threading.enumerate()) - threads)
    for number in (port, port + 2):
        socket.create_server(("127.0.0.1", number)).close()  # Nobody listens there any more.


@both_kinds
def test_a_broker_that_waits_for_the_others_in_vain_fails_in_time(
    processes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set(threading.enumerate())
    with Cluster(brokers=3, directory=tmp_path, processes=processes) as cluster:
        stopped = list(cluster.brokers)
    monkeypatch.setattr("everlog.embedded.brokers.START_TIMEOUT_S", 1.0)

    with pytest.raises(BrokerFailed, match="broker 1 did not start within 1 s"):
        stopped[0].start()
    assert not stopped[0].is_running
    assert_gone(set(threading.enumerate()) - threads)


def assert_gone(threads: set[threading.Thread]) -> None:
    """These end in a moment; those that read what a process says see its end a little late."""
    for thread in threads:
        thread.join(10)
    assert not [thread.name for thread in threads if thread.is_alive()]


def test_no_broker_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="brokers=0"):
        Cluster(brokers=0)


def test_racks_that_are_not_one_a_broker_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"racks=\['a', 'b'\]: expected one for each of 3 brokers"):
        Cluster(brokers=3, racks=["a", "b"])


def test_a_directory_is_kept_and_found_again(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path / "data") as cluster, Producer(cluster.bootstrap_servers) as producer:
        producer.send("orders", b"one").result(30)

    with Cluster(directory=tmp_path / "data", processes=True) as cluster:
        assert read(cluster.bootstrap_servers, "orders", 1) == [b"one"]


def test_a_cluster_of_three_that_stops_is_there_again_as_it_was(tmp_path: Path) -> None:
    with Cluster(brokers=3, directory=tmp_path / "data") as cluster:
        before = cluster.bootstrap_servers
        with Admin(before) as admin:
            admin.create_topic("kept", partitions=3)
        with Producer(before, acks="all") as producer:
            for number in range(30):
                producer.send("kept", b"%d" % number, partition=number % 3).result(60)

    with Cluster(brokers=3, directory=tmp_path / "data") as cluster:
        assert cluster.bootstrap_servers == before
        with Consumer(before, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("kept", index) for index in range(3)])
            seen: list[int] = []
            for record in consumer:
                seen.append(int(record.value or b""))
                if len(seen) == 30:
                    break
        assert sorted(seen) == [*range(30)]

    with pytest.raises(ConfigError, match="holds a cluster of 3 brokers"):
        Cluster(brokers=2, directory=tmp_path / "data").start()


def test_a_child_is_gone_after_a_failure_in_the_block() -> None:
    cluster = Cluster(processes=True)

    def fail() -> None:
        with cluster:
            seen.extend(cluster.brokers)
            raise ZeroDivisionError

    seen: list[EmbeddedBroker] = []
    with pytest.raises(ZeroDivisionError):
        fail()

    (broker,) = seen
    assert isinstance(broker, ProcessBroker)
    assert broker.pid is None
