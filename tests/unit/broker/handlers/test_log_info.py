"""GetReplicaLogInfo: how far the logs of a broker reach, as a controller asks it (KIP-966)."""

import pytest

from everlog.broker.handlers import get_replica_log_info
from everlog.model.errors import ErrorCode
from everlog.model.ids import Uuid
from everlog.wire.messages.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    LogInfoTopic,
    PartitionLogInfo,
)
from everlog.wire.messages.produce import ProduceResponse
from tests.unit.broker.simulated import SimulatedNode, a_batch, a_produce


def a_node(partitions: int = 2) -> tuple[SimulatedNode, Uuid]:
    node = SimulatedNode()
    node.create_topic("orders", partitions)
    return node, node.broker.image.topics["orders"].id


def ask(node: SimulatedNode, *topics: tuple[Uuid, list[int]]) -> GetReplicaLogInfoResponse:
    request = GetReplicaLogInfoRequest(
        topic_partitions=[LogInfoTopic(topic_id=topic, partitions=numbers) for topic, numbers in topics]
    )
    return node.client().call(request, 0, GetReplicaLogInfoResponse)


def infos(answer: GetReplicaLogInfoResponse) -> list[PartitionLogInfo]:
    return [one for topic in answer.topic_partition_log_info_list for one in topic.partition_log_info]


def said(one: PartitionLogInfo) -> tuple[int, int, int, int]:
    return one.partition, one.error_code, one.last_written_leader_epoch, one.log_end_offset


def test_a_log_that_has_records_and_one_that_never_had_any() -> None:
    node, topic = a_node()
    node.client().call(a_produce("orders", (0, a_batch(b"a", b"b"))), 9, ProduceResponse)

    answer = ask(node, (topic, [0, 1]))

    assert [said(one) for one in infos(answer)] == [(0, 0, 0, 2), (1, 0, -1, 0)]
    assert [one.current_leader_epoch for one in infos(answer)] == [0, 0]
    assert answer.broker_epoch == node.broker.epoch
    assert not answer.truncated


def test_what_lies_behind_damage_does_not_count() -> None:
    node, topic = a_node()
    node.client().call(a_produce("orders", (0, a_batch(b"a", b"b"))), 9, ProduceResponse)
    log = node.replica("orders", 0).opened()
    log.damaged_at = log.start_offset

    assert [said(one) for one in infos(ask(node, (topic, [0])))] == [(0, 0, -1, 0)]


def test_what_is_not_here_is_said_so() -> None:
    node, topic = a_node()

    found = infos(ask(node, (topic, [7]), (Uuid(bytes(15) + b"\xff"), [0])))

    assert [one.error_code for one in found] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


def test_nothing_is_asked_for() -> None:
    node, topic = a_node()

    assert infos(ask(node)) == infos(ask(node, (topic, []))) == []
    nothing = GetReplicaLogInfoRequest(topic_partitions=None)
    assert infos(node.client().call(nothing, 0, GetReplicaLogInfoResponse)) == []


def test_more_than_one_answer_holds_is_left_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_replica_log_info, "_MOST_PARTITIONS", 1)
    node, topic = a_node()

    answer = ask(node, (topic, [1, 0]))

    assert answer.truncated
    assert [one.partition for one in infos(answer)] == [1]


def test_clients_on_a_listener_of_their_own_are_told_nothing() -> None:
    node, topic = a_node()
    request = GetReplicaLogInfoRequest(topic_partitions=[LogInfoTopic(topic_id=topic, partitions=[0])])

    answer = node.client("CLIENTS").call(request, 0, GetReplicaLogInfoResponse)

    assert [said(one) for one in infos(answer)] == [(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0, 0)]
