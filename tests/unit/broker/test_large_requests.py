"""Requests that name very much, or the same again and again: refused, answered once, or in slices (O5)."""

import struct

import pytest

from everlog.broker.dispatch import SERVED
from everlog.broker.request_limits import MOST_ELEMENTS, most_elements
from everlog.model.errors import ErrorCode, ProtocolError
from everlog.wire.apis import ApiKey
from everlog.wire.codec import encode_response
from everlog.wire.long_answers import MOST_AT_ONCE, LongAnswer
from everlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignableTopic,
)
from everlog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from everlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from everlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from everlog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from everlog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from everlog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.unit.broker.group_calls import a_commit, commit, find_coordinator
from tests.unit.broker.handlers.nodes import SimNode

TOPIC = 2


@pytest.fixture(scope="module")
def node() -> SimNode:
    node = SimNode()
    node.create_topic("orders", 2)
    find_coordinator(node)
    find_coordinator(node, key_type=1)
    commit(node, a_commit("g", "orders", (0, 5), (1, 7), metadata="a long note"))
    return node


def names(count: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=f"n{number}") for number in range(count)])


def test_a_request_names_as_much_as_its_limit_and_no_more(node: SimNode) -> None:
    assert len(node.ask(names(MOST_ELEMENTS), 1, MetadataResponse).topics) == MOST_ELEMENTS

    with pytest.raises(ProtocolError, match=f"topics: count {MOST_ELEMENTS + 1} is more than"):
        node.client().ask(names(MOST_ELEMENTS + 1), 1)


def test_ten_thousand_partitions_fit_into_every_request_of_a_client() -> None:
    assert min(most_elements(key) for key in SERVED) >= 20_000
    assert most_elements(ApiKey.ALTER_PARTITION_REASSIGNMENTS) >= 10_000 * (1 + 5)


def test_a_reassignment_of_too_many_topics_is_refused_as_a_whole(node: SimNode) -> None:
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=f"n{number}") for number in range(10_001)]
    )

    answer = node.ask(request, 1, AlterPartitionReassignmentsResponse)

    assert (answer.error_code, answer.responses) == (ErrorCode.POLICY_VIOLATION, [])


def test_each_of_too_many_topics_is_told_that_they_are_too_many(node: SimNode) -> None:
    topics = [CreatableTopic(name=f"new-{number}", num_partitions=1) for number in range(10_001)]

    answer = node.ask(CreateTopicsRequest(topics=topics, timeout_ms=1_000), 5, CreateTopicsResponse)

    assert [topic.name for topic in answer.topics] == [topic.name for topic in topics]
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert "new-0" not in node.broker.image.topics


def test_a_group_is_described_once_however_often_it_is_named(node: SimNode) -> None:
    classic = node.ask(DescribeGroupsRequest(groups=["g", "h", "g"]), 5, DescribeGroupsResponse)
    consumer = node.ask(
        ConsumerGroupDescribeRequest(group_ids=["g", "h", "g"]), 0, ConsumerGroupDescribeResponse
    )

    assert [group.group_id for group in classic.groups] == ["g", "h"]
    assert [group.group_id for group in consumer.groups] == ["g", "h"]


def test_a_transaction_is_described_once_however_often_it_is_named(node: SimNode) -> None:
    request = DescribeTransactionsRequest(transactional_ids=["t", "u", "t"])

    answer = node.ask(request, 0, DescribeTransactionsResponse)

    assert [state.transactional_id for state in answer.transaction_states] == ["t", "u"]


def test_producers_of_a_partition_are_described_once_however_often_it_is_named(node: SimNode) -> None:
    topics = [
        TopicRequest(name="orders", partition_indexes=[1, 0, 1]),
        TopicRequest(name="x"),
        TopicRequest(name="orders", partition_indexes=[0]),
    ]

    answer = node.ask(DescribeProducersRequest(topics=topics), 0, DescribeProducersResponse)

    assert [(topic.name, [one.partition_index for one in topic.partitions]) for topic in answer.topics] == [
        ("orders", [1, 0]), ("x", []),
    ]  # fmt: skip


def test_a_committed_offset_is_told_once_however_often_it_is_asked_for(node: SimNode) -> None:
    again = OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1, 0])
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=None),
        OffsetFetchRequestGroup(group_id="g", topics=None),
        OffsetFetchRequestGroup(group_id="g", topics=[again, again]),
    ]

    answer = node.ask(OffsetFetchRequest(groups=groups), 9, OffsetFetchResponse)

    told = [
        [one.committed_offset for topic in group.topics for one in topic.partitions]
        for group in answer.groups
    ]
    assert told == [[5, 7], [5, 7]]


def test_an_offset_of_a_partition_that_is_named_twice_is_not_listed(node: SimNode) -> None:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=0) for index in (0, 1, 0)]

    answer = node.ask(
        ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=partitions)]),
        7,
        ListOffsetsResponse,
    )

    assert [one.error_code for one in answer.topics[0].partitions] == [
        ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST,
    ]  # fmt: skip


# --- configs


def configs(*topics: str, keys: list[str] | None = None) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=keys)
            for name in topics
        ]
    )


def test_configs_of_a_topic_are_described_once_for_each_choice_of_names(node: SimNode) -> None:
    request = configs("orders", "orders")
    request.resources += configs("orders", "x", keys=["retention.ms"]).resources

    answer = node.ask(request, 4, DescribeConfigsResponse)

    assert [(one.resource_name, len(one.configs) > 1) for one in answer.results] == [
        ("orders", True), ("orders", False), ("x", False),
    ]  # fmt: skip


@pytest.mark.parametrize("version", range(1, 5))
def test_configs_of_many_topics_are_described_a_few_at_a_time(
    node: SimNode, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everlog.broker.slices._MOST_LOOKS", 10)
    client, other = node.client(), node.client()
    wanted = [f"t{number}" for number in range(300)]

    client.ask(configs("orders", *wanted), version)
    other.ask(MetadataRequest(topics=[]), 9)

    assert client.frames == []
    assert other.take(MetadataResponse).brokers
    rings = 0
    while not client.frames:
        node.ring()
        rings += 1
    assert rings > 20
    answer = client.take(DescribeConfigsResponse)
    assert [one.resource_name for one in answer.results] == ["orders", *wanted]
    assert {entry.name for entry in answer.results[0].configs} > {"retention.ms", "cleanup.policy"}


def test_nothing_more_is_described_to_a_client_that_has_gone(
    node: SimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everlog.broker.slices._MOST_LOOKS", 10)
    client = node.client()
    client.ask(configs(*(f"t{number}" for number in range(300))), 4)

    client.close()
    client.session.closed()
    node.ring()

    assert len(node.broker.slices) == 0
    assert client.frames == []


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("count", [0, 1, MOST_AT_ONCE, 1_000])
def test_an_answer_written_a_little_at_a_time_is_the_answer_written_at_once(version: int, count: int) -> None:
    results = [DescribeConfigsResult(resource_name=f"t{number}") for number in range(count)]

    def answer_with(some: list[DescribeConfigsResult]) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(results=some)

    answer = LongAnswer(answer_with, version, 7)

    for at in range(0, count, MOST_AT_ONCE):
        answer.add(results[at : at + MOST_AT_ONCE])

    assert b"".join(answer.frame()) == encode_response(DescribeConfigsResponse(results=results), version, 7)
    assert struct.unpack_from(">i", b"".join(answer.frame()))[0] == len(b"".join(answer.frame())) - 4
