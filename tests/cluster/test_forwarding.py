"""Whichever of three brokers a client asks, the active controller does it; the same on Apache Kafka.

The tests run in the order in which they stand: the last one kills the active controller.
"""

import time

import pytest

from everlog.model.errors import ErrorCode
from everlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from everlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from everlog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from .asking import PATIENCE_SECONDS, ask
from .conftest import Trio

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("forwarding")]


def create(address: str, topic: str, timeout_ms: int = 30_000) -> ErrorCode:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=2, replication_factor=1)], timeout_ms=timeout_ms
    )
    (result,) = ask(address, request, 7, CreateTopicsResponse).topics
    assert result.name == topic
    return ErrorCode(result.error_code)


def partitions(address: str, topic: str) -> int | None:
    """How many partitions a broker knows of a topic; None if it knows no such topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = ask(address, request, 12, MetadataResponse).topics
    return None if found.error_code else len(found.partitions)


def controller(address: str) -> int:
    """The leader of the quorum; 0 while there is none."""
    asked = RequestTopicData(
        topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)]
    )
    answer = ask(address, DescribeQuorumRequest(topics=[asked]), 2, DescribeQuorumResponse)
    assert answer.error_code == ErrorCode.NONE
    return answer.topics[0].partitions[0].leader_id


def soon(address: str, topic: str, count: int | None) -> None:
    """Wait until a broker knows so many partitions: it learns of what was done a little later."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := partitions(address, topic)) != count:
        assert time.monotonic() < deadline, f"{address} knows {found} partitions of {topic}, expected {count}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def addresses(trio: Trio) -> list[str]:
    """Brokers 1, 2 and 3."""
    return trio.bootstrap.split(",")


def test_topics_made_at_any_broker_are_known_to_all(addresses: list[str]) -> None:
    for number, address in enumerate(addresses):
        assert create(address, f"made-at-{number}") == ErrorCode.NONE
    for address in addresses:
        for number in range(3):
            soon(address, f"made-at-{number}", 2)


def test_errors_come_back_as_the_controller_says_them(addresses: list[str]) -> None:
    assert [create(address, "made-at-0") for address in addresses] == [ErrorCode.TOPIC_ALREADY_EXISTS] * 3
    assert [create(address, "no/name") for address in addresses] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 3


def test_all_brokers_tell_of_the_same_controller(addresses: list[str]) -> None:
    assert len({controller(address) for address in addresses}) == 1


def test_other_commands_go_the_same_way(addresses: list[str]) -> None:
    for number, address in enumerate(addresses):
        grown = ask(
            address,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=f"made-at-{number}", count=3, assignments=None)],
                timeout_ms=30_000,
            ),
            3,
            CreatePartitionsResponse,
        )
        assert [one.error_code for one in grown.results] == [ErrorCode.NONE]
        soon(addresses[0], f"made-at-{number}", 3)
        deleted = ask(
            address,
            DeleteTopicsRequest(topics=[DeleteTopicState(name=f"made-at-{number}")], timeout_ms=30_000),
            6,
            DeleteTopicsResponse,
        )
        assert [one.error_code for one in deleted.responses] == [ErrorCode.NONE]
    for address in addresses:
        for number in range(3):
            soon(address, f"made-at-{number}", None)


def test_a_request_outlives_the_controller(trio: Trio, addresses: list[str]) -> None:
    active = controller(addresses[0])
    survivors = [address for node, address in enumerate(addresses, start=1) if node != active]
    trio.kill(active)
    for number, address in enumerate(survivors):
        assert create(address, f"after-{number}") == ErrorCode.NONE
    assert controller(survivors[0]) not in (0, active)
