"""Three real brokers are one log: what is acknowledged is there whoever dies (R1, R2, R5, R7)."""

import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import everlog
from everlog import Admin, Cluster, Consumer, Producer, TopicPartition
from everlog.embedded.brokers import EmbeddedBroker

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("three-brokers"), pytest.mark.timeout(240)]

PATIENCE_S = 90.0

SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "auto.leader.rebalance.enable": False,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
RACKS = {1: "east", 2: "north", 3: "west"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("three") / "data"


@pytest.fixture(scope="module")
def cluster(home: Path) -> Generator[Cluster]:
    """One cluster for all tests; each leaves it with all three brokers in sync."""
    with Cluster(
        brokers=3, processes=True, directory=home, settings=SETTINGS, racks=tuple(RACKS.values())
    ) as made:
        yield made


def log_bytes(home: Path, node_id: int, topic: str) -> bytes:
    """What a broker has of a topic's first partition."""
    segments = sorted((home / f"broker-{node_id}" / f"{topic}-0").glob("*.log"))
    return b"".join(path.read_bytes() for path in segments)


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Ask until it holds; whoever changes it tells nobody."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.1)


def in_sync(cluster: Cluster, topic: str) -> set[int]:
    """The brokers that are in sync for every partition of a topic."""
    with Admin(cluster.bootstrap_servers) as admin:
        partitions = admin.describe_topics([topic])[topic].partitions.values()
    return set[int].intersection(*(set(one.isr) for one in partitions))


def wait_in_sync(cluster: Cluster, topic: str) -> None:
    eventually(f"three in sync for {topic}", lambda: in_sync(cluster, topic) == {1, 2, 3})


def leader_of(cluster: Cluster, topic: str, partition: int = 0) -> int:
    with Admin(cluster.bootstrap_servers) as admin:
        found = admin.describe_topics([topic])[topic].partitions[partition].leader
    assert found in (1, 2, 3)
    return found


def broker(cluster: Cluster, node_id: int) -> EmbeddedBroker:
    return next(one for one in cluster.brokers if one.node_id == node_id)


def polled(consumer: Consumer, count: int, patience_s: float = PATIENCE_S) -> list[bytes]:
    """The values of the next so many records at least, or what came in time."""
    values: list[bytes] = []
    deadline = time.monotonic() + patience_s
    while len(values) < count and time.monotonic() < deadline:
        values += [record.value or b"" for record in consumer.poll(0.5)]
    return values


def read(bootstrap: str, topic: str, partitions: int, count: int) -> list[bytes]:
    """The values of so many records, and all that is there behind them."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(places)
        return polled(consumer, count) + [record.value or b"" for record in consumer.poll(0.5)]


def test_every_broker_knows_all_brokers_and_one_active_controller(cluster: Cluster) -> None:
    for one in cluster.brokers:
        with Admin(one.bootstrap) as admin:
            assert {each.node_id for each in admin.describe_cluster().brokers} == {1, 2, 3}
            quorum = admin.describe_quorum()
            assert {voter.node_id for voter in quorum.voters} == {1, 2, 3}
            assert quorum.leader_id in {1, 2, 3}


def test_a_topic_made_at_any_broker_has_three_copies_and_serves_everywhere(cluster: Cluster) -> None:
    for number, one in enumerate(cluster.brokers):
        topic = f"made-at-{one.node_id}"
        with Admin(one.bootstrap) as admin:
            admin.create_topic(topic, partitions=3)
        # Written and read by way of the two others.
        writer, reader = (cluster.brokers[(number + step) % 3].bootstrap for step in (1, 2))
        with Producer(writer, acks="all") as producer:
            for index in range(3):
                producer.send(topic, b"%d" % index, partition=index).result(PATIENCE_S)
        assert sorted(read(reader, topic, 3, 3)) == [b"0", b"1", b"2"]
        wait_in_sync(cluster, topic)
        with Admin(one.bootstrap) as admin:
            partitions = admin.describe_topics([topic])[topic].partitions.values()
        assert {len(each.replicas) for each in partitions} == {3}
        assert {each.leader for each in partitions} == {1, 2, 3}


@pytest.mark.parametrize("victim", ["leader", "follower", "controller"])
def test_what_is_acknowledged_outlives_a_kill_and_the_broker_comes_back(
    cluster: Cluster, home: Path, victim: str
) -> None:
    topic = f"kill-{victim}"
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic)
    wait_in_sync(cluster, topic)
    leader = leader_of(cluster, topic)
    with Admin(cluster.bootstrap_servers) as admin:
        active = admin.describe_quorum().leader_id
    follower = next(one for one in (1, 2, 3) if one not in (leader, active))
    dead = broker(cluster, {"leader": leader, "follower": follower, "controller": active}[victim])

    with Producer(cluster.bootstrap_servers, acks="all") as producer:
        for index in range(100):
            producer.send(topic, b"%03d" % index).result(PATIENCE_S)
        dead.kill()
        late = [producer.send(topic, b"%03d" % index) for index in range(100, 200)]
        for delivery in late:
            delivery.result(PATIENCE_S)

    expected = [b"%03d" % index for index in range(200)]
    assert read(cluster.bootstrap_servers, topic, 1, 200) == expected
    assert dead.node_id not in in_sync(cluster, topic)
    dead.start()
    wait_in_sync(cluster, topic)
    # Whoever leads from here on has all, to the byte.
    assert len({log_bytes(home, one.node_id, topic) for one in cluster.brokers}) == 1


def test_a_group_and_its_offsets_go_on_without_their_coordinator(cluster: Cluster) -> None:
    topic = "grouped"
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic)
    with Producer(cluster.bootstrap_servers) as producer:
        for index in range(10):
            producer.send(topic, b"%d" % index).result(PATIENCE_S)
    seen: list[bytes] = []
    with Consumer(
        cluster.bootstrap_servers, group_id="g", topics=[topic], auto_offset_reset="earliest"
    ) as consumer:
        deadline = time.monotonic() + PATIENCE_S
        while len(seen) < 10 and time.monotonic() < deadline:
            seen += [record.value or b"" for record in consumer.poll(1)]
        consumer.commit()
    with Admin(cluster.bootstrap_servers) as admin:
        coordinator = admin.describe_groups(["g"])["g"].coordinator
    assert coordinator is not None
    dead = broker(cluster, coordinator.node_id)
    dead.kill()
    try:
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send(topic, b"10").result(PATIENCE_S)
        more: list[bytes] = []
        with Consumer(
            cluster.bootstrap_servers, group_id="g", topics=[topic], auto_offset_reset="earliest"
        ) as consumer:
            deadline = time.monotonic() + PATIENCE_S
            while not more and time.monotonic() < deadline:
                more += [record.value or b"" for record in consumer.poll(1)]
    finally:
        dead.start()
    assert (seen, more) == ([b"%d" % index for index in range(10)], [b"10"])


def test_a_leader_that_says_nothing_is_replaced_and_its_clients_do_not_wait_for_it(
    cluster: Cluster,
) -> None:
    """Frozen, it keeps its connections: what it was sent goes to the next leader, each record once.

    It is the one that both clients came to know the cluster by, and whom they would ask who leads.
    """
    topic = "frozen"
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic)
    wait_in_sync(cluster, topic)
    frozen = broker(cluster, leader_of(cluster, topic))
    it_first = ",".join([frozen.bootstrap, cluster.bootstrap_servers])
    an_hour_ms = 3_600_000
    with (
        Producer(it_first, request_timeout_ms=an_hour_ms, delivery_timeout_ms=2 * an_hour_ms) as producer,
        Consumer(it_first, request_timeout_ms=an_hour_ms, auto_offset_reset="earliest") as consumer,
    ):
        producer.send(topic, b"0").result(PATIENCE_S)
        consumer.assign([TopicPartition(topic, 0)])
        seen = polled(consumer, 1)
        frozen.pause()
        began = time.monotonic()
        try:
            late = [producer.send(topic, b"%d" % index) for index in range(1, 10)]
            for delivery in late:
                delivery.result(PATIENCE_S)
            print(f"written {time.monotonic() - began:.1f} s after its leader was frozen")
            seen += polled(consumer, 9)
            assert seen == [b"%d" % index for index in range(10)]
        finally:
            frozen.resume()
    wait_in_sync(cluster, topic)
    assert read(cluster.bootstrap_servers, topic, 1, 10) == [b"%d" % index for index in range(10)]


def test_a_consumer_reads_from_the_replica_in_its_rack_and_goes_on_without_it(cluster: Cluster) -> None:
    """KIP-392: while the leader is frozen only who reads nearby gets anything."""
    topic = "nearby"
    place = TopicPartition(topic, 0)
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic)
    wait_in_sync(cluster, topic)
    leader = leader_of(cluster, topic)
    near = leader % 3 + 1
    expected = [b"%d" % index for index in range(100)]
    with (
        Producer(cluster.bootstrap_servers, acks="all") as producer,
        Consumer(
            cluster.bootstrap_servers, auto_offset_reset="earliest", client_rack=RACKS[near]
        ) as close_by,
        Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as far_off,
    ):
        for delivery in [producer.send(topic, value) for value in expected]:
            delivery.result(PATIENCE_S)
        for consumer in (close_by, far_off):
            consumer.assign([place])
            assert polled(consumer, 100) == expected
            consumer.seek(place, 0)
        broker(cluster, leader).pause()
        try:
            # In nine seconds another leads, and nobody needs a replica nearby to go on.
            assert polled(close_by, 100, patience_s=7.0) == expected
            assert far_off.poll(0.5) == []
        finally:
            broker(cluster, leader).resume()
        assert polled(far_off, 100) == expected

        wait_in_sync(cluster, topic)
        broker(cluster, near).kill()
        try:
            producer.send(topic, b"100").result(PATIENCE_S)
            assert polled(close_by, 1) == [b"100"]
        finally:
            broker(cluster, near).start()
    wait_in_sync(cluster, topic)


def test_a_log_that_lost_what_was_read_is_noticed_by_who_read_it(cluster: Cluster) -> None:
    """KIP-320: the follower that was away leads, and has other records where those were."""
    topic = "lost"
    place = TopicPartition(topic, 0)
    allowed = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics([everlog.NewTopic(topic, assignments={0: [1, 2]}, configs=allowed)])
    first, second = broker(cluster, 1), broker(cluster, 2)
    with (
        Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as lenient,
        Consumer(cluster.bootstrap_servers, auto_offset_reset="none") as strict,
    ):
        with Producer(cluster.bootstrap_servers) as producer:
            for index in range(10):
                producer.send(topic, b"%d" % index).result(PATIENCE_S)
            second.kill()
            for index in range(10, 20):
                producer.send(topic, b"%d" % index).result(PATIENCE_S)
        for consumer in (lenient, strict):
            consumer.assign([place])
            consumer.seek(place, 0)
            assert polled(consumer, 20) == [b"%d" % index for index in range(20)]
        first.kill()
        second.start()
        with Producer(cluster.bootstrap_servers) as producer:
            others = [b"other %d" % index for index in range(30)]
            for value in others:
                producer.send(topic, value).result(PATIENCE_S)

        assert polled(lenient, 30) == others
        with pytest.raises(everlog.LogTruncated) as truncated:
            polled(strict, 1)
        assert truncated.value.diverged == {place: 10}
        strict.seek(place, 10)
        assert polled(strict, 30) == others
        first.start()
    eventually("both in sync", lambda: in_sync(cluster, topic) == {1, 2})


def test_a_stop_one_by_one_loses_no_request(cluster: Cluster) -> None:
    """A rolling restart: the default retries of a client see no error (O5)."""
    topic = "rolling"
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions=3)
    wait_in_sync(cluster, topic)
    sent = 0
    with Producer(cluster.bootstrap_servers, acks="all") as producer:
        for one in cluster.brokers:
            one.stop()
            for _ in range(30):
                producer.send(topic, b"%d" % sent, partition=sent % 3).result(PATIENCE_S)
                sent += 1
            one.start()
            wait_in_sync(cluster, topic)
    assert sorted(map(int, read(cluster.bootstrap_servers, topic, 3, sent))) == [*range(sent)]


def test_a_cluster_that_stops_is_there_again_as_it_was(tmp_path: Path) -> None:
    with Cluster(brokers=3, directory=tmp_path / "data", settings=SETTINGS) as cluster:
        before = cluster.bootstrap_servers
        with Admin(before) as admin:
            admin.create_topic("kept", partitions=3)
        with Producer(before, acks="all") as producer:
            for index in range(30):
                producer.send("kept", b"%d" % index, partition=index % 3).result(PATIENCE_S)

    with Cluster(brokers=3, directory=tmp_path / "data", settings=SETTINGS) as cluster:
        assert cluster.bootstrap_servers == before
        assert sorted(map(int, read(before, "kept", 3, 30))) == [*range(30)]

    with pytest.raises(everlog.ConfigError, match="holds a cluster of 3 brokers"):
        Cluster(brokers=2, directory=tmp_path / "data").start()
