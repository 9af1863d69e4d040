"""Plans as Kafka's JSON, and the settings that slow them down."""

import json

import pytest

from everlog.client.core.admin.configs import ConfigResource
from everlog.client.core.admin.reassign_file import plan_shape, read_plan
from everlog.client.core.admin.reassign_plan import PartitionMove
from everlog.client.core.admin.throttles import no_throttle_settings, throttle_settings
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition

PLACE = TopicPartition("orders", 3)


def test_a_plan_is_read_back_as_it_was_written() -> None:
    assert read_plan(json.dumps(plan_shape({PLACE: (2, 1)}))) == {PLACE: [2, 1]}


def test_the_form_of_kafkas_own_tool_is_read() -> None:
    text = '{"version":1,"partitions":[{"topic":"orders","partition":3,"replicas":[2],"log_dirs":["any"]}]}'

    assert read_plan(text) == {PLACE: [2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the plan is not JSON"),
        ("[]", "the plan is a list, expected an object"),
        ('{"version": 2, "partitions": []}', "the plan has version 2, expected 1"),
        ('{"version": 1}', "partitions of the plan is null, expected a list"),
        ('{"partitions": [7]}', "7 cannot be read: expected an object with topic, partition and replicas"),
        ('{"partitions": [{"topic": "t", "partition": -1, "replicas": []}]}', "cannot be read"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}',
            r'replicas of t-0 are \["1"\], expected ids of brokers',
        ),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/d"]}]}',
            r'log_dirs of t-0 are \["/d"\], expected \'any\' for each',
        ),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
            '{"topic": "t", "partition": 0, "replicas": [2]}]}',
            "partition t-0 stands twice in the plan",
        ),
    ],
)
def test_a_plan_that_cannot_be_read_says_where_and_why(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_plan(text)


def test_a_throttle_names_who_sends_and_who_receives() -> None:
    moves = [
        PartitionMove(TopicPartition("t", 0), (1, 2), (2, 3)),
        PartitionMove(TopicPartition("t", 1), (1, 2), (2, 1)),
        PartitionMove(TopicPartition("u", 5), (3,), (1, 2)),
    ]

    settings = throttle_settings(moves, 1000, [1, 2, 3])

    assert settings[ConfigResource.topic("t")] == {
        "leader.replication.throttled.replicas": "0:1,0:2",
        "follower.replication.throttled.replicas": "0:3",
    }
    assert settings[ConfigResource.topic("u")] == {
        "leader.replication.throttled.replicas": "5:3",
        "follower.replication.throttled.replicas": "5:1,5:2",
    }
    assert settings[ConfigResource.broker(2)] == {
        "leader.replication.throttled.rate": "1000",
        "follower.replication.throttled.rate": "1000",
    }


def test_what_copies_nothing_needs_no_throttle() -> None:
    assert throttle_settings([PartitionMove(PLACE, (1, 2), (2, 1))], 1000, [1, 2]) == {}


def test_all_that_a_throttle_sets_is_taken_away() -> None:
    moves = [PartitionMove(PLACE, (1,), (2,))]

    put = throttle_settings(moves, 1000, [1, 2])
    taken = no_throttle_settings([PLACE.topic], [1, 2])

    assert {resource: set(entries) for resource, entries in put.items()} == {
        resource: set(entries) for resource, entries in taken.items()
    }
    assert all(value is None for entries in taken.values() for value in entries.values())
