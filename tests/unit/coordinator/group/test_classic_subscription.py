"""Which topics a classic group reads, as far as its members say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.coordinator.group.classic_commands import GroupProtocol
from everlog.coordinator.group.classic_subscription import subscribed_topics, wants_the_same
from everlog.wire.codec import encode_value
from everlog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.unit.coordinator.group.classic_shard import INITIAL_DELAY_MS, ClassicShard


def a_subscription(*topics: str, version: int = 3, generation: int = -1) -> bytes:
    value = ConsumerProtocolSubscription(topics=list(topics))
    if version >= 1:
        value.owned_partitions = [TopicPartition(topic="t", partitions=[1])]
    if version >= 2:
        value.generation_id = generation
    return version.to_bytes(2, "big") + encode_value(value, version)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_topics_are_read_from_every_version(version: int) -> None:
    assert subscribed_topics(a_subscription("t", "ü", version=version)) == frozenset({"t", "ü"})


def test_a_version_that_is_not_known_yet_begins_alike() -> None:
    assert subscribed_topics(b"\0\x63" + a_subscription("t", version=0)[2:] + b"more") == frozenset({"t"})


@given(st.binary(max_size=60))
def test_any_other_bytes_are_no_subscription_or_one(data: bytes) -> None:
    topics = subscribed_topics(data)

    assert topics is None or sum(map(len, topics)) <= len(data)


def test_a_cut_subscription_is_none() -> None:
    whole = a_subscription("topic", version=0)
    for size in range(len(whole) - 4):
        assert subscribed_topics(whole[:size]) is None


def test_consumers_want_the_same_if_their_topics_are_the_same() -> None:
    first, later = a_subscription("t", "u"), a_subscription("u", "t", generation=5)

    assert wants_the_same(first, later, consumers=True)
    assert not wants_the_same(first, later, consumers=False)
    assert wants_the_same(first, first, consumers=False)
    assert not wants_the_same(first, a_subscription("t"), consumers=True)
    assert not wants_the_same(b"words", b"other words", consumers=True)


def group_of(shard: ClassicShard, *metadata: bytes, protocol_type: str = "consumer") -> None:
    for one in metadata:
        shard.join(
            needs_member_id=False, protocol_type=protocol_type, protocols=(GroupProtocol("range", one),)
        )
    shard.pass_time(2 * INITIAL_DELAY_MS)


def test_a_group_subscribes_to_what_any_member_does() -> None:
    shard = ClassicShard()
    group_of(shard, a_subscription("t"), a_subscription("u"))

    assert [shard.group.subscribes_to(one) for one in "tuv"] == [True, True, False]


def test_a_group_subscribes_to_what_its_members_say_in_this_generation() -> None:
    shard = ClassicShard()
    group_of(shard, a_subscription("t"))
    (member,) = shard.group.members
    assert not shard.group.subscribes_to("u")

    changed = (GroupProtocol("range", a_subscription("u")),)
    shard.join(member.id, protocols=changed)

    assert [shard.group.subscribes_to(one) for one in "tu"] == [False, True]
    shard.leave(member.id)
    assert not shard.group.subscribes_to("u")


def test_a_group_whose_words_cannot_be_read_may_subscribe_to_anything() -> None:
    shard = ClassicShard()
    group_of(shard, a_subscription("t"), b"words")

    assert shard.group.subscribes_to("u")


def test_a_group_that_has_not_agreed_on_a_protocol_may_subscribe_to_anything() -> None:
    shard = ClassicShard()
    shard.join(needs_member_id=False, protocols=(GroupProtocol("range", a_subscription("t")),))

    assert shard.group.subscribes_to("u")


def test_a_group_that_is_not_one_of_consumers_subscribes_to_nothing() -> None:
    shard = ClassicShard()
    group_of(shard, a_subscription("t"), protocol_type="connect")

    assert not shard.group.subscribes_to("t")
