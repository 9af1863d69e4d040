"""P5, C6: the progress of a consumer as a part of a transaction, on a real broker."""

import time

import pytest

from everlog import (
    Consumer,
    ErrorCode,
    GroupMetadata,
    OffsetAndMetadata,
    Producer,
    Refused,
    TopicPartition,
    TransactionFailed,
)
from tests.client.conftest import NewTopic, OpenProducer
from tests.client.log_reading import committed_offset, values

PATIENCE_S = 60.0


@pytest.mark.parametrize("commit", [True, False])
def test_p5_offsets_count_with_the_transaction(
    txn_version: int, commit: bool, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    source, target, group = new_topic(2), new_topic(), f"g-{time.time_ns()}"
    place = TopicPartition(source, 1)
    producer = opened()
    producer.begin_transaction()
    producer.send(target, b"made of it")
    producer.send_offsets_to_transaction({place: OffsetAndMetadata(5, "so far")}, GroupMetadata(group))
    producer.send_offsets_to_transaction({place: OffsetAndMetadata(7)}, GroupMetadata(group))
    if commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)

    assert committed_offset(bootstrap, group, source, 1) == (7 if commit else None)
    assert values(bootstrap, target) == ([b"made of it"] if commit else [])


def test_p5_offsets_of_a_member_that_is_none_fail_the_transaction(
    txn_version: int, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    source, group = new_topic(), f"g-{time.time_ns()}"
    offsets = {TopicPartition(source, 0): OffsetAndMetadata(5)}
    producer = opened()
    producer.begin_transaction()
    producer.send(source, b"x").result(PATIENCE_S)

    with pytest.raises(TransactionFailed) as raised:
        producer.send_offsets_to_transaction(offsets, GroupMetadata(group, 3, "nobody"))
    assert isinstance(raised.value.__cause__, Refused)
    assert raised.value.__cause__.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    with pytest.raises(TransactionFailed):
        producer.commit_transaction(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)
    assert committed_offset(bootstrap, group, source, 0) is None


def test_p5_offsets_of_no_partitions_are_nothing(opened: OpenProducer) -> None:
    producer = opened()
    with producer.transaction():
        producer.send_offsets_to_transaction({}, GroupMetadata("g"))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_p5_a_group_refuses_the_offsets_of_a_member_that_it_went_on_without(
    txn_version: int, protocol: str, opened: OpenProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    source, target, group = new_topic(2), new_topic(), f"g-{time.time_ns()}"
    with Producer(bootstrap) as plain:
        for number in range(20):
            plain.send(source, b"%d" % number, partition=number % 2)
    options = {
        "group_id": group,
        "topics": [source],
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    with Consumer(bootstrap, **options) as first:  # type: ignore[arg-type]  # one dict for two of them
        old = _read_all(first, 20)
        before = first.group_metadata()
    with Consumer(bootstrap, **options) as second:  # type: ignore[arg-type]
        new = _read_all(second, 20)
        assert old == new == {TopicPartition(source, 0): 10, TopicPartition(source, 1): 10}
        late, rightful = opened(), opened()
        late.begin_transaction()
        late.send(target, b"of the first")
        with pytest.raises(TransactionFailed) as raised:
            late.send_offsets_to_transaction(old, before)
        assert isinstance(raised.value.__cause__, Refused)
        assert raised.value.__cause__.code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.STALE_MEMBER_EPOCH,
        )
        late.abort_transaction(PATIENCE_S)
        with rightful.transaction():
            rightful.send(target, b"of the second")
            rightful.send_offsets_to_transaction(new, second.group_metadata())
        assert second.committed(*new) == {place: OffsetAndMetadata(at) for place, at in new.items()}

    assert values(bootstrap, target) == [b"of the second"]


def _read_all(consumer: Consumer, count: int) -> dict[TopicPartition, int]:
    """Read so many records, and return where the consumer is then."""
    deadline = time.monotonic() + PATIENCE_S
    read = 0
    while read < count:
        assert time.monotonic() < deadline
        read += len(consumer.poll(1.0))
    return {place: consumer.position(place) for place in consumer.assignment()}
