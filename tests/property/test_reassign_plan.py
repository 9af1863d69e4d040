"""Plans of moves: whole, on brokers that may have them, spread over racks, even, no larger than needed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everlog.client.core.admin.reassign_plan import (
    ReassignPlan,
    plan_balance,
    plan_departure,
    plan_given,
)
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]


@st.composite
def assignments(draw: st.DrawFn, brokers: Sequence[int], most: int = 24, highest: int = 4) -> Assignment:
    """Partitions of a few topics anywhere, each topic with a replication factor of its own."""
    found: Assignment = {}
    for topic in range(draw(st.integers(1, 3))):
        factor = draw(st.integers(1, min(highest, len(brokers))))
        for partition in range(draw(st.integers(1, most // 3))):
            order = draw(st.permutations(brokers))
            found[TopicPartition(f"t{topic}", partition)] = tuple(order[:factor])
    return found


@st.composite
def grown_clusters(draw: st.DrawFn) -> tuple[Assignment, dict[int, str | None]]:
    """An assignment to some brokers, and the brokers that may have it from now on: others, more or fewer."""
    before = list(range(1, draw(st.integers(1, 6)) + 1))
    assigned = draw(assignments(before))
    least = max(len(replicas) for replicas in assigned.values())
    after = draw(st.lists(st.integers(1, 9), min_size=least, max_size=8, unique=True))
    racks: dict[int, str | None] = {
        broker: draw(st.sampled_from(["a", "b", "c", None])) for broker in sorted(after)
    }
    return assigned, racks


def after(assigned: Mapping[TopicPartition, Sequence[int]], plan: ReassignPlan) -> Assignment:
    wanted = {move.place: tuple(move.after) for move in plan.moves}
    return {place: wanted.get(place, tuple(replicas)) for place, replicas in assigned.items()}


def rack_limit(racks: Mapping[int, str | None], factor: int) -> int:
    sizes = Counter(rack if rack is not None else broker for broker, rack in racks.items())
    return next(most for most in range(1, 99) if sum(min(most, size) for size in sizes.values()) >= factor)


def replica_counts(assigned: Assignment, brokers: Sequence[int]) -> list[int]:
    counts = Counter(broker for replicas in assigned.values() for broker in replicas)
    return [counts[broker] for broker in brokers]


@given(grown_clusters())
def test_a_plan_keeps_every_replica_on_brokers_and_racks_that_may_have_it(
    case: tuple[Assignment, dict[int, str | None]],
) -> None:
    assigned, racks = case

    planned = after(assigned, plan_balance(assigned, racks))

    for place, replicas in planned.items():
        assert len(replicas) == len(assigned[place])
        assert len(set(replicas)) == len(replicas)
        assert set(replicas) <= set(racks)
        in_rack = Counter(racks[broker] or broker for broker in replicas)
        assert max(in_rack.values()) <= rack_limit(racks, len(replicas))


@given(grown_clusters())
def test_what_a_plan_has_made_needs_no_plan(case: tuple[Assignment, dict[int, str | None]]) -> None:
    assigned, racks = case

    planned = after(assigned, plan_balance(assigned, racks))

    assert plan_balance(planned, racks).moves == []


@given(assignments([1, 2, 3, 4, 5]), st.sets(st.integers(6, 9)))
def test_brokers_that_are_added_get_their_share_and_no_more_than_that_moves(
    assigned: Assignment, added: set[int]
) -> None:
    brokers = {1, 2, 3, 4, 5} | added

    plan = plan_balance(assigned, dict.fromkeys(brokers))

    counts = replica_counts(after(assigned, plan), sorted(brokers))
    assert max(counts) - min(counts) <= 1
    assert plan.replicas_to_move == above_their_share(assigned, brokers)


def above_their_share(assigned: Assignment, brokers: set[int]) -> int:
    """What any even spread has to move: all that brokers have above what they will have."""
    held = Counter(broker for replicas in assigned.values() for broker in replicas)
    share, larger = divmod(sum(held.values()), len(brokers))
    most_first = sorted((held[broker] for broker in brokers), reverse=True)
    return sum(max(0, has - share - (at < larger)) for at, has in enumerate(most_first))


@given(assignments([1, 2, 3], most=12, highest=3), st.sets(st.integers(1, 5), min_size=3, max_size=4))
@example(
    # Broker 3 leaves, and one of what it had goes to 2: not all to 4, with one of what 1 has behind it.
    {
        TopicPartition("t0", 0): (1, 3),
        TopicPartition("t0", 1): (1, 3),
        TopicPartition("t1", 0): (1, 2, 3),
        TopicPartition("t1", 1): (1, 2, 3),
    },
    {1, 2, 4},
)
def test_no_even_spread_moves_less(assigned: Assignment, brokers: set[int]) -> None:
    few = dict(list(assigned.items())[:4])

    plan = plan_balance(few, dict.fromkeys(brokers))

    assert plan.replicas_to_move == least_of_all(few, sorted(brokers))


def least_of_all(assigned: Assignment, brokers: list[int]) -> int:
    """The fewest replicas that have to move for an even spread, by trying every one there is."""
    choices = [
        [set(chosen) for chosen in combinations(brokers, len(replicas))] for replicas in assigned.values()
    ]
    least = 99
    for chosen in product(*choices):
        counts = Counter(broker for replicas in chosen for broker in replicas)
        had = [counts[broker] for broker in brokers]
        if max(had) - min(had) <= 1:
            pairs = zip(chosen, assigned.values(), strict=True)
            least = min(least, sum(len(new - set(old)) for new, old in pairs))
    return least


@given(st.integers(1, 3), st.integers(2, 4), st.data())
def test_in_racks_of_one_size_brokers_differ_by_one(each: int, racks_there: int, data: st.DataObject) -> None:
    brokers = list(range(1, each * racks_there + 1))
    racks: dict[int, str | None] = {broker: "abcd"[broker % racks_there] for broker in brokers}
    assigned = data.draw(assignments(brokers, highest=racks_there))

    planned = after(assigned, plan_balance(assigned, racks))

    counts = replica_counts(planned, brokers)
    assert max(counts) - min(counts) <= 1
    for replicas in planned.values():
        assert len({racks[broker] for broker in replicas}) == len(replicas)


@given(assignments([1, 2, 3], highest=3))
def test_where_everybody_has_everything_leads_differ_by_one_and_nothing_is_copied(
    assigned: Assignment,
) -> None:
    everywhere = {place: (*replicas, *({1, 2, 3} - set(replicas))) for place, replicas in assigned.items()}

    plan = plan_balance(everywhere, dict.fromkeys([1, 2, 3]))

    leads = Counter(replicas[0] for replicas in after(everywhere, plan).values())
    counts = [leads[broker] for broker in (1, 2, 3)]
    assert max(counts) - min(counts) <= 1
    assert plan.replicas_to_move == 0


@given(assignments([1, 2, 3, 4, 5], highest=4), st.integers(1, 5))
def test_a_departure_moves_what_the_broker_has_and_nothing_else(assigned: Assignment, leaving: int) -> None:
    plan = plan_departure(assigned, {leaving}, dict.fromkeys([1, 2, 3, 4, 5]))

    planned = after(assigned, plan)
    assert all(leaving not in replicas for replicas in planned.values())
    for place, replicas in assigned.items():
        stayed = [broker for broker in replicas if broker != leaving]
        assert [broker for broker in planned[place] if broker in stayed] == stayed
        assert len(planned[place]) == len(replicas)
    assert {move.place for move in plan.moves} == {
        place for place, replicas in assigned.items() if leaving in replicas
    }


def test_the_bytes_of_a_plan_are_those_of_new_replicas() -> None:
    place = TopicPartition("t", 0)

    plan = plan_balance({place: (1, 2)}, dict.fromkeys([2, 3]), {place: 100})

    (move,) = plan.moves
    assert (move.adding, move.removing, plan.bytes_to_move) == ([3], [1], 100)


def test_small_partitions_move_first() -> None:
    small, large = TopicPartition("t", 0), TopicPartition("t", 1)
    both: Assignment = {large: (1,), small: (1,)}

    plan = plan_balance(both, dict.fromkeys([1, 2]), {large: 1000, small: 10})

    assert [move.place for move in plan.moves] == [small]


def test_a_topic_that_crowds_a_broker_is_spread_first() -> None:
    crowd: Assignment = {TopicPartition("a", at): (1,) for at in range(3)}
    assigned: Assignment = {**crowd, TopicPartition("b", 0): (1,), TopicPartition("b", 1): (2,)}

    plan = plan_balance(assigned, dict.fromkeys([1, 2]), dict.fromkeys(crowd, 1000))

    assert [move.place.topic for move in plan.moves] == ["a"]


def test_too_few_brokers_are_told_with_the_partition() -> None:
    with pytest.raises(ConfigError, match=r"partition t-0 has 3 replicas, expected at most 2: .*\(4, 5\)"):
        plan_balance({TopicPartition("t", 0): (1, 2, 3)}, dict.fromkeys([4, 5]))
    with pytest.raises(ConfigError, match=r"partition t-0 has 3 replicas, expected at most 2"):
        plan_departure({TopicPartition("t", 0): (1, 2, 3)}, {1}, dict.fromkeys([1, 2, 3]))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({TopicPartition("t", 9): (1,)}, "partition t-9 does not exist"),
        ({TopicPartition("t", 0): ()}, "partition t-0 has no replicas"),
        ({TopicPartition("t", 0): (1, 1)}, r"partition t-0 has replicas \[1, 1\]: expected each broker once"),
        (
            {TopicPartition("t", 0): (1, 7)},
            "has replicas on 7: expected brokers of the cluster, which are 1, 2",
        ),
    ],
)
def test_a_plan_of_somebody_else_is_checked(wanted: Assignment, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_given({TopicPartition("t", 0): (1, 2)}, wanted, [1, 2])


def test_a_large_cluster_is_planned_in_seconds() -> None:
    assigned: Assignment = {
        TopicPartition(f"t{at // 50}", at % 50): tuple((at + step) % 3 + 1 for step in range(3))
        for at in range(2_000)
    }
    racks: dict[int, str | None] = {broker: "abc"[broker % 3] for broker in range(1, 7)}

    planned = after(assigned, plan_balance(assigned, racks))

    counts = replica_counts(planned, sorted(racks))
    assert max(counts) - min(counts) <= 1
