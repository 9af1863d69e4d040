"""Metadata and what is made at first use, with several brokers: who is seen, who leads, who makes topics."""

import pytest

from everlog.broker import topic_maker
from everlog.broker.internal_topics import wanted_topic
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC
from everlog.metadata.image import topic_resource
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId
from everlog.wire.apis import ApiKey
from everlog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from everlog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from everlog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from everlog.wire.messages.describe_topic_partitions import (
    TopicRequest as DescribedTopic,
)
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from everlog.wire.messages.unregister_broker_record import UnregisterBrokerRecord
from tests.unit.broker.joined import Hop, Host, JoinedCluster

NONE = ErrorCode.NONE


def metadata(host: Host, *names: str, version: int = 12) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return host.ask(MetadataRequest(topics=topics), version, MetadataResponse)


def test_every_broker_tells_of_all_that_are_alive_with_their_racks_and_leaders() -> None:
    cluster = JoinedCluster()
    cluster.create_topic("orders", 1, 2, 3)

    answers = [metadata(cluster[number], "orders") for number in (1, 2, 3)]

    for answer in answers:
        assert [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers] == [
            (number, f"broker-{number}", 9092, f"rack-{number}") for number in (1, 2, 3)
        ]
        assert [(one.error_code, one.leader_id) for one in answer.topics[0].partitions] == [
            (NONE, 1),
            (NONE, 2),
            (NONE, 3),
        ]
        assert [len(one.replica_nodes) for one in answer.topics[0].partitions] == [3, 3, 3]
    assert [answer.controller_id for answer in answers] == [1, 2, 3]


def test_a_broker_that_is_fenced_is_not_told_of_and_its_replicas_are_offline() -> None:
    cluster = JoinedCluster()
    cluster.create_topic("orders", 1, 2, 3)
    cluster.fence(2)

    answer = metadata(cluster[1], "orders")
    described = cluster[1].ask(
        DescribeTopicPartitionsRequest(topics=[DescribedTopic(name="orders")]),
        0,
        DescribeTopicPartitionsResponse,
    )

    assert [one.node_id for one in answer.brokers] == [1, 3]
    found = [(one.error_code, one.leader_id) for one in answer.topics[0].partitions]
    assert found == [(NONE, 1), (ErrorCode.LEADER_NOT_AVAILABLE, -1), (NONE, 3)]
    assert [one.offline_replicas for one in answer.topics[0].partitions] == [[2], [2], [2]]
    again = [(one.error_code, one.leader_id) for one in described.topics[0].partitions]
    assert again == found
    assert [one.offline_replicas for one in described.topics[0].partitions] == [[2], [2], [2]]


def test_a_fenced_broker_names_another_as_the_controller() -> None:
    cluster = JoinedCluster()
    cluster.fence(1)
    request = DescribeClusterRequest(endpoint_type=1)

    shown = cluster[1].ask(request, 2, DescribeClusterResponse)
    assert (shown.controller_id, [one.broker_id for one in shown.brokers]) == (2, [2, 3])
    assert metadata(cluster[1]).controller_id == 2
    request.include_fenced_brokers = True
    shown = cluster[1].ask(request, 2, DescribeClusterResponse)
    assert [(one.broker_id, one.is_fenced) for one in shown.brokers] == [(1, True), (2, False), (3, False)]


def test_producers_of_a_partition_are_told_by_its_leader() -> None:
    cluster = JoinedCluster()
    cluster.create_topic("orders", 1)
    request = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0, 1])])

    codes = {
        number: [
            one.error_code
            for one in cluster[number].ask(request, 0, DescribeProducersResponse).topics[0].partitions
        ]
        for number in (1, 2)
    }

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {1: [NONE, unknown], 2: [ErrorCode.NOT_LEADER_OR_FOLLOWER, unknown]}


# --- topics that are made at first use


def test_a_topic_made_at_first_use_is_answered_when_this_broker_knows_of_it() -> None:
    cluster = JoinedCluster({"default_replication_factor": "3"})
    cluster.fall_behind(2)
    client = cluster[2].client()

    client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 12)
    cluster.settle()
    assert client.frames == []
    cluster.catch_up(2)

    (topic,) = client.take(MetadataResponse).topics
    assert (topic.error_code, topic.name) == (NONE, "new")
    assert [len(one.replica_nodes) for one in topic.partitions] == [3]


def test_a_topic_that_this_broker_does_not_hear_of_is_asked_for_again() -> None:
    cluster = JoinedCluster()
    cluster.fall_behind(2)
    client = cluster[2].client()
    client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 12)

    cluster.pass_time(topic_maker.TIMEOUT_MS)

    assert [one.error_code for one in client.take(MetadataResponse).topics] == [
        ErrorCode.LEADER_NOT_AVAILABLE
    ]


def test_two_who_ask_for_the_same_new_topic_both_get_it() -> None:
    cluster = JoinedCluster()
    cluster.fall_behind(2)
    clients = [cluster[number].client() for number in (1, 2)]
    for client in clients:
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 12)
    cluster.settle()
    assert [len(client.frames) for client in clients] == [1, 0], "the second has yet to hear of it"
    cluster.catch_up(2)

    found = [client.take(MetadataResponse).topics[0].error_code for client in clients]
    assert found == [NONE, NONE]


def test_internal_topics_have_as_many_replicas_as_the_settings_say() -> None:
    cluster = JoinedCluster()
    for key_type in (0, 1):
        request = FindCoordinatorRequest(coordinator_keys=["g"], key_type=key_type)
        (found,) = cluster[2].ask(request, 4, FindCoordinatorResponse).coordinators
        assert found.error_code == NONE

    assert [len(cluster.partition(topic).replicas) for topic in (OFFSETS_TOPIC, TXN_TOPIC)] == [3, 3]
    assert cluster.image.config(topic_resource(TXN_TOPIC))["min.insync.replicas"] == "2"


def test_internal_topics_wait_for_enough_brokers_in_a_cluster() -> None:
    cluster = JoinedCluster()
    cluster.write(UnregisterBrokerRecord(broker_id=3, broker_epoch=cluster.image.brokers[BrokerId(3)].epoch))
    asked: list[int] = []

    def watches(hop: Hop) -> bool:
        asked.append(hop.key)
        return False

    cluster.holds = watches
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    (found,) = cluster[1].ask(request, 4, FindCoordinatorResponse).coordinators

    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found.error_message is not None
    assert "3 replicas are wanted, found 2 brokers" in found.error_message
    assert OFFSETS_TOPIC not in cluster.image.topics
    assert ApiKey.CREATE_TOPICS not in asked, "the controller is not bothered"


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TXN_TOPIC])
def test_a_broker_alone_makes_internal_topics_for_itself(topic: str) -> None:
    cluster = JoinedCluster(count=1)

    assert wanted_topic(topic, cluster[1].broker.settings, 1).replication_factor == 1


def test_internal_topics_are_there_for_whoever_asked_when_this_broker_knows_of_them() -> None:
    cluster = JoinedCluster()
    cluster.fall_behind(2)
    outcomes: list[Refused | None] = []
    topics = cluster[2].broker.coordinators.internal_topics

    topics.ensure(OFFSETS_TOPIC, outcomes.append)
    topics.ensure(OFFSETS_TOPIC, outcomes.append)
    cluster.settle()
    assert outcomes == []
    cluster.catch_up(2)

    assert outcomes == [None, None]


# --- producer ids


def test_a_controller_that_gives_no_ids_is_told_to_clients_as_something_that_passes() -> None:
    cluster = JoinedCluster()
    cluster.write(UnregisterBrokerRecord(broker_id=1, broker_epoch=cluster.image.brokers[BrokerId(1)].epoch))

    answer = cluster[1].ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse)

    assert ErrorCode(answer.error_code).retriable
