"""What every API of groups and transactions answers where its coordinator is not, or is not ready."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC
from everlog.model.errors import ErrorCode
from everlog.wire.apis import ApiKey
from everlog.wire.message import Message
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from everlog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from everlog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from everlog.wire.messages.delete_groups import DeleteGroupsRequest
from everlog.wire.messages.describe_groups import DescribeGroupsRequest
from everlog.wire.messages.describe_transactions import DescribeTransactionsRequest
from everlog.wire.messages.end_txn import EndTxnRequest
from everlog.wire.messages.heartbeat import HeartbeatRequest
from everlog.wire.messages.init_producer_id import InitProducerIdRequest
from everlog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from everlog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from everlog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from everlog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from everlog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.group_calls import a_commit
from tests.unit.broker.handlers.test_classic_groups import a_join, a_sync
from tests.unit.broker.joined import Host, JoinedCluster

STAMP = ProducerStamp(1, 0)


@dataclass(frozen=True)
class Question:
    """A request, and where its answer has the code."""

    request: Callable[[], Message]
    version: int
    code: Callable[[Any], int]


def _add_partitions(*, verify_only: bool) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id="t",
                producer_id=STAMP.producer_id,
                producer_epoch=STAMP.epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
            )
        ]
    )


def _added(answer: Any) -> int:
    return int(answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code)


def _txn_commit() -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=STAMP.producer_id,
        producer_epoch=STAMP.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=partitions)],
    )


def _offset_delete() -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    return OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="orders", partitions=partitions)]
    )


def _top(answer: Any) -> int:
    return int(answer.error_code)


GROUPS = {
    "JoinGroup": Question(a_join, 9, _top),
    "SyncGroup": Question(lambda: a_sync("m"), 5, _top),
    "Heartbeat": Question(lambda: HeartbeatRequest(group_id="g", member_id="m"), 4, _top),
    "LeaveGroup": Question(
        lambda: LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 5, _top
    ),
    "OffsetCommit": Question(
        lambda: a_commit("g", "orders", (0, 1)), 9, lambda answer: answer.topics[0].partitions[0].error_code
    ),
    "OffsetFetch": Question(
        lambda: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
        9,
        lambda answer: answer.groups[0].error_code,
    ),
    "OffsetFetch of one group": Question(lambda: OffsetFetchRequest(group_id="g", topics=None), 7, _top),
    "OffsetDelete": Question(_offset_delete, 0, _top),
    "TxnOffsetCommit": Question(_txn_commit, 4, lambda answer: answer.topics[0].partitions[0].error_code),
    "DescribeGroups": Question(
        lambda: DescribeGroupsRequest(groups=["g"]), 6, lambda answer: answer.groups[0].error_code
    ),
    "DeleteGroups": Question(
        lambda: DeleteGroupsRequest(groups_names=["g"]), 2, lambda answer: answer.results[0].error_code
    ),
    "ConsumerGroupHeartbeat": Question(
        lambda: ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        ),
        1,
        _top,
    ),
    "ConsumerGroupDescribe": Question(
        lambda: ConsumerGroupDescribeRequest(group_ids=["g"]),
        1,
        lambda answer: answer.groups[0].error_code,
    ),
}

TRANSACTIONS = {
    "InitProducerId": Question(
        lambda: InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000), 5, _top
    ),
    "AddPartitionsToTxn": Question(lambda: _add_partitions(verify_only=False), 5, _added),
    "AddPartitionsToTxn to verify": Question(lambda: _add_partitions(verify_only=True), 5, _added),
    "AddOffsetsToTxn": Question(
        lambda: AddOffsetsToTxnRequest(
            transactional_id="t",
            producer_id=STAMP.producer_id,
            producer_epoch=STAMP.epoch,
            group_id="g",
        ),
        4,
        _top,
    ),
    "EndTxn": Question(
        lambda: EndTxnRequest(
            transactional_id="t", producer_id=STAMP.producer_id, producer_epoch=STAMP.epoch, committed=True
        ),
        5,
        _top,
    ),
    "DescribeTransactions": Question(
        lambda: DescribeTransactionsRequest(transactional_ids=["t"]),
        0,
        lambda answer: answer.transaction_states[0].error_code,
    ),
}

ALL = {**GROUPS, **TRANSACTIONS}


def a_cluster() -> JoinedCluster:
    """Three brokers, both coordinators on the first, both logs written to."""
    cluster = JoinedCluster()
    cluster.create_topic("orders", 1)
    topics = cluster[1].broker.coordinators.internal_topics
    for topic in (OFFSETS_TOPIC, TXN_TOPIC):
        topics.ensure(topic, lambda refusal: None)
        cluster.settle()
        cluster.move(topic, 1)
    return cluster


def codes(host: Host, *names: str) -> dict[str, ErrorCode]:
    """What a broker answers each question with."""
    found: dict[str, ErrorCode] = {}
    for name in names or ALL:
        question = ALL[name]
        found[name] = ErrorCode(question.code(host.ask(question.request(), question.version, Message)))
    return found


def test_a_broker_that_does_not_coordinate_says_so() -> None:
    cluster = a_cluster()

    assert codes(cluster[2]) == dict.fromkeys(ALL, ErrorCode.NOT_COORDINATOR)


def test_a_coordinator_whose_log_is_not_all_committed_asks_for_patience() -> None:
    cluster = a_cluster()
    cluster.standing = {3}
    client = cluster[1].client()
    client.ask(a_commit("g", "orders", (0, 1)), 9)
    client.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000), 5)
    cluster.pass_time(50)
    for topic in (OFFSETS_TOPIC, TXN_TOPIC):
        assert cluster[2].replica(topic).opened().end_offset == 1
        cluster.move(topic, 2)

    # A heartbeat is let pass, as in Kafka: whoever is a member will be one when the log is read.
    expected = {**dict.fromkeys(ALL, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), "Heartbeat": ErrorCode.NONE}
    assert codes(cluster[2]) == expected


def test_a_coordinator_with_too_few_in_sync_lets_clients_look_for_another() -> None:
    cluster = a_cluster()
    for topic in (OFFSETS_TOPIC, TXN_TOPIC):
        cluster[1].replica(topic).min_insync = 2
        cluster.move(topic, 1, isr=[1])

    found = codes(cluster[1], "OffsetCommit", "InitProducerId", "ConsumerGroupHeartbeat")

    assert set(found.values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_lists_are_of_what_a_broker_coordinates_and_never_half() -> None:
    cluster = a_cluster()
    assert cluster[1].ask(a_commit("g", "orders", (0, 1)), 9, Message)

    groups = [cluster[number].ask(ListGroupsRequest(), 5, ListGroupsResponse) for number in (1, 2)]
    assert [[one.group_id for one in answer.groups] for answer in groups] == [["g"], []]
    cluster.standing = {3}
    client = cluster[1].client()
    client.ask(a_commit("g", "orders", (0, 2)), 9)
    client.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000), 5)
    cluster.pass_time(50)
    cluster.move(OFFSETS_TOPIC, 2)
    cluster.move(TXN_TOPIC, 2)

    listed = cluster[2].ask(ListGroupsRequest(), 5, ListGroupsResponse)
    transactions = cluster[2].ask(ListTransactionsRequest(), 1, ListTransactionsResponse)
    assert {listed.error_code, transactions.error_code} == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def test_no_api_of_groups_or_transactions_is_left_out() -> None:
    told = {ApiKey(question.request().KEY or 0) for question in ALL.values()}

    assert told == {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.DESCRIBE_TRANSACTIONS,
    }
