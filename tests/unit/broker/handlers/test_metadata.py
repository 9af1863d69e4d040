"""Metadata in all its versions: what is told, what is created, what is an error (L1)."""

import errno
from dataclasses import replace

import pytest

from everlog.broker.access import NOT_ASKED
from everlog.broker.handlers.metadata import MOST_CREATED
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID, BrokerId, Uuid
from everlog.sim.faults import Fault, Kind
from everlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.unit.broker.handlers.nodes import SimNode

VERSIONS = range(14)


def a_node(*topics: str, **settings: str) -> SimNode:
    node = SimNode(None, **settings)
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in topics]
    )
    answer = node.ask(create, 7, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [0] * len(topics)
    return node


def ask(node: SimNode, version: int, *names: str, **fields: bool) -> list[MetadataResponseTopic]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return node.ask(MetadataRequest(topics=topics, **fields), version, MetadataResponse).topics


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_tells_brokers_topics_and_leaders(version: int) -> None:
    node = a_node("orders")

    answer = node.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), version, MetadataResponse
    )

    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "broker.test", 9092)
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert answer.cluster_id == (node.broker.cluster_id if version >= 2 else None)
    (topic,) = answer.topics
    assert (topic.name, topic.error_code) == ("orders", 0)
    assert topic.topic_id == (node.broker.image.topics["orders"].id if version >= 10 else NO_UUID)
    assert [(one.partition_index, one.leader_id, one.error_code) for one in topic.partitions] == [
        (0, 1, 0), (1, 1, 0),
    ]  # fmt: skip
    assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)
    assert topic.partitions[0].isr_nodes == topic.partitions[0].replica_nodes == [1]
    assert topic.topic_authorized_operations == NOT_ASKED


def test_in_version_0_an_empty_list_is_all_topics_and_later_it_is_none() -> None:
    node = a_node("a", "b")

    assert [topic.name for topic in ask(node, 0)] == ["a", "b"]
    for version in VERSIONS[1:]:
        assert ask(node, version) == []


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_null_is_all_topics(version: int) -> None:
    answer = a_node("a", "b").ask(MetadataRequest(topics=None), version, MetadataResponse)

    assert [topic.name for topic in answer.topics] == ["a", "b"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_not_there_is_created_and_told_in_the_same_answer(version: int) -> None:
    node = a_node(num_partitions="3")

    (topic,) = ask(node, version, "fresh")

    assert topic.error_code == 0
    assert len(topic.partitions) == 3
    assert "fresh" in node.broker.image.topics


def test_a_storm_of_names_makes_a_hundred_topics_a_request_and_the_rest_is_to_be_asked_for_again() -> None:
    """With `auto.create.topics.enable` as it ships, which is on."""
    node = a_node("here")
    names = [f"t{number:05}" for number in range(20_000)]

    answers = ask(node, 9, "here", *names)

    assert len(node.broker.image.topics) == 1 + MOST_CREATED
    assert {one.error_code for one in answers[: 1 + MOST_CREATED]} == {0}
    assert {one.error_code for one in answers[1 + MOST_CREATED :]} == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert ErrorCode.LEADER_NOT_AVAILABLE.retriable
    again = ask(node, 9, *names[: MOST_CREATED + 10])
    assert {one.error_code for one in again} == {0}


def test_the_answer_waits_until_the_creation_is_durable() -> None:
    node = a_node()

    node.request(MetadataRequest(topics=[MetadataRequestTopic(name="fresh")]), 9)
    assert node.answers == []
    node.aside.run_all()

    assert len(node.answers) == 1


def test_nothing_is_created_if_the_client_forbids_it() -> None:
    node = a_node()

    (topic,) = ask(node, 9, "fresh", allow_auto_topic_creation=False)

    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not node.broker.image.topics


def test_nothing_is_created_if_the_broker_forbids_it() -> None:
    node = a_node(auto_create_topics_enable="false")

    assert ask(node, 9, "fresh")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__cluster_metadata"])
def test_internal_topics_are_not_made_by_asking_for_them(name: str) -> None:
    assert ask(a_node(), 9, name)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", VERSIONS)
def test_one_bad_name_does_not_fail_its_neighbours(version: int) -> None:
    node = a_node("here", "a.b")

    answers = ask(node, version, "here", "not/legal", "fresh", "a_b")

    assert [(one.name, one.error_code) for one in answers] == [
        ("here", 0),
        ("not/legal", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("fresh", 0),
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


def test_a_topic_asked_for_twice_is_told_once() -> None:
    assert len(ask(a_node("a"), 9, "a", "a")) == 1


def test_a_full_cluster_says_so_and_other_topics_are_told() -> None:
    node = a_node("a", max_partitions="2")

    full, here = ask(node, 9, "fresh", "a")

    assert full.error_code == ErrorCode.POLICY_VIOLATION
    assert here.error_code == 0


def test_a_creation_that_the_disk_refuses_may_be_tried_again() -> None:
    node = a_node()
    node.files.faults = [Fault(Kind.APPEND, errno.ENOSPC)]

    assert ask(node, 9, "fresh")[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    node.files.faults = []
    assert ask(node, 9, "fresh")[0].error_code == 0


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(version: int) -> None:
    node = a_node("orders")
    known = node.broker.image.topics["orders"].id
    unknown = Uuid(bytes(15) + b"\x07")
    topics = [MetadataRequestTopic(topic_id=one, name=None) for one in (known, unknown, NO_UUID)]

    answer = node.ask(MetadataRequest(topics=topics), version, MetadataResponse)

    assert [(one.name, one.topic_id, one.error_code) for one in answer.topics] == [
        ("orders", known, 0),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, NO_UUID, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", [10, 11])
def test_versions_that_know_ids_but_cannot_ask_by_them_refuse(version: int) -> None:
    node = a_node("orders")
    topics = [MetadataRequestTopic(topic_id=Uuid(b"x" * 16), name=None), MetadataRequestTopic(name="new")]

    answer = node.ask(MetadataRequest(topics=topics), version, MetadataResponse)

    assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert "new" not in node.broker.image.topics


def test_what_the_client_may_do_is_told_when_asked() -> None:
    node = a_node("orders")
    request = MetadataRequest(
        topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )

    answer = node.ask(request, 8, MetadataResponse)

    assert answer.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert answer.cluster_authorized_operations > 0


def test_leaders_that_cannot_be_reached_are_not_told() -> None:
    node = a_node("orders")
    node.broker.image = replace(node.broker.image, brokers={})

    answer = node.ask(MetadataRequest(topics=None), 9, MetadataResponse)

    assert answer.brokers == []
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == [1]


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
def test_a_leader_without_the_clients_listener_has_its_own_error(version: int, code: ErrorCode) -> None:
    node = a_node("orders")
    node.connect("OTHER")

    answer = node.ask(MetadataRequest(topics=None), version, MetadataResponse)

    assert BrokerId(1) in node.broker.image.brokers
    assert answer.brokers == []
    assert answer.topics[0].partitions[0].error_code == code
