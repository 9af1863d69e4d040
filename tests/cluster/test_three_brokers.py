"""Three real brokers are one log: what is acknowledged is there whoever dies (R1, R2, R5, R7).

What our clients make of it is the same on Apache Kafka (`--broker apache`).
"""

import time
from collections.abc import Callable, Generator
from typing import Literal

import pytest

import everlog
from everlog import Admin, Consumer, Producer, TopicPartition
from tests.cluster.conftest import Trio, open_trio

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("three-brokers"), pytest.mark.timeout(240)]

PATIENCE_S = 90.0

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
RACKS = {1: "east", 2: "north", 3: "west"}


@pytest.fixture(scope="module")
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Trio]:
    """One cluster for all tests; each leaves it with all three brokers in sync."""
    with open_trio(request.config, tmp_path_factory.mktemp("three"), SETTINGS, tuple(RACKS.values())) as made:
        yield made


def log_bytes(trio: Trio, node: int, topic: str) -> bytes:
    """What a broker has of a topic's first partition."""
    segments = [path for place in trio.directories(node) for path in place.glob(f"{topic}-0/*.log")]
    return b"".join(path.read_bytes() for path in sorted(segments))


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Ask until it holds; whoever changes it tells nobody."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.1)


def in_sync(trio: Trio, topic: str) -> set[int]:
    """The brokers that are in sync for every partition of a topic."""
    with Admin(trio.bootstrap) as admin:
        partitions = admin.describe_topics([topic])[topic].partitions.values()
    return set[int].intersection(*(set(one.isr) for one in partitions))


def wait_in_sync(trio: Trio, topic: str) -> None:
    eventually(f"three in sync for {topic}", lambda: in_sync(trio, topic) == {1, 2, 3})


def leader_of(trio: Trio, topic: str, partition: int = 0) -> int:
    with Admin(trio.bootstrap) as admin:
        found = admin.describe_topics([topic])[topic].partitions[partition].leader
    assert found in (1, 2, 3)
    return found


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


def test_every_broker_knows_all_brokers_and_one_active_controller(trio: Trio) -> None:
    for node in RACKS:
        with Admin(trio.address(node)) as admin:
            assert {each.node_id for each in admin.describe_cluster().brokers} == {1, 2, 3}
            quorum = admin.describe_quorum()
            assert {voter.node_id for voter in quorum.voters} == {1, 2, 3}
            assert quorum.leader_id in {1, 2, 3}


def test_a_topic_made_at_any_broker_has_three_copies_and_serves_everywhere(trio: Trio) -> None:
    for number, address in enumerate(addresses := [trio.address(node) for node in RACKS]):
        topic = f"made-at-{number}"
        with Admin(address) as admin:
            admin.create_topic(topic, partitions=3)
        # Written and read by way of the two others.
        writer, reader = (addresses[(number + step) % 3] for step in (1, 2))
        with Producer(writer, acks="all") as producer:
            for index in range(3):
                producer.send(topic, b"%d" % index, partition=index).result(PATIENCE_S)
        assert sorted(read(reader, topic, 3, 3)) == [b"0", b"1", b"2"]
        wait_in_sync(trio, topic)
        with Admin(address) as admin:
            partitions = admin.describe_topics([topic])[topic].partitions.values()
        assert {len(each.replicas) for each in partitions} == {3}
        assert {each.leader for each in partitions} == {1, 2, 3}


@pytest.mark.parametrize("victim", ["leader", "follower", "controller"])
def test_what_is_acknowledged_outlives_a_kill_and_the_broker_comes_back(trio: Trio, victim: str) -> None:
    topic = f"kill-{victim}"
    with Admin(trio.bootstrap) as admin:
        admin.create_topic(topic)
    wait_in_sync(trio, topic)
    leader = leader_of(trio, topic)
    with Admin(trio.bootstrap) as admin:
        active = admin.describe_quorum().leader_id
    follower = next(one for one in (1, 2, 3) if one not in (leader, active))
    dead = {"leader": leader, "follower": follower, "controller": active}[victim]

    with Producer(trio.bootstrap, acks="all") as producer:
        for index in range(100):
            producer.send(topic, b"%03d" % index).result(PATIENCE_S)
        trio.kill(dead)
        late = [producer.send(topic, b"%03d" % index) for index in range(100, 200)]
        for delivery in late:
            delivery.result(PATIENCE_S)

    expected = [b"%03d" % index for index in range(200)]
    assert read(trio.bootstrap, topic, 1, 200) == expected
    assert dead not in in_sync(trio, topic)
    trio.revive(dead)
    wait_in_sync(trio, topic)
    # Whoever leads from here on has all, to the byte.
    assert len({log_bytes(trio, node, topic) for node in RACKS}) == 1


def test_a_group_and_its_offsets_go_on_without_their_coordinator(trio: Trio) -> None:
    topic = "grouped"
    with Admin(trio.bootstrap) as admin:
        admin.create_topic(topic)
    with Producer(trio.bootstrap) as producer:
        for index in range(10):
            producer.send(topic, b"%d" % index).result(PATIENCE_S)
    seen: list[bytes] = []
    with Consumer(trio.bootstrap, group_id="g", topics=[topic], auto_offset_reset="earliest") as consumer:
        deadline = time.monotonic() + PATIENCE_S
        while len(seen) < 10 and time.monotonic() < deadline:
            seen += [record.value or b"" for record in consumer.poll(1)]
        consumer.commit()
    with Admin(trio.bootstrap) as admin:
        coordinator = admin.describe_groups(["g"])["g"].coordinator
    assert coordinator is not None
    dead = coordinator.node_id
    trio.kill(dead)
    try:
        with Producer(trio.bootstrap) as producer:
            producer.send(topic, b"10").result(PATIENCE_S)
        more: list[bytes] = []
        with Consumer(trio.bootstrap, group_id="g", topics=[topic], auto_offset_reset="earliest") as consumer:
            deadline = time.monotonic() + PATIENCE_S
            while not more and time.monotonic() < deadline:
                more += [record.value or b"" for record in consumer.poll(1)]
    finally:
        trio.revive(dead)
    assert (seen, more) == ([b"%d" % index for index in range(10)], [b"10"])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_goes_on_polling_reads_and_commits_past_the_kill_of_its_coordinator(
    trio: Trio, protocol: Literal["classic", "consumer"]
) -> None:
    topic, group = f"polled-{protocol}", f"polling-{protocol}"
    with Admin(trio.bootstrap) as admin:
        admin.create_topic(topic, partitions=3)
    wait_in_sync(trio, topic)
    expected = [b"%d" % index for index in range(20)]
    with (
        Producer(trio.bootstrap) as producer,
        Consumer(
            trio.bootstrap,
            group_id=group,
            group_protocol=protocol,
            topics=[topic],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        for index in range(10):
            producer.send(topic, expected[index], partition=index % 3).result(PATIENCE_S)
        seen = polled(consumer, 10)
        consumer.commit()
        with Admin(trio.bootstrap) as admin:
            coordinator = admin.describe_groups([group])[group].coordinator
        assert coordinator is not None
        trio.kill(coordinator.node_id)
        try:
            for index in range(10, 20):
                producer.send(topic, expected[index], partition=index % 3).result(PATIENCE_S)
            # What was read was committed: a member that has to join again begins behind it.
            seen += polled(consumer, 10)
            consumer.commit(timeout=PATIENCE_S)
            committed = consumer.committed(*consumer.assignment(), timeout=PATIENCE_S)
        finally:
            trio.revive(coordinator.node_id)
    assert sorted(seen, key=int) == expected
    assert sum(each.offset for each in committed.values() if each is not None) == 20
    wait_in_sync(trio, topic)


def test_a_transaction_that_is_open_when_a_leader_is_killed_is_committed_whole(trio: Trio) -> None:
    topic = "till"
    with Admin(trio.bootstrap) as admin:
        admin.create_topic(topic)
    wait_in_sync(trio, topic)
    dead = leader_of(trio, topic)
    with Producer(trio.bootstrap, transactional_id="till-of-three") as producer:
        producer.init_transactions(PATIENCE_S)
        with producer.transaction():
            producer.send(topic, b"before").result(PATIENCE_S)
        producer.begin_transaction(PATIENCE_S)
        for index in range(10):
            producer.send(topic, b"%d" % index).result(PATIENCE_S)
        trio.kill(dead)
        try:
            for index in range(10, 20):
                producer.send(topic, b"%d" % index)
            producer.commit_transaction(PATIENCE_S)
        finally:
            trio.revive(dead)
    wait_in_sync(trio, topic)
    with Consumer(trio.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = polled(consumer, 21) + [record.value or b"" for record in consumer.poll(0.5)]
    assert seen == [b"before", *(b"%d" % index for index in range(20))]


def test_a_leader_that_says_nothing_is_replaced_and_its_clients_do_not_wait_for_it(
    trio: Trio,
) -> None:
    """Frozen, it keeps its connections: what it was sent goes to the next leader, each record once.

    It is the one that both clients came to know the cluster by, and whom they would ask who leads.
    """
    topic = "frozen"
    with Admin(trio.bootstrap) as admin:
        admin.create_topic(topic)
    wait_in_sync(trio, topic)
    frozen = leader_of(trio, topic)
    it_first = ",".join([trio.address(frozen), trio.bootstrap])
    an_hour_ms = 3_600_000
    with (
        Producer(it_first, request_timeout_ms=an_hour_ms, delivery_timeout_ms=2 * an_hour_ms) as producer,
        Consumer(it_first, request_timeout_ms=an_hour_ms, auto_offset_reset="earliest") as consumer,
    ):
        producer.send(topic, b"0").result(PATIENCE_S)
        consumer.assign([TopicPartition(topic, 0)])
        seen = polled(consumer, 1)
        trio.pause(frozen)
        began = time.monotonic()
        try:
            late = [producer.send(topic, b"%d" % index) for index in range(1, 10)]
            for delivery in late:
                delivery.result(PATIENCE_S)
            print(f"written {time.monotonic() - began:.1f} s after its leader was frozen")
            seen += polled(consumer, 9)
            assert seen == [b"%d" % index for index in range(10)]
        finally:
            trio.resume(frozen)
    wait_in_sync(trio, topic)
    assert read(trio.bootstrap, topic, 1, 10) == [b"%d" % index for index in range(10)]


def test_a_consumer_reads_from_the_replica_in_its_rack_and_goes_on_without_it(trio: Trio) -> None:
    """KIP-392: while the leader is frozen only who reads nearby gets anything."""
    topic = "nearby"
    place = TopicPartition(topic, 0)
    with Admin(trio.bootstrap) as admin:
        admin.create_topic(topic)
    wait_in_sync(trio, topic)
    leader = leader_of(trio, topic)
    near = leader % 3 + 1
    expected = [b"%d" % index for index in range(100)]
    with (
        Producer(trio.bootstrap, acks="all") as producer,
        Consumer(trio.bootstrap, auto_offset_reset="earliest", client_rack=RACKS[near]) as close_by,
        Consumer(trio.bootstrap, auto_offset_reset="earliest") as far_off,
    ):
        for delivery in [producer.send(topic, value) for value in expected]:
            delivery.result(PATIENCE_S)
        for consumer in (close_by, far_off):
            consumer.assign([place])
            assert polled(consumer, 100) == expected
            consumer.seek(place, 0)
        trio.pause(leader)
        try:
            # In nine seconds another leads, and nobody needs a replica nearby to go on.
            assert polled(close_by, 100, patience_s=7.0) == expected
            assert far_off.poll(0.5) == []
        finally:
            trio.resume(leader)
        assert polled(far_off, 100) == expected

        wait_in_sync(trio, topic)
        trio.kill(near)
        try:
            producer.send(topic, b"100").result(PATIENCE_S)
            assert polled(close_by, 1) == [b"100"]
        finally:
            trio.revive(near)
    wait_in_sync(trio, topic)


def test_a_log_that_lost_what_was_read_is_noticed_by_who_read_it(trio: Trio) -> None:
    """KIP-320: the follower that was away leads, and has other records where those were."""
    topic = "lost"
    place = TopicPartition(topic, 0)
    allowed = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    with Admin(trio.bootstrap) as admin:
        admin.create_topics([everlog.NewTopic(topic, assignments={0: [1, 2]}, configs=allowed)])
    with (
        Consumer(trio.bootstrap, auto_offset_reset="earliest") as lenient,
        Consumer(trio.bootstrap, auto_offset_reset="none") as strict,
    ):
        with Producer(trio.bootstrap) as producer:
            for index in range(10):
                producer.send(topic, b"%d" % index).result(PATIENCE_S)
            trio.kill(2)
            for index in range(10, 20):
                producer.send(topic, b"%d" % index).result(PATIENCE_S)
        for consumer in (lenient, strict):
            consumer.assign([place])
            consumer.seek(place, 0)
            assert polled(consumer, 20) == [b"%d" % index for index in range(20)]
        trio.kill(1)
        trio.revive(2)
        with Producer(trio.bootstrap) as producer:
            others = [b"other %d" % index for index in range(30)]
            for value in others:
                producer.send(topic, value).result(PATIENCE_S)

        assert polled(lenient, 30) == others
        with pytest.raises(everlog.LogTruncated) as truncated:
            polled(strict, 1)
        assert truncated.value.diverged == {place: 10}
        strict.seek(place, 10)
        assert polled(strict, 30) == others
        trio.revive(1)
    eventually("both in sync", lambda: in_sync(trio, topic) == {1, 2})


def test_a_stop_one_by_one_loses_no_request(trio: Trio) -> None:
    """A rolling restart: the default retries of a client see no error (O5)."""
    topic = "rolling"
    with Admin(trio.bootstrap) as admin:
        admin.create_topic(topic, partitions=3)
    wait_in_sync(trio, topic)
    sent = 0
    with Producer(trio.bootstrap, acks="all") as producer:
        for node in RACKS:
            trio.stop(node)
            for _ in range(30):
                producer.send(topic, b"%d" % sent, partition=sent % 3).result(PATIENCE_S)
                sent += 1
            trio.revive(node)
            wait_in_sync(trio, topic)
    assert sorted(map(int, read(trio.bootstrap, topic, 3, sent))) == [*range(sent)]
