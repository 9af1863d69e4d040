"""What a table remembers."""

from everlog.model.topics import TopicPartition
from everlog.tables.offsets import OffsetRanges
from everlog.tables.state import State

PLACE = TopicPartition("orders", 0)


def ranges(start: int, end: int) -> OffsetRanges:
    return OffsetRanges.of({PLACE: (start, end)})


def test_a_state_survives_being_written_down() -> None:
    state = State().after("q", 3, ranges(0, 10), None).after("r", 0, ranges(20, 30), "graves")

    assert State.load(state.dump()) == state
    assert state.last_batch("q") == 3
    assert state.last_batch("nobody") is None


def test_rows_are_joined_to_where_their_writer_ended_and_to_nothing_else() -> None:
    state = State().after("q", 0, ranges(0, 10), None).after("r", 0, ranges(10, 15), None)

    assert state.joined("q", ranges(17, 20)) == ranges(10, 20)
    assert state.joined("q", ranges(4, 20)) == ranges(4, 20)
    assert state.joined("new", ranges(17, 20)) == ranges(17, 20)


def test_what_a_writer_has_brought_itself_is_not_taken_beside_it() -> None:
    state = State().after("q", 0, ranges(0, 10), None).after("r", 0, ranges(5, 15), None)

    assert state.taken_beside("q").spans == {PLACE: ((5, 15),)}
    assert state.taken_beside("r").spans == {PLACE: ((0, 10),)}
    assert state.taken_beside("new").spans == {PLACE: ((0, 15),)}


def test_a_state_from_before_that_was_kept_is_taken_beside_all() -> None:
    text = (
        State()
        .after("q", 0, ranges(0, 10), None)
        .dump()
        .replace(',"covered":{"orders":{"0":[[0,10]]}}', "", 1)
    )
    state = State.load(text).after("q", 1, ranges(10, 12), None)

    assert not State.load(text).writers["q"].covered.spans
    assert state.taken_beside("q").spans == {PLACE: ((0, 10),)}
