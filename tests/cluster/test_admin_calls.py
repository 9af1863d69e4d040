"""What Admin asks of three brokers, on both of its faces; the same on Apache Kafka."""

import asyncio
import time
from collections.abc import Callable, Generator

import pytest

import everlog
from everlog import aio
from everlog.admin import Election, ItemsRefused, NewTopic, Replica, TopicPartition
from everlog.model.ids import NO_UUID
from tests.cluster.conftest import Trio

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("admin-cluster")]

FreshTopic = Callable[[], str]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def admin(trio: Trio) -> Generator[everlog.Admin]:
    with everlog.Admin(trio.bootstrap) as admin:
        yield admin


def make(admin: everlog.Admin, name: str, *assignments: list[int]) -> str:
    configs = {"min.insync.replicas": "1"}
    admin.create_topics([NewTopic(name, assignments=dict(enumerate(assignments)), configs=configs)])
    return name


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_partitions_move_and_tell_while_they_do(
    admin: everlog.Admin, trio: Trio, fresh_topic: FreshTopic
) -> None:
    topic = make(admin, fresh_topic(), [1, 2], [2, 3])
    place, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with everlog.Producer(trio.bootstrap) as producer:
        for number in range(50):
            producer.send(topic, b"%d" % number, partition=0)

    with pytest.raises(ItemsRefused) as refused:
        admin.alter_partition_reassignments({place: [3, 2], other: [2, 77]})
    until(lambda: admin.list_partition_reassignments([place]) == {})

    assert refused.value.errors[other].code is everlog.ErrorCode.INVALID_REPLICA_ASSIGNMENT
    until(lambda: set(admin.describe_topics([topic])[topic].partitions[0].isr) == {2, 3})
    moved = admin.describe_topics([topic])[topic].partitions[0]
    assert (tuple(moved.replicas), moved.leader in {2, 3}) == ((3, 2), True)
    with everlog.Consumer(trio.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        read: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(read) < 50 and time.monotonic() < deadline:
            read += [record.value for record in consumer.poll(0.5)]
    assert read == [b"%d" % number for number in range(50)]
    with pytest.raises(ItemsRefused, match="NO_REASSIGNMENT_IN_PROGRESS"):
        admin.alter_partition_reassignments({place: None})


def test_the_first_replica_leads_when_it_is_elected(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    topic = make(admin, fresh_topic(), [1, 2, 3])
    place = TopicPartition(topic, 0)
    assert admin.elect_leaders([place]) == {place: False}

    admin.alter_partition_reassignments({place: [3, 1, 2]})
    until(lambda: admin.list_partition_reassignments([place]) == {})

    assert admin.elect_leaders([place]) == {place: True}
    until(lambda: admin.describe_topics([topic])[topic].partitions[0].leader == 3)
    with pytest.raises(ItemsRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.elect_leaders([TopicPartition(topic, 9)], election=Election.UNCLEAN)


def test_asyncio_has_the_same_calls(trio: Trio) -> None:
    async def ask() -> tuple[int, int, int]:
        async with aio.Admin(trio.bootstrap) as admin:
            quorum = await admin.describe_quorum()
            directories = await admin.describe_log_dirs()
            moving = await admin.list_partition_reassignments()
            return len(quorum.voters), len({entry.broker for entry in directories}), len(moving)

    assert asyncio.run(ask()) == (3, 3, 0)


def test_brokers_tell_the_size_of_each_replica(
    admin: everlog.Admin, trio: Trio, fresh_topic: FreshTopic
) -> None:
    topic = make(admin, fresh_topic(), [1, 2, 3])
    place = TopicPartition(topic, 0)
    with everlog.Producer(trio.bootstrap, acks="all") as producer:
        producer.send(topic, bytes(200_000), partition=0)

    until(
        lambda: all(
            sum(entry.partition_bytes.get(place, 0) for entry in admin.describe_log_dirs([node], [place]))
            > 200_000
            for node in (1, 2, 3)
        )
    )
    assert all(entry.records_behind.get(place, 0) == 0 for entry in admin.describe_log_dirs([1], [place]))


def test_a_replica_moves_to_another_directory_of_its_broker(
    admin: everlog.Admin, trio: Trio, fresh_topic: FreshTopic
) -> None:
    paths = [entry.path for entry in admin.describe_log_dirs([1])]
    if len(paths) < 2:
        pytest.skip("its brokers have one directory each")
    topic = make(admin, fresh_topic(), [1])
    place = TopicPartition(topic, 0)
    with everlog.Producer(trio.bootstrap) as producer:
        producer.send(topic, bytes(10_000), partition=0)
    (before,) = [
        entry.path for entry in admin.describe_log_dirs([1], [place]) if place in entry.partition_bytes
    ]
    wanted = next(path for path in paths if path != before)

    admin.alter_replica_log_dirs({Replica(place, 1): wanted})

    def lives_there() -> bool:
        found = admin.describe_log_dirs([1], [place])
        here = [entry.path for entry in found if place in entry.partition_bytes and not entry.moving_in]
        return here == [wanted] and not any(entry.moving_in_bytes for entry in found)

    until(lives_there)


def test_a_voter_goes_and_comes_back(admin: everlog.Admin) -> None:
    quorum = admin.describe_quorum()
    if any(voter.directory_id == NO_UUID for voter in quorum.voters) or not quorum.endpoints:
        pytest.skip("the voters of this quorum are settings")
    voter = next(each for each in quorum.voters if each.node_id != quorum.leader_id)
    cluster_id = admin.describe_cluster().cluster_id

    with pytest.raises(everlog.Refused, match=f"voter {voter.node_id} .*: INCONSISTENT_CLUSTER_ID"):
        admin.remove_raft_voter(voter.node_id, voter.directory_id, cluster_id="another")
    admin.remove_raft_voter(voter.node_id, voter.directory_id, cluster_id=cluster_id)
    until(lambda: voter.node_id in {each.node_id for each in admin.describe_quorum().observers})
    assert voter.node_id not in {each.node_id for each in admin.describe_quorum().voters}
    with pytest.raises(everlog.Refused, match=f"voter {voter.node_id} .*: VOTER_NOT_FOUND"):
        admin.remove_raft_voter(voter.node_id, voter.directory_id)

    admin.add_raft_voter(voter.node_id, voter.directory_id, quorum.endpoints[voter.node_id])

    assert voter.node_id in {each.node_id for each in admin.describe_quorum().voters}
    with pytest.raises(everlog.Refused, match=f"voter {voter.node_id} .*: DUPLICATE_VOTER"):
        admin.add_raft_voter(voter.node_id, voter.directory_id, quorum.endpoints[voter.node_id])


def test_a_broker_that_is_not_there_cannot_be_forgotten(admin: everlog.Admin) -> None:
    with pytest.raises(everlog.Refused, match="broker 77: BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(77)
