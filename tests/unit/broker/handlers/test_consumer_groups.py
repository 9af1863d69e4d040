"""ConsumerGroupHeartbeat and ConsumerGroupDescribe in all versions, and the feature behind them (C3)."""

import pytest

from everlog.coordinator.group.consumer_pace import IDLE_MS, WAITING_MS
from everlog.model.errors import ErrorCode
from everlog.model.ids import Uuid
from everlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from everlog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from everlog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.unit.broker.group_calls import find_coordinator
from tests.unit.broker.handlers.nodes import SimNode

GROUP = "readers"


def a_node(**given: str) -> SimNode:
    node = SimNode(None, **given)
    node.create_topic("orders", 2)
    find_coordinator(node)
    return node


def joining(member_id: str, **more: object) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    for name, value in more.items():
        setattr(request, name, value)
    return request


def staying(
    member_id: str, epoch: int, owned: list[TopicPartitions] | None = None
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, topic_partitions=owned
    )


def beat(
    node: SimNode, request: ConsumerGroupHeartbeatRequest, version: int = 1
) -> ConsumerGroupHeartbeatResponse:
    return node.ask(request, version, ConsumerGroupHeartbeatResponse)


def has(answer: ConsumerGroupHeartbeatResponse) -> list[tuple[Uuid, list[int]]] | None:
    if answer.assignment is None:
        return None
    return [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_lets_a_member_join_and_stay(version: int) -> None:
    node = a_node()
    topic_id = node.broker.image.topics["orders"].id

    joined = beat(node, joining("a"), version)
    stays = beat(node, staying("a", joined.member_epoch), version)

    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "a", 1)
    assert has(joined) == [(topic_id, [0, 1])]
    assert joined.heartbeat_interval_ms == IDLE_MS
    assert (stays.error_code, stays.member_epoch, has(stays)) == (0, 1, None)


def test_a_member_that_waits_for_partitions_is_told_to_ask_again_soon() -> None:
    node = a_node()
    topic_id = node.broker.image.topics["orders"].id
    beat(node, joining("a"))

    waiting = beat(node, joining("b"))
    assert (has(waiting), waiting.heartbeat_interval_ms) == ([], WAITING_MS)
    told = beat(node, staying("a", 1))
    assert has(told) == [(topic_id, [0])]
    beat(node, staying("a", 1, [TopicPartitions(topic_id=topic_id, partitions=[0])]))
    got = beat(node, staying("b", waiting.member_epoch))

    assert (has(got), got.heartbeat_interval_ms) == ([(topic_id, [1])], IDLE_MS)


def test_many_members_are_told_to_come_less_often() -> None:
    node = a_node(**{"group.consumer.heartbeat.rate.max": "1"})
    beat(node, joining("a"))

    answer = beat(node, joining("b"))

    assert answer.heartbeat_interval_ms == 2000


def test_the_broker_makes_a_member_id_in_version_0_only() -> None:
    node = a_node()

    assert beat(node, joining(""), 0).member_id
    assert beat(node, joining(""), 1).error_code == ErrorCode.INVALID_REQUEST


def test_a_refusal_says_why() -> None:
    node = a_node()

    answer = beat(node, joining("a", server_assignor="mine"))

    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == "the assignor 'mine' is not served, expected one of uniform, range"


def test_a_broker_can_be_told_to_serve_classic_groups_only() -> None:
    node = a_node(**{"group.coordinator.rebalance.protocols": "classic"})

    assert beat(node, joining("a")).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_member_is_fenced_and_let_go_as_time_passes() -> None:
    node = a_node()
    beat(node, joining("a"))

    assert beat(node, staying("a", 5)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    node.pass_time(45_000)
    assert beat(node, staying("a", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_topic_that_a_pattern_matches_is_given_out() -> None:
    node = a_node()
    joined = beat(node, joining("a", subscribed_topic_names=None, subscribed_topic_regex="logs-.*"))
    assert has(joined) == []

    node.create_topic("logs-1", 1)
    answer = beat(node, staying("a", joined.member_epoch))

    assert has(answer) == [(node.broker.image.topics["logs-1"].id, [0])]


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_describes_a_group(version: int) -> None:
    node = a_node()
    beat(node, joining("a", instance_id="one"))
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP, "nobody"], include_authorized_operations=True)

    found, missing = node.ask(request, version, ConsumerGroupDescribeResponse).groups

    assert (found.error_code, found.group_state, found.group_epoch, found.assignor_name) == (
        0,
        "Stable",
        1,
        "uniform",
    )
    (member,) = found.members
    assert (member.member_id, member.instance_id) == ("a", "one")
    assert member.member_type == (1 if version >= 1 else -1)
    assert [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions] == [
        ("orders", [0, 1])
    ]
    assert found.authorized_operations > 0
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_clients_are_told_that_groups_have_the_newer_protocol() -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")

    answer = a_node().ask(request, 4, ApiVersionsResponse)

    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    assert supported["group.version"] == (0, 1)
    assert finalized["group.version"] == 1
