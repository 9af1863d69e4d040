import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.mirror.offset_map import (
    SLOTS,
    OffsetMap,
    Run,
    Slice,
    Translated,
    note_of,
    pair,
    read_note,
    slice_of,
    slots_of,
)
from everlog.model.errors import EverlogError


def test_records_without_gaps_are_one_run() -> None:
    assert pair([(10, 5)], [(0, 2), (2, 3)]) == [Run(10, 0, 5)]


def test_a_gap_on_either_side_begins_a_run() -> None:
    assert pair([(0, 3), (5, 2)], [(7, 2), (10, 3)]) == [Run(0, 7, 2), Run(2, 10, 1), Run(5, 11, 2)]


@pytest.mark.parametrize("targets", [[(0, 2)], [(0, 4)], [(0, 3), (9, 1)]])
def test_counts_that_differ_are_never_paired(targets: list[tuple[int, int]]) -> None:
    with pytest.raises(AssertionError, match="records were written than read"):
        pair([(0, 3)], targets)


def test_a_slice_with_too_many_runs_keeps_some_and_the_last() -> None:
    runs = [Run(10 * number, 2 * number, 1) for number in range(1234)]
    thin = slice_of(3, runs, limit=100)

    assert len(thin.runs) <= 100
    assert thin.runs[-1] == runs[-1]
    assert not thin.is_complete
    assert slice_of(3, runs[:100], limit=100).is_complete


def test_a_note_is_read_as_it_was_written() -> None:
    for one in (Slice(4, (Run(1, 2, 3), Run(9, 6, 1))), Slice(4, (Run(1, 2, 3),), is_complete=False)):
        assert read_note(note_of(one)) == one


@pytest.mark.parametrize("value", [b"", b"{}", b'{"slice":1,"runs":[]}', b'{"slice":1,"runs":[[1]]}', b"[]"])
def test_what_is_no_note_is_refused_with_what_was_expected(value: bytes) -> None:
    with pytest.raises(EverlogError, match="is no note of an offset map: expected"):
        read_note(value)


def test_keys_are_used_again_so_that_the_notes_stay_bounded() -> None:
    keys = {key for number in range(70_000) for key in slots_of(number)}

    assert len(keys) <= 3 * SLOTS
    assert slots_of(0) == ["0/0", "1/0", "2/0"]
    assert slots_of(4097) == ["0/1"]
    assert slots_of(64) == ["0/64", "1/1"]


THREE = OffsetMap(
    [
        Slice(0, (Run(100, 0, 10),)),
        Slice(1, (Run(110, 11, 5), Run(120, 16, 5))),
        Slice(4, (Run(200, 40, 10),)),
    ]
)


@pytest.mark.parametrize(
    ("offset", "there", "is_exact"),
    [
        (50, 0, True),  # before the first record of all
        (100, 0, True),
        (109, 9, True),
        (110, 11, True),
        (117, 16, True),  # in a gap of the source: the next record is that of 120
        (125, 21, False),  # slices 2 and 3 are not noted any more
        (150, 21, False),
        (200, 40, True),
        (210, 50, True),  # all that is mirrored has been read
        (999, 50, False),  # the group is ahead of the mirror
    ],
)
def test_offsets_are_translated(offset: int, there: int, is_exact: bool) -> None:
    assert THREE.translate(offset) == Translated(there, is_exact)


def test_without_the_first_slice_old_offsets_begin_at_the_beginning() -> None:
    assert OffsetMap([Slice(7, (Run(100, 70, 10),))]).translate(99) == Translated(0, False)
    assert OffsetMap([]).translate(5) == Translated(0, False)


@st.composite
def a_mirroring(draw: st.DrawFn) -> tuple[list[Slice], dict[int, int]]:
    """Slices as a mirror makes them, and where each record went."""
    source, target = draw(st.integers(0, 50)), 0
    slices: list[Slice] = []
    went: dict[int, int] = {}
    for number in range(draw(st.integers(1, 12))):
        reads: list[tuple[int, int]] = []
        for _ in range(draw(st.integers(1, 5))):
            source += draw(st.integers(0, 3))
            length = draw(st.integers(1, 6))
            reads.append((source, length))
            source += length
        left = sum(length for _, length in reads)
        writes: list[tuple[int, int]] = []
        while left:
            target += draw(st.integers(0, 2))
            count = draw(st.integers(1, left))
            writes.append((target, count))
            target, left = target + count, left - count
        runs = pair(reads, writes)
        went |= {run.source + step: run.target + step for run in runs for step in range(run.count)}
        slices.append(slice_of(number, runs, limit=draw(st.integers(2, 6))))
    return slices, went


@given(a_mirroring(), st.data())
def test_no_record_is_skipped_whichever_notes_are_left(
    mirroring: tuple[list[Slice], dict[int, int]], data: st.DataObject
) -> None:
    slices, went = mirroring
    kept = data.draw(st.lists(st.sampled_from(slices), min_size=1, unique_by=lambda one: one.number))
    there = OffsetMap(kept)

    for offset in range(max(went) + 3):
        answer = there.translate(offset)
        due = [target for source, target in went.items() if source >= offset]
        assert all(target >= answer.offset for target in due)
        if answer.is_exact:
            assert not any(answer.offset <= target < min(due, default=10**9) for target in went.values())
