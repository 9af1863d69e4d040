"""Which leader epoch began at which offset."""

import pytest

from everlog.log.epochs import LeaderEpochs
from everlog.model.ids import LeaderEpoch, Offset


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries])


KNOWN = ((2, 0), (5, 30), (6, 50))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (6, (6, 90)),
        (5, (5, 50)),
        (2, (2, 30)),
        (3, (2, 30)),
        (4, (2, 30)),
        (0, (0, 0)),
        (7, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_one_began(asked: int, answer: tuple[int, int]) -> None:
    assert epochs(*KNOWN).end_offset_for(LeaderEpoch(asked), Offset(90)) == answer


@pytest.mark.parametrize(
    ("last_epoch", "offset", "answer"),
    [
        (-1, 20, None),
        (2, 20, None),
        (2, 30, None),
        (2, 31, (2, 30)),
        (3, 30, (2, 30)),
        (5, 31, None),
        (6, 51, None),
        (6, 90, None),
        (6, 91, (6, 90)),
        # An epoch that is newer than that of the record which is here.
        (5, 30, (2, 30)),
        (6, 50, (5, 50)),
        (6, 20, (2, 30)),
        (7, 20, (2, 30)),
        (7, 90, (6, 90)),
        (7, 91, (6, 90)),
    ],
)
def test_a_log_goes_on_where_its_last_record_is_of_the_epoch_that_it_has_here(
    last_epoch: int, offset: int, answer: tuple[int, int] | None
) -> None:
    assert epochs(*KNOWN).parting_from(LeaderEpoch(last_epoch), Offset(offset), Offset(90)) == answer


@pytest.mark.parametrize(("last_epoch", "answer"), [(1, None), (2, None), (5, None), (7, (6, 90))])
def test_of_a_record_before_the_start_only_an_epoch_of_the_future_is_wrong(
    last_epoch: int, answer: tuple[int, int] | None
) -> None:
    known = epochs((5, 40), (6, 50))
    assert known.parting_from(LeaderEpoch(last_epoch), Offset(40), Offset(90)) == answer
    assert epochs().parting_from(LeaderEpoch(last_epoch), Offset(40), Offset(90)) is None


def test_the_epoch_at_an_offset_is_the_last_that_began_by_then() -> None:
    known = epochs(*KNOWN)
    assert [known.epoch_at(Offset(offset)) for offset in (0, 29, 30, 50, 99)] == [2, 2, 5, 6, 6]
    assert epochs((3, 10)).epoch_at(Offset(9)) == -1


def test_an_epoch_is_noted_once_and_never_goes_back() -> None:
    known = epochs(*KNOWN)
    known.assign(LeaderEpoch(6), Offset(70))
    known.assign(LeaderEpoch(4), Offset(80))
    assert known.entries == list(KNOWN)
    assert not known.changed
    known.assign(LeaderEpoch(7), Offset(80))
    assert known.latest == 7
    assert known.changed


def test_an_epoch_without_records_leaves_no_trace() -> None:
    known = epochs((1, 0), (2, 10))
    known.assign(LeaderEpoch(3), Offset(10))
    assert known.entries == [(1, 0), (3, 10)]


def test_cutting_the_end_forgets_the_epochs_that_begin_behind_it() -> None:
    known = epochs(*KNOWN)
    known.truncate_end(Offset(50))
    assert known.entries == [(2, 0), (5, 30)]
    assert known.latest == 5
    known.truncate_end(Offset(31))
    assert known.latest == 5
    known.truncate_end(Offset(0))
    assert known.latest == -1


def test_moving_the_start_keeps_the_epoch_that_holds_it() -> None:
    known = epochs(*KNOWN)
    known.truncate_start(Offset(40))
    assert known.entries == [(5, 40), (6, 50)]
    known.truncate_start(Offset(99))
    assert known.entries == [(6, 99)]
