"""The assignors: every partition to one subscriber, evenly, and with little that moves (C3)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.coordinator.group.assignors import Assignor, Subscriber
from everlog.coordinator.group.assignors.range import assign_ranges
from everlog.coordinator.group.assignors.table import ASSIGNORS
from everlog.coordinator.group.assignors.uniform import assign_uniformly
from everlog.coordinator.group.consumer_member import Partitions, TopicIdPartition
from everlog.model.ids import Uuid

Members = dict[str, Subscriber]
Counts = dict[Uuid, int]


def topic(number: int) -> Uuid:
    return Uuid(bytes([number]) * 16)


def some(number: int, *indexes: int) -> Partitions:
    return frozenset(TopicIdPartition(topic(number), index) for index in indexes)


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> tuple[Members, Counts]:
    """Members with subscriptions, some to topics that do not exist, and topics with partitions."""
    topics = [topic(number) for number in range(1, draw(st.integers(1, 5)) + 1)]
    counts = {one: draw(st.integers(1, 9)) for one in topics}
    known = st.frozensets(st.sampled_from([*topics, topic(99)]))
    subscription = st.just(draw(known)) if alike else known
    members: Members = {}
    had = draw(st.lists(st.integers(0, 7), min_size=45, max_size=45))
    partitions = [TopicIdPartition(one, index) for one in topics for index in range(counts[one])]
    for number in range(draw(st.integers(1, 7))):
        # What they had before: somebody's each, whether or not he still subscribes, and some nobody's.
        mine = frozenset(one for one, owner in zip(partitions, had, strict=False) if owner == number)
        members[f"m{number}"] = Subscriber(draw(subscription), mine)
    return members, counts


def sizes(shares: Mapping[str, Partitions]) -> list[int]:
    return sorted(len(share) for share in shares.values())


def again(members: Members, shares: Mapping[str, Partitions]) -> Members:
    return {name: replace(member, had=shares.get(name, frozenset())) for name, member in members.items()}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS.keys())
@given(group=groups())
def test_every_partition_with_a_subscriber_goes_to_one_of_them(
    assign: Assignor, group: tuple[Members, Counts]
) -> None:
    members, counts = group

    shares = assign(members, counts)

    assert shares.keys() == members.keys()
    given_out = Counter(one for share in shares.values() for one in share)
    read = frozenset[Uuid]().union(*(member.topics for member in members.values()))
    assert given_out == Counter(
        TopicIdPartition(one, index) for one in counts.keys() & read for index in range(counts[one])
    )
    for name, share in shares.items():
        assert {one.topic_id for one in share} <= members[name].topics


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS.keys())
@given(group=groups())
def test_the_order_of_members_makes_no_difference(assign: Assignor, group: tuple[Members, Counts]) -> None:
    members, counts = group

    shares = assign(members, counts)

    assert assign(dict(reversed(members.items())), dict(reversed(counts.items()))) == shares


@given(group=groups(alike=True))
def test_members_that_read_the_same_get_equally_much(group: tuple[Members, Counts]) -> None:
    members, counts = group

    shares = sizes(assign_uniformly(members, counts))

    assert shares[-1] - shares[0] <= 1


@given(group=groups(alike=True))
def test_members_that_read_the_same_keep_what_they_had_as_far_as_it_is_even(
    group: tuple[Members, Counts],
) -> None:
    members, counts = group

    shares = assign_uniformly(members, counts)

    least = min(len(share) for share in shares.values())
    exists = frozenset(TopicIdPartition(one, index) for one in counts for index in range(counts[one]))
    for name, member in members.items():
        could_keep = frozenset(one for one in member.had & exists if one.topic_id in member.topics)
        assert len(shares[name] & could_keep) >= min(len(could_keep), least)


def most_even(members: Members, counts: Counts) -> list[int]:
    """The sizes of the most even shares there are, found by trying all ways; only for small groups."""
    ways: set[tuple[int, ...]] = {(0,) * len(members)}
    for one, count in counts.items():
        readers = [at for at, member in enumerate(members.values()) if one in member.topics]
        for _ in range(count if readers else 0):
            ways = {
                tuple(size + (at == reader) for at, size in enumerate(way))
                for way in ways
                for reader in readers
            }
    best = min(ways, key=lambda way: sum(size * size for size in way))
    return sorted(best)


@st.composite
def small_groups(draw: st.DrawFn) -> tuple[Members, Counts]:
    members, counts = draw(groups())
    return dict(list(members.items())[:4]), {one: min(count, 3) for one, count in counts.items()}


@given(group=small_groups())
def test_no_assignment_is_more_even(group: tuple[Members, Counts]) -> None:
    members, counts = group

    shares = assign_uniformly(members, counts)

    assert sum(size * size for size in sizes(shares)) == sum(
        size * size for size in most_even(members, counts)
    )


@given(group=groups())
def test_nothing_moves_when_nothing_has_changed(group: tuple[Members, Counts]) -> None:
    members, counts = group
    shares = assign_uniformly(members, counts)

    assert assign_uniformly(again(members, shares), counts) == shares


@given(group=groups(alike=True), data=st.data())
def test_when_a_member_leaves_the_others_keep_all_that_they_had(
    group: tuple[Members, Counts], data: st.DataObject
) -> None:
    members, counts = group
    shares = assign_uniformly(members, counts)
    left = data.draw(st.sampled_from(sorted(members)))
    stay = again({name: member for name, member in members.items() if name != left}, shares)

    after = assign_uniformly(stay, counts)

    for name in stay:
        assert shares[name] <= after[name]


def test_a_newcomer_gets_its_share_and_nothing_else_moves() -> None:
    readers = frozenset({topic(1)})
    members = {
        "a": Subscriber(readers, some(1, 0, 1, 2)),
        "b": Subscriber(readers, some(1, 3, 4, 5)),
        "c": Subscriber(readers),
    }

    shares = assign_uniformly(members, {topic(1): 6})

    assert sizes(shares) == [2, 2, 2]
    assert shares["a"] < some(1, 0, 1, 2)
    assert shares["b"] < some(1, 3, 4, 5)


def test_partitions_are_handed_on_through_a_member_in_between() -> None:
    # a and c have no topic in common: only b can take from the one and give to the other.
    members = {
        "a": Subscriber(frozenset({topic(1)}), some(1, 0, 1, 2)),
        "b": Subscriber(frozenset({topic(1), topic(2)}), some(2, 0, 1)),
        "c": Subscriber(frozenset({topic(2)}), some(2, 2)),
    }

    shares = assign_uniformly(members, {topic(1): 3, topic(2): 3})

    assert sizes(shares) == [2, 2, 2]


# --- range


def test_ranges_are_whole_and_the_first_ones_longer() -> None:
    members = {name: Subscriber(frozenset({topic(1)})) for name in "abc"}

    assert assign_ranges(members, {topic(1): 7}) == {
        "a": some(1, 0, 1, 2),
        "b": some(1, 3, 4),
        "c": some(1, 5, 6),
    }


def test_topics_with_equally_many_partitions_are_cut_alike() -> None:
    members = {name: Subscriber(frozenset({topic(1), topic(2)})) for name in "ab"}

    shares = assign_ranges(members, {topic(1): 3, topic(2): 3})

    assert shares["a"] == some(1, 0, 1) | some(2, 0, 1)


def test_static_members_stand_in_the_order_of_their_instance_ids() -> None:
    members = {
        "z": Subscriber(frozenset({topic(1)}), instance_id="1"),
        "a": Subscriber(frozenset({topic(1)}), instance_id="2"),
        "b": Subscriber(frozenset({topic(1)})),
    }

    assert assign_ranges(members, {topic(1): 3}) == {"z": some(1, 0), "a": some(1, 1), "b": some(1, 2)}
