"""What every assignor of clients must do, whatever the group looks like (C3)."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.client.core.group.assignors import AssignedMember, Layout, hold_back_moving
from everlog.client.core.group.assignors.sticky import read_had, write_had
from everlog.client.core.group.assignors.table import ASSIGNORS
from everlog.model.topics import TopicPartition

TOPICS = ("t0", "t1", "t2")
NAMES = st.sampled_from("abcdef")
PLACES = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 6))
RACKS = st.frozensets(st.sampled_from("xyz"))
LAYOUTS = st.dictionaries(st.sampled_from(TOPICS), st.lists(RACKS, max_size=6))
MEMBERS = st.dictionaries(
    NAMES,
    st.builds(
        AssignedMember,
        st.frozensets(st.sampled_from((*TOPICS, "gone"))),
        owned=st.frozensets(PLACES, max_size=6),
        generation=st.integers(-1, 3),
        rack=st.none() | st.sampled_from("xyz"),
        user_data=st.builds(write_had, st.lists(PLACES, unique=True, max_size=6), st.integers(0, 3))
        | st.just(b""),
    ),
    min_size=1,
)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=50)
@given(members=MEMBERS, topics=LAYOUTS)
def test_every_partition_goes_to_one_of_those_who_want_it(
    name: str, members: Mapping[str, AssignedMember], topics: Layout
) -> None:
    shares = ASSIGNORS[name].assign(members, topics)

    given_out = [place for share in shares.values() for place in share]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == {
        TopicPartition(topic, index)
        for topic, racks in topics.items()
        if any(topic in member.topics for member in members.values())
        for index in range(len(racks))
    }
    for member_id, share in shares.items():
        assert {place.topic for place in share} <= members[member_id].topics


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky"])
@settings(max_examples=50)
@given(members=MEMBERS, topics=LAYOUTS)
def test_shares_of_members_with_the_same_topics_differ_by_one_at_most(
    name: str, members: Mapping[str, AssignedMember], topics: Layout
) -> None:
    alike = {
        member_id: AssignedMember(
            frozenset(TOPICS), member.owned, member.generation, user_data=member.user_data
        )
        for member_id, member in members.items()
    }

    sizes = [len(list(share)) for share in ASSIGNORS[name].assign(alike, topics).values()]

    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=50)
@given(members=MEMBERS, topics=LAYOUTS)
def test_what_another_member_has_is_not_given_away(
    members: Mapping[str, AssignedMember], topics: Layout
) -> None:
    shares = hold_back_moving(members, ASSIGNORS["cooperative-sticky"].assign(members, topics))

    for member_id, share in shares.items():
        for place in share:
            claims = [(other.generation, name) for name, other in members.items() if place in other.owned]
            latest = {name for generation, name in claims if generation == max(claims)[0]}
            assert latest <= {member_id}


@settings(max_examples=50)
@given(members=MEMBERS, topics=LAYOUTS)
def test_what_was_held_back_is_given_in_the_next_round(
    members: Mapping[str, AssignedMember], topics: Layout
) -> None:
    assignor = ASSIGNORS["cooperative-sticky"]
    for generation in (10, 11):
        shares = hold_back_moving(members, assignor.assign(members, topics))
        members = {
            # Members give up what they were not given, and take what they were.
            member_id: AssignedMember(member.topics, frozenset(shares[member_id]), generation)
            for member_id, member in members.items()
        }

    final = assignor.assign(members, topics)

    assert {name: list(share) for name, share in final.items()} == {
        name: sorted(member.owned) for name, member in members.items()
    }


def test_a_member_that_was_away_does_not_get_back_what_another_has() -> None:
    place = TopicPartition("t", 0)
    members = {
        "old": AssignedMember(frozenset({"t"}), frozenset({place}), generation=3),
        "new": AssignedMember(frozenset({"t"}), frozenset({place}), generation=5),
    }

    shares = hold_back_moving(members, ASSIGNORS["cooperative-sticky"].assign(members, {"t": [frozenset()]}))

    assert shares == {"old": [], "new": [place]}


@given(st.lists(PLACES, unique=True), st.integers(0, 2**31 - 1))
def test_what_a_member_had_is_read_as_it_was_written(places: list[TopicPartition], generation: int) -> None:
    assert read_had(write_had(places, generation)) == (frozenset(places), generation)


@given(st.binary(max_size=60))
def test_whatever_another_client_wrote_is_read_without_harm(raw: bytes) -> None:
    read_had(raw)
