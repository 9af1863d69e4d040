"""Rows L1, L5, L7, O1: topics, configs, offsets and the cluster as each client's admin side sees them."""

import time
from collections.abc import Callable

import pytest

from tests.conformance import checks, raw
from tests.conformance.clients import ALL
from tests.conformance.clients.face import Client, ClientError, Operation
from tests.conformance.scenarios import How, Record

pytestmark = pytest.mark.conformance

every_client = pytest.mark.parametrize("client", ALL, indirect=True)

UNKNOWN_TOPIC = 3
INVALID_TOPIC = 17
TOPIC_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
OFFSET_OUT_OF_RANGE = 1


@every_client
def test_a_topic_is_created_described_and_deleted(
    client: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _needs(client, "create_topic", "describe_topic", "delete_topic")
    topic = fresh_topic()

    checks.create_served(everlog_bootstrap, client, topic, 3, {"retention.ms": "86400000"})
    (broker,) = client.describe_cluster().nodes
    seen = client.describe_topic(topic)
    assert [partition.partition for partition in seen] == [0, 1, 2]
    assert all(partition.leader == broker.id for partition in seen)
    assert all(partition.replicas == partition.isr == (broker.id,) for partition in seen)

    client.delete_topic(topic)
    _eventually_unknown(client, topic)


@every_client
def test_a_bad_request_for_a_topic_is_refused_by_name(client: Client, fresh_topic: Callable[[], str]) -> None:
    _needs(client, "create_topic")
    topic = fresh_topic()
    client.create_topic(topic, 1, {})

    assert _code_of(lambda: client.create_topic(topic, 1, {})) == TOPIC_EXISTS
    assert _code_of(lambda: client.create_topic(f"{topic}/../up", 1, {})) == INVALID_TOPIC
    assert _code_of(lambda: client.create_topic(f"{topic}-none", 0, {})) == INVALID_PARTITIONS
    assert _code_of(lambda: client.create_topic(f"{topic}-bad", 1, {"no.such.config": "1"})) == INVALID_CONFIG
    assert (
        _code_of(lambda: client.create_topic(f"{topic}-bad", 1, {"retention.ms": "soon"})) == INVALID_CONFIG
    )
    assert _code_of(lambda: client.delete_topic(f"{topic}-missing")) == UNKNOWN_TOPIC


@every_client
def test_partitions_are_added_and_never_taken_away(
    client: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _needs(client, "add_partitions", "describe_topic")
    topic = fresh_topic()
    checks.create_served(everlog_bootstrap, client, topic, 2)

    client.add_partitions(topic, 5)
    _eventually(lambda: len(client.describe_topic(topic)) == 5)
    assert _code_of(lambda: client.add_partitions(topic, 4)) == INVALID_PARTITIONS

    client.produce(topic, [Record(4, b"k", b"v", (), checks.now_ms())], How())
    assert client.consume(topic, {4: 1})[0].value == b"v"


@every_client
def test_a_config_is_set_and_shown(
    client: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _needs(client, "alter_config", "describe_config")
    topic = fresh_topic()
    checks.create_served(everlog_bootstrap, client, topic, 1, {"segment.bytes": "10485760"})

    before = client.describe_config(topic)
    assert before["segment.bytes"] == "10485760"
    assert before["retention.ms"] == "604800000"
    assert before["cleanup.policy"] == "delete"

    client.alter_config(topic, "retention.ms", "3600000")
    _eventually(lambda: client.describe_config(topic)["retention.ms"] == "3600000")
    assert _code_of(lambda: client.alter_config(topic, "retention.ms", "soon")) == INVALID_CONFIG


@every_client
def test_deleted_records_are_gone_and_the_log_starts_after_them(
    client: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _needs(client, "delete_records", "list_offset")
    topic = fresh_topic()
    checks.create_served(everlog_bootstrap, client, topic, 1)
    client.produce(topic, _timed(10, checks.now_ms()), How())

    assert client.delete_records(topic, 0, 6) == 6

    assert client.list_offset(topic, 0, "earliest") == 6
    assert [record.offset for record in client.consume(topic, {0: 10})] == [6, 7, 8, 9]
    with pytest.raises(ClientError) as refusal:
        client.delete_records(topic, 0, 11)
    assert refusal.value.code == OFFSET_OUT_OF_RANGE


@every_client
def test_offsets_are_found_by_time(
    client: Client, admin: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    """Row L7: offset n was written at `start` + 1000 n; a time in between finds the next one."""
    _needs(client, "list_offset")
    topic = fresh_topic()
    checks.create_served(everlog_bootstrap, admin, topic, 1)
    start = checks.now_ms() - 60_000
    admin.produce(topic, _timed(10, start), How())
    raw.wait_for_ends(everlog_bootstrap, topic, {0: 10})

    assert client.list_offset(topic, 0, "earliest") == 0
    assert client.list_offset(topic, 0, "latest") == 10
    assert client.list_offset(topic, 0, start) == 0
    assert client.list_offset(topic, 0, start + 3_000) == 3
    assert client.list_offset(topic, 0, start + 3_001) == 4
    assert client.list_offset(topic, 0, start + 9_001) == (10 if client.traits.end_for_no_time else -1)


@every_client
def test_the_newest_record_by_time_need_not_be_the_last(
    client: Client, admin: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _needs(client, "list_max_timestamp")
    topic = fresh_topic()
    checks.create_served(everlog_bootstrap, admin, topic, 1)
    now = checks.now_ms()
    stamps = [now - 5_000, now - 1_000, now - 9_000]
    admin.produce(topic, [Record(0, None, b"v", (), stamp) for stamp in stamps], How())

    assert client.list_offset(topic, 0, "max_timestamp") == 1


@every_client
def test_the_cluster_is_one_broker_at_the_address_we_use(client: Client, everlog_bootstrap: str) -> None:
    _needs(client, "describe_cluster")

    seen = client.describe_cluster()

    assert [(node.host, node.port) for node in seen.nodes] == [raw.address(everlog_bootstrap)]
    assert seen.cluster_id is None or len(seen.cluster_id) == 22


@every_client
def test_log_directories_tell_the_size_of_each_partition(
    client: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _needs(client, "describe_log_dirs")
    topic = fresh_topic()
    checks.create_served(everlog_bootstrap, client, topic, 2)
    client.produce(topic, [Record(1, None, b"v" * 10_000, (), checks.now_ms())], How())

    sizes = client.describe_log_dirs(topic)

    assert sizes[0] == 0
    assert 10_000 < sizes[1] < 10_200


@every_client
def test_topic_partitions_are_described_by_the_paging_api(
    client: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _needs(client, "describe_topic_partitions")
    topic = fresh_topic()
    checks.create_served(everlog_bootstrap, client, topic, 4)
    (broker,) = client.describe_cluster().nodes

    seen = client.describe_topic_partitions(topic)

    assert [partition.partition for partition in seen] == [0, 1, 2, 3]
    assert all(partition.leader == broker.id for partition in seen)
    assert _code_of(lambda: client.describe_topic_partitions(f"{topic}-missing")) == UNKNOWN_TOPIC


def _timed(count: int, start_ms: int) -> list[Record]:
    return [Record(0, b"%d" % number, b"v", (), start_ms + 1_000 * number) for number in range(count)]


def _code_of(action: Callable[[], object]) -> int:
    try:
        action()
    except ClientError as error:
        return error.code
    return 0


def _eventually(holds: Callable[[], bool], timeout_s: float = 40.0) -> None:
    """Poll: metadata reaches a broker of Apache Kafka a moment after the controller's answer."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _eventually_unknown(client: Client, topic: str) -> None:
    _eventually(lambda: _code_of(lambda: client.describe_topic(topic)) == UNKNOWN_TOPIC)


def _needs(client: Client, *operations: Operation) -> None:
    missing = [operation for operation in operations if operation not in client.operations]
    if missing:
        pytest.skip(f"{client.name} has no {', '.join(missing)}")
