"""What a client keeps of the metadata it is told."""

import pytest

from everlog.client.core.metadata import ClusterView, metadata_request
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.unit.client.builders import ORDERS_ID, a_view

ORDERS_0 = TopicPartition("orders", 0)


def an_answer(leader: int, epoch: int, topic_id: Uuid = ORDERS_ID, error: int = 0) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host="h", port=9092) for node in (1, 2)],
        cluster_id="c",
        controller_id=2,
        topics=[
            MetadataResponseTopic(name="orders", topic_id=topic_id, partitions=[partition], error_code=error)
        ],
    )


def leader_in(view: ClusterView) -> int | None:
    broker = view.leader_of(ORDERS_0)
    return None if broker is None else broker.node_id


def test_the_leader_is_the_one_of_the_newest_epoch_heard_of() -> None:
    view = ClusterView().with_answer(an_answer(1, epoch=3))
    assert leader_in(view) == 1

    assert leader_in(view.with_answer(an_answer(2, epoch=4))) == 2
    assert leader_in(view.with_answer(an_answer(2, epoch=2))) == 1


def test_a_topic_that_was_created_anew_begins_with_epoch_zero_again() -> None:
    view = ClusterView().with_answer(an_answer(1, epoch=3))

    assert leader_in(view.with_answer(an_answer(2, epoch=0, topic_id=Uuid(b"another-topic-id")))) == 2


def test_topics_of_earlier_answers_are_kept() -> None:
    view = a_view(1).with_answer(MetadataResponse(cluster_id="c"))

    assert "orders" in view.topics
    assert not view.brokers


def test_a_leader_that_is_no_known_broker_is_no_leader() -> None:
    assert leader_in(a_view(7)) is None
    assert a_view(7, 1).led_partitions("orders") == [1]
    assert a_view(7, 8).led_partitions("orders") == [0, 1]


def test_a_leader_named_by_another_answer_counts_if_it_is_news() -> None:
    view = a_view(1, epoch=5)

    assert leader_in(view.with_new_leader(ORDERS_0, 2, 6)) == 2
    assert view.with_new_leader(ORDERS_0, 2, 5) is view
    assert view.with_new_leader(ORDERS_0, 9, 6) is view


def test_names_and_ids_are_found_by_each_other() -> None:
    view = a_view(1)

    assert view.topic_id("orders") == ORDERS_ID
    assert view.name_of(ORDERS_ID) == "orders"
    assert view.name_of(Uuid(bytes(16))) is None


def test_a_topics_error_is_kept_and_an_answers_error_is_raised() -> None:
    view = ClusterView().with_answer(an_answer(1, 0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert view.topics["orders"].error is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    with pytest.raises(Refused):
        view.with_answer(MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))


def test_asking_for_all_topics_differs_from_asking_for_none() -> None:
    assert metadata_request(None).topics is None
    assert metadata_request([]).topics == []
    assert not metadata_request(["orders"]).allow_auto_topic_creation
