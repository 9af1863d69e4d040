"""Groups, their offsets, and transactions, asked for by Admin (C2, C5, C7, C8, P5)."""

import time
from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any

import pytest

import everlog
from everlog.admin import (
    ItemsRefused,
    OffsetAndMetadata,
    ShiftBy,
    ToEarliest,
    ToOffset,
    TopicPartition,
    ToTime,
)
from everlog.model.ids import Timestamp

_kafka: Any = import_module("confluent_kafka")
FreshTopic = Callable[[], str]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Generator[everlog.Admin]:
    """A blocking Admin of the session's broker."""
    with everlog.Admin(bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: everlog.Admin, bootstrap: str, fresh_topic: FreshTopic) -> str:
    """A topic of two partitions, the first with ten records from ten minutes ago on, a minute apart."""
    name = fresh_topic()
    admin.create_topic(name, 2)
    now = int(time.time() * 1000)
    with everlog.Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(name, b"x", partition=0, timestamp=now - 600_000 + number * 60_000)
    return name


@pytest.fixture(params=["classic", "consumer"])
def member(
    request: pytest.FixtureRequest, bootstrap: str, topic: str, fresh_topic: FreshTopic
) -> Generator[tuple[Any, str]]:
    """A member of a new group that reads the topic, by another client, and the group's name."""
    group_id = fresh_topic()
    settings = {"bootstrap.servers": bootstrap, "group.id": group_id, "enable.auto.commit": False}
    settings |= {"group.protocol": request.param, "client.id": "reader", "auto.offset.reset": "earliest"}
    if request.param == "classic":
        settings["group.instance.id"] = "first"
    consumer = _kafka.Consumer(settings)
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_S
    while len(consumer.assignment()) < 2:
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    yield consumer, group_id
    consumer.close()


def test_a_group_is_listed_described_and_not_deleted_while_it_has_members(
    admin: everlog.Admin, topic: str, member: tuple[Any, str], request: pytest.FixtureRequest
) -> None:
    _, group_id = member
    kind = "consumer" if "[consumer]" in request.node.name else "classic"

    group = admin.describe_group(group_id)

    assert (group.type, group.state) == (kind, "Stable")
    assert [entry.client_id for entry in group.members] == ["reader"]
    assert list(group.members[0].assignment) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    listed = {entry.group_id: entry for entry in admin.list_groups(states=["Stable"])}
    assert listed[group_id].type.lower() == kind
    assert group_id not in {entry.group_id for entry in admin.list_groups(states=["Empty"])}
    assert group_id in {entry.group_id for entry in admin.list_groups(types=[kind])}
    with pytest.raises(ItemsRefused, match="NON_EMPTY_GROUP"):
        admin.delete_groups([group_id])
    with pytest.raises(everlog.Refused, match="NON_EMPTY_GROUP"):
        admin.reset_group_offsets(group_id, ToEarliest(), {topic: None})


def test_lag_is_counted_in_records_and_time(
    admin: everlog.Admin, topic: str, member: tuple[Any, str]
) -> None:
    consumer, group_id = member
    consumer.commit(offsets=[_kafka.TopicPartition(topic, 0, 4)], asynchronous=False)

    lags = {entry.place: entry for entry in admin.group_lag(group_id)}

    first, second = lags[TopicPartition(topic, 0)], lags[TopicPartition(topic, 1)]
    assert (first.committed and first.committed.offset, first.end, first.lag) == (4, 10, 6)
    assert first.lag_ms is not None
    assert first.lag_ms >= 360_000
    assert first.member is not None
    assert (second.committed, second.lag) == (None, None)


def test_a_static_member_is_removed_at_once(
    admin: everlog.Admin, member: tuple[Any, str], request: pytest.FixtureRequest
) -> None:
    if "[consumer]" in request.node.name:
        pytest.skip("members of the newer protocol leave by heartbeat")
    consumer, group_id = member
    consumer.close()  # A static member stays until its session times out.
    assert len(admin.describe_group(group_id).members) == 1

    with pytest.raises(everlog.Refused, match="member 'nobody'"):
        admin.remove_group_members(group_id, ["nobody"])
    assert admin.remove_group_members(group_id, ["first"]) == ["first"]

    assert admin.describe_group(group_id).members == ()
    assert admin.remove_group_members(group_id) == []


def test_offsets_are_written_listed_and_deleted(
    admin: everlog.Admin, topic: str, fresh_topic: FreshTopic
) -> None:
    group_id, zero, one = fresh_topic(), TopicPartition(topic, 0), TopicPartition(topic, 1)

    admin.alter_group_offsets(group_id, {zero: OffsetAndMetadata(7, "by hand"), one: 0})

    found = admin.list_group_offsets(group_id)
    assert (found[zero].offset, found[zero].metadata, found[one].offset) == (7, "by hand", 0)
    assert list(admin.list_group_offsets(group_id, [one], require_stable=True)) == [one]
    admin.delete_group_offsets(group_id, [one])
    assert list(admin.list_group_offsets(group_id)) == [zero]
    admin.delete_groups([group_id])
    assert admin.list_group_offsets(group_id) == {}


def test_groups_that_do_not_exist_are_named_all_together(
    admin: everlog.Admin, topic: str, fresh_topic: FreshTopic
) -> None:
    known, one, two = fresh_topic(), fresh_topic(), fresh_topic()
    admin.alter_group_offsets(known, {TopicPartition(topic, 0): 1})

    with pytest.raises(ItemsRefused) as undescribed:
        admin.describe_groups([known, one, two])
    with pytest.raises(ItemsRefused) as undeleted:
        admin.delete_groups([one, known, two])

    assert set(undescribed.value.errors) == set(undeleted.value.errors) == {one, two}
    assert undescribed.value.done[known].state == "Empty"
    assert undeleted.value.code is everlog.ErrorCode.GROUP_ID_NOT_FOUND
    assert "group " + repr(two) in str(undeleted.value)


def test_offsets_are_reset_within_what_the_log_holds(
    admin: everlog.Admin, topic: str, fresh_topic: FreshTopic
) -> None:
    group_id, zero = fresh_topic(), TopicPartition(topic, 0)

    plan = admin.reset_group_offsets(group_id, ToOffset(99), {topic: None}, dry_run=True)
    assert (plan.is_new, [move.to for move in plan.moves]) == (True, [10, 0])
    assert admin.list_group_offsets(group_id) == {}

    admin.reset_group_offsets(group_id, ToOffset(6), {topic: [0]})
    assert admin.list_group_offsets(group_id)[zero].offset == 6
    admin.reset_group_offsets(group_id, ShiftBy(-2))
    assert admin.list_group_offsets(group_id)[zero].offset == 4
    half = Timestamp(int(time.time() * 1000) - 330_000)
    (move,) = admin.reset_group_offsets(group_id, ToTime(half)).moves
    assert (move.before, move.to) == (4, 5)
    with pytest.raises(everlog.ConfigError, match="no partition 7"):
        admin.reset_group_offsets(group_id, ToEarliest(), {topic: [7]})


def test_transactions_are_listed_described_and_their_producers_fenced(
    admin: everlog.Admin, bootstrap: str, topic: str, fresh_topic: FreshTopic
) -> None:
    name, place = fresh_topic(), TopicPartition(topic, 1)
    producer = _kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=1)
    producer.flush(PATIENCE_S)

    found = admin.describe_transaction(name)
    assert (found.state, list(found.partitions)) == ("Ongoing", [place])
    assert found.started_at is not None
    listed = {entry.transactional_id: entry for entry in admin.list_transactions(states=["Ongoing"])}
    assert listed[name].producer_id == found.producer_id
    assert name not in {entry.transactional_id for entry in admin.list_transactions(longer_than_ms=3_600_000)}
    (active,) = admin.describe_producers([place])[place]
    assert (active.producer_id, active.txn_start) == (found.producer_id, 0)
    assert admin.find_hanging_transactions([active], 0) == []

    fenced = admin.fence_producer(name)

    assert fenced.producer_epoch > found.producer_epoch or fenced.producer_id != found.producer_id
    with pytest.raises(_kafka.KafkaException):
        producer.commit_transaction(PATIENCE_S)
    with pytest.raises(ItemsRefused) as missing:
        admin.describe_transactions([name, "no-such-id"])
    assert set(missing.value.errors) == {"no-such-id"}
    assert missing.value.code is everlog.ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_one_partition_s_transaction_is_aborted_past_its_coordinator(
    admin: everlog.Admin, bootstrap: str, topic: str, fresh_topic: FreshTopic
) -> None:
    place = TopicPartition(topic, 1)
    producer = _kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": fresh_topic()})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=1)
    producer.flush(PATIENCE_S)
    (active,) = admin.describe_producers([place])[place]
    stable = admin.list_offsets([place], isolation_level="read_committed")[place]
    assert stable is not None
    assert stable.offset == 0

    admin.abort_transaction(active)

    (after,) = admin.describe_producers([place])[place]
    assert after.txn_start is None
    ended = admin.list_offsets([place], isolation_level="read_committed")[place]
    assert ended is not None
    assert ended.offset == 2
