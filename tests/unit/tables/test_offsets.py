"""Ranges of offsets and what a table has taken in."""

from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.model.topics import TopicPartition
from everlog.tables.offsets import Coverage, OffsetRanges

PLACE = TopicPartition("orders", 0)

spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=8,
)


def a_coverage(*ranges: tuple[int, int]) -> Coverage:
    covered = Coverage()
    for span in ranges:
        covered = covered.plus(OffsetRanges.of({PLACE: span}))
    return covered


@settings(deadline=None)
@given(spans, st.integers(0, 90))
def test_coverage_is_the_set_of_all_offsets_that_came(ranges: list[tuple[int, int]], probe: int) -> None:
    covered = a_coverage(*ranges)
    model = {offset for start, end in ranges for offset in range(start, end)}

    assert covered.holds(PLACE, probe) == (probe in model)
    assert covered.first_missing(PLACE, probe) == next(n for n in range(probe, 200) if n not in model)
    assert covered.missing_below(PLACE, probe) == any(n not in model for n in range(probe))
    assert Coverage.load(covered.dump()) == covered
    if model:
        assert covered.ends() == {PLACE: max(model) + 1}


@settings(deadline=None)
@given(spans, spans, st.integers(0, 90))
def test_coverages_add_up_and_are_taken_away_as_sets_are(
    one: list[tuple[int, int]], other: list[tuple[int, int]], probe: int
) -> None:
    here, there = a_coverage(*one), a_coverage(*other)

    both, left = here.with_all(there), here.without(there)
    assert both.holds(PLACE, probe) == (here.holds(PLACE, probe) or there.holds(PLACE, probe))
    assert left.holds(PLACE, probe) == (here.holds(PLACE, probe) and not there.holds(PLACE, probe))
    assert Coverage.load(left.dump()) == left


@settings(deadline=None)
@given(spans, st.integers(0, 60), st.integers(1, 20))
def test_overlap_is_a_shared_offset(ranges: list[tuple[int, int]], start: int, length: int) -> None:
    covered = a_coverage(*ranges)
    model = {offset for first, end in ranges for offset in range(first, end)}

    overlaps = covered.overlaps(OffsetRanges.of({PLACE: (start, start + length)}))

    assert overlaps == bool(model & set(range(start, start + length)))


def test_neighbours_grow_together_and_gaps_stay() -> None:
    assert a_coverage((0, 5), (5, 8), (20, 30)).spans == {PLACE: ((0, 8), (20, 30))}


def test_empty_ranges_are_left_out_and_json_goes_both_ways() -> None:
    ranges = OffsetRanges.of({("b", 1): (5, 5), ("a", 10): (0, 3), ("a", 9): (1, 2)})

    assert ranges.dump() == {"a": {"9": [1, 2], "10": [0, 3]}}
    assert OffsetRanges.load(ranges.dump()) == ranges
    assert ranges.offsets == 4


def test_ranges_between_two_offsets_of_a_source() -> None:
    ranges = OffsetRanges.between({"t": {"0": 5}}, {"t": {"0": 9, "1": 4}})

    assert ranges.dump() == {"t": {"0": [5, 9], "1": [0, 4]}}


def test_a_hull_holds_both() -> None:
    one, other = OffsetRanges.of({("t", 0): (5, 9)}), OffsetRanges.of({("t", 0): (2, 6), ("t", 1): (0, 1)})

    assert one.hull(other).dump() == {"t": {"0": [2, 9], "1": [0, 1]}}
