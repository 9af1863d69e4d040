"""What members tell each other, and what to make of what cannot be read (C3)."""

import pytest

from everlog.client.core.group.subscription import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from everlog.model.topics import TopicPartition
from everlog.wire.codec import encode_value
from everlog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

PLACES = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))


def test_a_subscription_and_an_assignment_are_read_as_they_were_written() -> None:
    assert read_subscription(write_subscription(["b", "a"])).topics == ("a", "b")
    assert read_assignment(write_assignment(reversed(PLACES))) == PLACES
    assert read_assignment(write_assignment([])) == ()


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_subscriptions_of_all_versions_are_read(version: int) -> None:
    written = version.to_bytes(2, "big") + encode_value(
        ConsumerProtocolSubscription(topics=["orders"]), version
    )

    assert read_subscription(written).topics == ("orders",)


def test_a_version_of_the_future_is_read_as_the_newest_known() -> None:
    body = encode_value(ConsumerProtocolSubscription(topics=["orders"]), 3)

    assert read_subscription((9).to_bytes(2, "big") + body).topics == ("orders",)


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\0\xff\xff\xff\xff\xff", b"\0\1junk"])
def test_what_is_no_message_of_ours_counts_as_nothing(data: bytes) -> None:
    assert read_subscription(data).topics == ()
    assert read_assignment(data) == ()
