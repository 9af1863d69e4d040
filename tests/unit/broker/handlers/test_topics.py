"""CreateTopics, DeleteTopics, CreatePartitions and DescribeTopicPartitions in all their versions (L1, O1)."""

import errno

import pytest

from everlog.broker.access import topic_operations
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.settings import INTERNAL_KEYS, TOPIC_SETTINGS, Source
from everlog.sim.faults import Fault, Kind
from everlog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from everlog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from everlog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.unit.broker.handlers.nodes import SimNode
from tests.unit.broker.handlers.test_metadata import a_node

CREATE, DELETE, MORE = range(2, 8), range(1, 7), range(4)


def a_topic(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreatableTopic:
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=given)


@pytest.mark.parametrize("version", CREATE)
def test_every_version_creates_topics_and_refuses_those_it_cannot(version: int) -> None:
    node = a_node("here")
    topics = [a_topic("fine", 3, retention_ms="5"), a_topic("here"), a_topic("bad", 0), a_topic("a/b")]

    answer = node.ask(CreateTopicsRequest(topics=topics), version, CreateTopicsResponse)

    assert [(one.name, one.error_code) for one in answer.topics] == [
        ("fine", 0),
        ("here", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("bad", ErrorCode.INVALID_PARTITIONS),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    fine, here, *_ = answer.topics
    assert fine.error_message is None
    assert here.error_message == "the topic 'here' exists already"
    assert len(node.broker.image.topics["fine"].partitions) == 3
    assert fine.topic_id == (node.broker.image.topics["fine"].id if version >= 7 else NO_UUID)
    if version >= 5:
        assert (fine.num_partitions, fine.replication_factor) == (3, 1)
        configs = {one.name: one for one in fine.configs or []}
        assert set(configs) == set(TOPIC_SETTINGS) - INTERNAL_KEYS
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", Source.TOPIC)
        assert configs["segment.bytes"].config_source == Source.DEFAULT


@pytest.mark.parametrize("version", CREATE)
def test_validate_only_creates_nothing(version: int) -> None:
    node = a_node()
    request = CreateTopicsRequest(topics=[a_topic("fine", segment_ms="9")], validate_only=True)

    answer = node.ask(request, version, CreateTopicsResponse)

    assert answer.topics[0].error_code == 0
    assert not node.broker.image.topics


@pytest.mark.parametrize("version", CREATE)
def test_no_topics_is_an_empty_answer(version: int) -> None:
    assert a_node().ask(CreateTopicsRequest(), version, CreateTopicsResponse).topics == []


def test_defaults_and_placement_by_hand() -> None:
    node = a_node(num_partitions="4")
    by_hand = CreatableTopic(
        name="hand",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
    )

    answer = node.ask(CreateTopicsRequest(topics=[a_topic("auto", -1, -1), by_hand]), 7, CreateTopicsResponse)

    assert [one.num_partitions for one in answer.topics] == [4, 1]


def test_a_disk_that_refuses_is_an_error_for_each_topic_that_may_be_tried_again() -> None:
    node = a_node()
    node.files.faults = [Fault(Kind.APPEND, errno.ENOSPC)]

    answer = node.ask(CreateTopicsRequest(topics=[a_topic("a"), a_topic("b")]), 7, CreateTopicsResponse)

    assert [one.error_code for one in answer.topics] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert not node.broker.image.topics


def test_topics_outlive_a_crash() -> None:
    node = a_node("orders")

    again = SimNode(node.files.after_crash(node.broker.random))

    assert again.broker.image.topics["orders"].id == node.broker.image.topics["orders"].id


@pytest.mark.parametrize("version", DELETE)
def test_every_version_deletes_topics_by_name(version: int) -> None:
    node = a_node("a", "b")
    names = ["a", "x"]
    request = (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])
        if version >= 6
        else DeleteTopicsRequest(topic_names=names)
    )

    answer = node.ask(request, version, DeleteTopicsResponse)

    assert [(one.name, one.error_code) for one in answer.responses] == [
        ("a", 0), ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]  # fmt: skip
    assert list(node.broker.image.topics) == ["b"]


def test_topics_are_deleted_by_id_and_never_by_both_or_neither() -> None:
    node = a_node("a", "b")
    known, unknown = node.broker.image.topics["a"].id, Uuid(b"u" * 16)
    states = [
        DeleteTopicState(topic_id=known),
        DeleteTopicState(topic_id=unknown),
        DeleteTopicState(name="b", topic_id=node.broker.image.topics["b"].id),
        DeleteTopicState(),
    ]

    answer = node.ask(DeleteTopicsRequest(topics=states), 6, DeleteTopicsResponse)

    assert [(one.name, one.topic_id, one.error_code) for one in answer.responses] == [
        ("a", known, 0),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", node.broker.image.topics["b"].id, ErrorCode.INVALID_REQUEST),
        (None, NO_UUID, ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize("version", DELETE)
def test_where_deletion_is_disabled_old_versions_get_an_error_that_they_know(version: int) -> None:
    node = a_node("a", delete_topic_enable="false")
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="a")] if version >= 6 else [], topic_names=["a"]
    )
    if version >= 6:
        request.topic_names = []

    answer = node.ask(request, version, DeleteTopicsResponse)

    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert [one.error_code for one in answer.responses] == [code]


@pytest.mark.parametrize("version", MORE)
def test_every_version_adds_partitions(version: int) -> None:
    node = a_node("a", "b")  # Two partitions each.
    topics = [
        CreatePartitionsTopic(name="a", count=5, assignments=None),
        CreatePartitionsTopic(name="b", count=1, assignments=None),
        CreatePartitionsTopic(name="x", count=9, assignments=None),
    ]

    answer = node.ask(CreatePartitionsRequest(topics=topics), version, CreatePartitionsResponse)

    assert [(one.name, one.error_code) for one in answer.results] == [
        ("a", 0), ("b", ErrorCode.INVALID_PARTITIONS), ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]  # fmt: skip
    assert answer.results[0].error_message is None
    assert len(node.broker.image.topics["a"].partitions) == 5
    assert node.broker.replicas.get("a", 4) is not None


def test_partitions_are_placed_by_hand_and_validated_only() -> None:
    node = a_node("a")
    hand = CreatePartitionsTopic(name="a", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1])])

    for validate_only, count in ((True, 2), (False, 3)):
        answer = node.ask(
            CreatePartitionsRequest(topics=[hand], validate_only=validate_only), 3, CreatePartitionsResponse
        )
        assert answer.results[0].error_code == 0
        assert len(node.broker.image.topics["a"].partitions) == count


def described(
    node: SimNode, *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
    )
    return node.ask(request, 0, DescribeTopicPartitionsResponse)


def test_topics_are_described_in_the_order_of_their_names() -> None:
    node = a_node("b", "a")

    answer = described(node)

    assert [topic.name for topic in answer.topics] == ["a", "b"]
    assert answer.topics[0].topic_id == node.broker.image.topics["a"].id
    assert answer.topics[0].topic_authorized_operations == topic_operations(asked=True)
    assert [one.leader_id for one in answer.topics[0].partitions] == [1, 1]
    assert answer.next_cursor is None


def test_names_that_are_not_there_are_errors() -> None:
    answer = described(a_node("a"), "a", "x", "a/b")

    assert [(one.name, one.error_code) for one in answer.topics] == [
        ("a", 0), ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION), ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_pages_put_together_are_all_partitions(limit: int) -> None:
    node = a_node("a", "b", "c")
    found: list[tuple[str | None, int]] = []
    cursor: Cursor | None = None
    for _ in range(20):
        answer = described(node, limit=limit, cursor=cursor)
        page = [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        assert len(page) <= limit
        found += page
        cursor = answer.next_cursor
        if cursor is None:
            break

    assert found == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]


def test_the_broker_has_a_limit_of_its_own() -> None:
    node = a_node("a", max_request_partition_size_limit="1")

    answer = described(node)

    assert len(answer.topics[0].partitions) == 1
    assert answer.next_cursor == Cursor(topic_name="a", partition_index=1)


@pytest.mark.parametrize(
    ("limit", "cursor"), [(0, None), (-5, None), (5, Cursor(topic_name="a", partition_index=-1))]
)
def test_a_limit_or_a_cursor_that_cannot_be_is_refused(limit: int, cursor: Cursor | None) -> None:
    answer = described(a_node("a"), "a", limit=limit, cursor=cursor)

    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_cursor_behind_the_last_topic_or_partition_ends_it() -> None:
    node = a_node("a")

    assert described(node, cursor=Cursor(topic_name="z", partition_index=0)).topics == []
    beyond = described(node, cursor=Cursor(topic_name="a", partition_index=9))
    assert [len(topic.partitions) for topic in beyond.topics] == [0]
    assert beyond.next_cursor is None
