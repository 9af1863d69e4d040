"""Topics, their settings and records, asked for by Admin (T1, L7); the same on Apache Kafka."""

import asyncio
import inspect
import socket
import threading
import time
from collections.abc import Callable, Generator

import pytest

import everlog
from everlog import aio
from everlog.admin import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ItemsRefused,
    NewPartitions,
    NewTopic,
    OffsetAt,
    TopicPartition,
)
from everlog.model.ids import NO_UUID, Uuid

FreshTopic = Callable[[], str]
# For records of 1970, which would be old enough to go.
KEPT = {"retention.ms": "-1"}


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Generator[everlog.Admin]:
    """A blocking Admin of the session's broker."""
    with everlog.Admin(bootstrap) as admin:
        yield admin


def produce(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    with everlog.Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, f"{number}".encode(), partition=partition, timestamp=1_000 + number)


def test_a_created_topic_can_be_used_at_once(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()

    created = admin.create_topic(name, 3, configs={"retention.ms": "1234567"})

    assert (created.name, created.partitions, created.replication_factor) == (name, 3, 1)
    assert created.topic_id != NO_UUID
    described = admin.describe_topics([name])[name]
    assert sorted(described.partitions) == [0, 1, 2]
    assert all(partition.leader >= 0 for partition in described.partitions.values())
    assert described.topic_id == created.topic_id
    assert described.authorized_operations is None
    resource = ConfigResource.topic(name)
    retention = admin.describe_configs([resource], keys=["retention.ms"])[resource]["retention.ms"]
    assert (retention.value, retention.source) == ("1234567", ConfigSource.TOPIC)


def test_what_was_refused_is_named_and_the_rest_is_done(
    admin: everlog.Admin, fresh_topic: FreshTopic
) -> None:
    old, new = fresh_topic(), fresh_topic()
    admin.create_topic(old)

    with pytest.raises(ItemsRefused) as refused:
        admin.create_topics([old, "not/a/name", NewTopic(new, partitions=2)])

    error = refused.value
    assert error.code is everlog.ErrorCode.TOPIC_ALREADY_EXISTS
    assert set(error.errors) == {old, "not/a/name"}
    assert error.errors["not/a/name"].code is everlog.ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error.done[new].partitions == 2
    assert "2 of 3" in str(error)
    assert old in str(error)
    assert "not/a/name" in str(error)
    assert len(admin.describe_topics([new])[new].partitions) == 2


def test_validation_changes_nothing(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()

    assert admin.create_topics([NewTopic(name, 2)], validate_only=True)[name].partitions == 2

    assert name not in admin.list_topics()
    with pytest.raises(everlog.Refused, match="INVALID"):
        admin.create_topics([NewTopic(name, 2, configs={"no.such.setting": "1"})], validate_only=True)


def test_replicas_may_be_placed_by_hand(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    node = admin.describe_cluster().brokers[0].node_id

    admin.create_topics([NewTopic(name, assignments={0: [node], 1: [node]})])
    admin.create_partitions({name: NewPartitions(3, [[node]])})

    described = admin.wait_for_topics([name])[name]
    while len(described.partitions) < 3:
        described = admin.wait_for_topics([name])[name]
    assert [tuple(partition.replicas) for partition in described.partitions.values()] == [(node,)] * 3


def test_topics_are_deleted_by_name_and_by_id(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    one, two = fresh_topic(), fresh_topic()
    created = admin.create_topics([one, two])

    admin.delete_topics([one, created[two].topic_id])

    with pytest.raises(ItemsRefused) as refused:
        admin.delete_topics([one, Uuid(bytes(15) + b"\x07")])
    codes = [error.code for error in refused.value.errors.values()]
    assert codes == [everlog.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, everlog.ErrorCode.UNKNOWN_TOPIC_ID]


def test_an_unknown_topic_is_told_at_once_and_not_created(
    admin: everlog.Admin, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()

    with pytest.raises(everlog.Refused, match=f"topic '{name}': UNKNOWN_TOPIC_OR_PARTITION: no such topic"):
        admin.describe_topics([name])
    with pytest.raises(everlog.Refused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.list_offsets([TopicPartition(name, 0)])

    assert name not in admin.list_topics()


def test_waiting_for_a_topic_ends_when_somebody_creates_it(
    admin: everlog.Admin, bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()

    def create() -> None:
        with everlog.Admin(bootstrap) as other:
            other.create_topic(name, 2)

    with pytest.raises(everlog.TimedOut, match=name):
        admin.wait_for_topics([name], timeout=0.3)
    thread = threading.Thread(target=create)
    thread.start()
    found = admin.wait_for_topics([name], timeout=60)
    thread.join()

    assert len(found[name].partitions) == 2


def test_partitions_are_added_and_never_taken_away(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    admin.create_topic(name, 1)

    admin.create_partitions({name: 3}, validate_only=True)
    admin.create_partitions({name: 3})
    with pytest.raises(everlog.Refused, match="INVALID_PARTITIONS"):
        admin.create_partitions({name: 2})

    deadline = time.monotonic() + 60
    while len(admin.wait_for_topics([name])[name].partitions) != 3:
        assert time.monotonic() < deadline


def test_settings_are_set_added_to_and_taken_back(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    admin.create_topic(name, configs={"cleanup.policy": "delete"})
    resource = ConfigResource.topic(name)

    def values() -> dict[str, str | None]:
        found = admin.describe_configs([resource])[resource].values()
        return {entry.name: entry.value for entry in found if entry.source is ConfigSource.TOPIC}

    def settle(expected: dict[str, str | None]) -> None:
        deadline = time.monotonic() + 60
        while values() != expected:
            assert time.monotonic() < deadline, (values(), expected)

    admin.alter_configs({resource: {"retention.ms": "99", "cleanup.policy": None}}, validate_only=True)
    settle({"cleanup.policy": "delete"})
    admin.alter_configs({resource: [ConfigChange("cleanup.policy", ConfigOperation.APPEND, "compact")]})
    settle({"cleanup.policy": "delete,compact"})
    admin.alter_configs({resource: {"retention.ms": "99", "cleanup.policy": None}})
    settle({"retention.ms": "99"})
    with pytest.raises(everlog.Refused, match=f"topic '{name}': INVALID"):
        admin.alter_configs({resource: {"retention.ms": "soon"}})
    settle({"retention.ms": "99"})


def test_brokers_tell_their_own_settings(admin: everlog.Admin) -> None:
    node = admin.describe_cluster().brokers[0].node_id
    mine = ConfigResource.broker(node)

    found = admin.describe_configs([mine], documentation=True, synonyms=True)[mine]

    assert found["node.id"].value == str(node)
    assert found["node.id"].is_read_only
    with pytest.raises(everlog.Refused, match="broker 77"):
        admin.describe_configs([ConfigResource.broker(77)])


def test_what_has_settings_is_listed(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    admin.create_topic(name, configs={"retention.ms": "1000"})

    found = admin.list_config_resources([ConfigResourceType.TOPIC])

    assert ConfigResource.topic(name) in found
    assert all(resource.kind is ConfigResourceType.TOPIC for resource in found)


def test_offsets_are_found_by_place_and_by_time(
    admin: everlog.Admin, bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    admin.create_topic(name, 2, configs=KEPT)
    produce(bootstrap, name, 10)
    place, empty = TopicPartition(name, 0), TopicPartition(name, 1)

    def offset(at: int) -> tuple[int | None, int | None]:
        listed = admin.list_offsets([place, empty], at)
        found = [None if entry is None else entry.offset for entry in (listed[place], listed[empty])]
        return found[0], found[1]

    assert offset(OffsetAt.EARLIEST) == (0, 0)
    assert offset(OffsetAt.LATEST) == (10, 0)
    assert offset(OffsetAt.MAX_TIMESTAMP) == (9, None)
    assert offset(1_004) == (4, None)
    assert offset(2_000) == (None, None)
    at_time = admin.list_offsets([place], 1_004, isolation_level="read_committed")[place]
    assert at_time is not None
    assert at_time.timestamp == 1_004


def test_records_are_deleted_before_an_offset(
    admin: everlog.Admin, bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    admin.create_topic(name, 2, configs=KEPT)
    produce(bootstrap, name, 10)
    place = TopicPartition(name, 0)

    assert admin.delete_records({place: 4}) == {place: 4}
    first = admin.list_offsets([place], OffsetAt.EARLIEST)[place]
    assert first is not None
    assert first.offset == 4
    assert admin.delete_records({place: -1}) == {place: 10}
    with pytest.raises(ItemsRefused, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records({place: 11})
    with pytest.raises(ItemsRefused, match="no such partition"):
        admin.delete_records({TopicPartition(name, 7): 0})


def test_log_dirs_tell_the_size_of_partitions(
    admin: everlog.Admin, bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    admin.create_topic(name, configs=KEPT)
    produce(bootstrap, name, 10)
    place = TopicPartition(name, 0)
    (node,) = (broker.node_id for broker in admin.describe_cluster().brokers)

    (found,) = admin.describe_log_dirs()

    assert found.broker == node
    assert found.partition_bytes[place] > 0
    assert found.error is None
    (only,) = admin.describe_log_dirs([node], [place])
    assert list(only.partition_bytes) == [place]


def test_both_faces_say_the_same_of_their_calls() -> None:
    for name, _ in inspect.getmembers(aio.Admin, inspect.isfunction):
        if name.startswith("_"):
            continue
        theirs = inspect.getdoc(getattr(aio.Admin, name)) or ""
        assert theirs
        if name != "close":
            assert inspect.getdoc(getattr(everlog.Admin, name)) == theirs.replace("await ", "")


def test_the_asyncio_face_does_the_same(bootstrap: str, fresh_topic: FreshTopic) -> None:
    async def work() -> tuple[list[str], bool]:
        async with aio.Admin(bootstrap) as admin:
            name = fresh_topic()
            await admin.create_topic(name)
            listed = await admin.list_topics()
            await admin.delete_topics([name])
            return listed, name in listed

    listed, there = asyncio.run(work())

    assert there
    assert listed == sorted(listed)


def test_many_calls_at_a_time_share_an_admin(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    names = [fresh_topic() for _ in range(8)]
    threads = [threading.Thread(target=admin.create_topic, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(names) <= set(admin.list_topics())


def test_nobody_there_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with (
        everlog.Admin(f"127.0.0.1:{port}") as admin,
        pytest.raises(everlog.Unreachable, match=f"127.0.0.1:{port}"),
    ):
        admin.list_topics()


def test_a_broker_that_hangs_is_given_up_after_the_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            everlog.Admin(address, default_api_timeout_ms=300, request_timeout_ms=300) as admin,
            pytest.raises(everlog.EverlogError, match=address) as given_up,
        ):
            admin.list_topics()
    assert given_up.value.retriable


def test_a_closed_admin_says_so_and_wrong_settings_are_refused_by_name(bootstrap: str) -> None:
    admin = everlog.Admin(bootstrap)
    admin.close()
    admin.close()
    with pytest.raises(everlog.Closed):
        admin.list_topics()
    with pytest.raises(everlog.ConfigError, match="default_api_timeout_ms=0"):
        everlog.Admin(bootstrap, default_api_timeout_ms=0)
    with pytest.raises(everlog.ConfigError, match="did you mean client_id"):
        everlog.Admin(bootstrap, client_ids="x")  # type: ignore[call-arg]
