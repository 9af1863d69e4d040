"""Lookups by time in logs of many segments, which wait for their turn rather than have others wait (L7)."""

import pytest

from everlog.model.errors import ErrorCode
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from everlog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.broker.simulated import Client, SimulatedNode, a_batch, produced

NOON = 1_700_000_000_000
MAX_TIMESTAMP = -3
SEGMENTS = 40


@pytest.fixture
def restarted(monkeypatch: pytest.MonkeyPatch) -> SimulatedNode:
    """A node that has found its segments on disk, and looks at four of them in one go."""
    monkeypatch.setattr("everlog.broker.slices._MOST_LOOKS", 4)
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()
    for n in range(SEGMENTS):
        assert produced(client, "orders", a_batch(b"%d" % n, timestamp=NOON + n)).error_code == 0
        node.replica("orders").opened().roll()
    node.node.close()
    node.start()
    return node


def asked(*moments: int, topic: str = "orders") -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=moment) for moment in moments]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=partitions)])


def offsets(answer: ListOffsetsResponse) -> list[int]:
    return [one.offset for one in answer.topics[0].partitions]


def ring_until_answered(node: SimulatedNode, client: Client) -> int:
    rings = 0
    while not client.frames:
        node.ring()
        rings += 1
        assert rings < SEGMENTS
    return rings


@pytest.mark.parametrize("moment", [NOON + SEGMENTS - 1, MAX_TIMESTAMP])
def test_the_first_lookup_after_a_restart_lets_others_go_first(restarted: SimulatedNode, moment: int) -> None:
    client, other = restarted.client(), restarted.client()

    client.ask(asked(moment), 7)
    other.ask(MetadataRequest(topics=[]), 9)

    assert client.frames == []
    assert other.take(MetadataResponse).brokers
    assert ring_until_answered(restarted, client) > SEGMENTS // 4 - 3
    assert offsets(client.take(ListOffsetsResponse)) == [SEGMENTS - 1]
    # From then on it is known.
    client.ask(asked(moment), 7)
    client.ask(asked(NOON + 3), 7)
    assert offsets(client.take(ListOffsetsResponse)) == [SEGMENTS - 1]
    assert offsets(client.take(ListOffsetsResponse)) == [3]


def test_lookups_that_wait_have_their_turns_and_those_that_need_nothing_do_not_wait(
    restarted: SimulatedNode,
) -> None:
    first, second, third = restarted.client(), restarted.client(), restarted.client()

    first.ask(asked(NOON + SEGMENTS - 1), 7)
    second.ask(asked(NOON + SEGMENTS - 2), 7)
    third.ask(asked(NOON + 1), 7)

    assert offsets(third.take(ListOffsetsResponse)) == [1]
    ring_until_answered(restarted, first)
    ring_until_answered(restarted, second)
    assert offsets(first.take(ListOffsetsResponse)) == [SEGMENTS - 1]
    assert offsets(second.take(ListOffsetsResponse)) == [SEGMENTS - 2]
    assert len(restarted.broker.slices) == 0


def test_a_partition_that_goes_while_a_lookup_waits_is_answered_for(restarted: SimulatedNode) -> None:
    client = restarted.client()
    client.ask(asked(NOON + SEGMENTS - 1), 7)

    restarted.broker.give_up(restarted.broker.replicas.remove_topic("orders"))

    ring_until_answered(restarted, client)
    codes = [one.error_code for one in client.take(ListOffsetsResponse).topics[0].partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] or codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_nobody_is_answered_who_has_gone(restarted: SimulatedNode) -> None:
    client = restarted.client()
    client.ask(asked(NOON + SEGMENTS - 1), 7)
    client.close()
    client.session.closed()

    for _ in range(SEGMENTS):
        restarted.ring()

    assert client.frames == []
    assert len(restarted.broker.slices) == 0
