"""Fetches that wait: what they take, how many there may be, and for how long (O5)."""

import pytest

from everlog.broker.parked import FETCH_BYTES, PARTITION_BYTES, SWEEP_MS
from everlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.unit.broker.simulated import SimulatedNode, a_batch, a_fetch, produced

MIB = 1 << 20
IDLE_MS = 600_000
FOREVER = 2**31 - 1


def a_node(partitions: int = 1, **overrides: str) -> SimulatedNode:
    node = SimulatedNode(None, **overrides)
    node.create_topic("orders", partitions)
    return node


def named_again_and_again(times: int, offset: int = 0) -> FetchRequest:
    partitions = [
        FetchPartition(partition=0, fetch_offset=number % 7, partition_max_bytes=MIB)
        for number in range(times)
    ]
    partitions.append(FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MIB))
    return FetchRequest(
        max_wait_ms=FOREVER,
        min_bytes=1,
        max_bytes=MIB,
        topics=[FetchTopic(topic="orders", partitions=partitions)],
    )


def test_a_partition_that_is_named_again_and_again_waits_once_with_what_was_said_last() -> None:
    node = a_node()
    client = node.client()

    client.ask(named_again_and_again(10_000), 4)

    assert node.broker.parked.held_bytes == FETCH_BYTES + PARTITION_BYTES
    produced(node.client(), "orders", a_batch(b"a"))
    (topic,) = client.take(FetchResponse).responses
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, 0)]
    assert node.broker.parked.held_bytes == 0


def test_no_fetch_waits_for_longer_than_a_connection_may_be_silent() -> None:
    node = a_node()
    client = node.client()

    client.ask(a_fetch("orders", 0, max_wait_ms=FOREVER), 12)
    node.pass_time(IDLE_MS - 1)
    assert client.frames == []
    node.pass_time(1)

    assert client.take(FetchResponse).error_code == 0


def test_beyond_what_waiting_fetches_may_take_they_are_answered_at_once() -> None:
    node = a_node(partitions=500, queued_max_request_bytes=str(MIB))
    wide, other = node.client(), node.client()
    most = MIB // (FETCH_BYTES + 500 * PARTITION_BYTES)

    for _ in range(most + 1):
        wide.ask(a_fetch("orders", *[0] * 500, max_wait_ms=FOREVER), 12)
    assert node.broker.parked.held_bytes <= MIB
    other.ask(a_fetch("orders", *[0] * 500, max_wait_ms=FOREVER), 12)

    # Its answer comes after those of the fetches before it on the same connection.
    assert wide.frames == []
    assert len(other.take(FetchResponse).responses[0].partitions) == 500
    produced(node.client(), "orders", a_batch(b"a"))
    assert len(wide.frames) == most + 1
    assert node.broker.parked.held_bytes == 0


def test_those_whose_clients_have_gone_give_way() -> None:
    node = a_node(partitions=500, queued_max_request_bytes=str(MIB))
    gone, other = node.client(), node.client()
    for _ in range(MIB // (FETCH_BYTES + 500 * PARTITION_BYTES)):
        gone.ask(a_fetch("orders", *[0] * 500, max_wait_ms=FOREVER), 12)
    other.ask(a_fetch("orders", *[0] * 500, max_wait_ms=FOREVER), 12)
    other.take(FetchResponse)

    gone.close()
    gone.session.closed()
    node.pass_time(SWEEP_MS)
    other.ask(a_fetch("orders", *[0] * 500, max_wait_ms=FOREVER), 12)

    assert other.frames == []
    assert node.broker.parked.held_bytes == FETCH_BYTES + 500 * PARTITION_BYTES
    assert all(len(replica.watchers) == 1 for replica in node.broker.replicas.by_name["orders"].values())


@pytest.mark.parametrize("wait_ms", [FOREVER, 500])
def test_fetches_that_were_answered_are_not_kept_behind_one_that_waits_for_long(wait_ms: int) -> None:
    node = a_node(partitions=2)
    patient, busy, producer = node.client(), node.client(), node.client()
    patient.ask(
        FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=MIB,
            max_bytes=MIB,
            topics=[
                FetchTopic(topic="orders", partitions=[FetchPartition(partition=1, partition_max_bytes=1)])
            ],
        ),
        12,
    )

    for number in range(2_500):
        busy.ask(a_fetch("orders", number, max_wait_ms=FOREVER), 12)
        produced(producer, "orders", a_batch(b"a"))
        busy.take(FetchResponse)

    assert len(node.broker.parked) < 1_100
    assert node.broker.parked.held_bytes == FETCH_BYTES + PARTITION_BYTES
    node.pass_time(min(wait_ms, IDLE_MS))
    assert patient.take(FetchResponse).error_code == 0
