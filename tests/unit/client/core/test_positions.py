"""How a partition gets to be read, and what a new leader's log says about it (C5, C7, KIP-320)."""

import pytest

from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import LogTruncated, NoOffset
from everlog.client.core.consumer.list_offsets import EARLIEST, LATEST
from everlog.client.core.consumer.positions import UNKNOWN, PartitionState, Positions, Stage
from everlog.client.core.errors import Misused
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition
from everlog.records.batch import batch_at
from tests.unit.client.builders import a_batch, a_view

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
HOUR_MS = 3_600_000


def positions(reset: str = "earliest", *, has_group: bool = True) -> Positions:
    made = Positions(reset, lambda: 10 * HOUR_MS, has_group=has_group)
    made.add([ZERO])
    return made


def reading(
    reset: str = "earliest", *, position: int = 5, fetched_to: int = 8
) -> tuple[Positions, PartitionState]:
    """Read up to an offset, and fetched further, from a leader of epoch 3."""
    made = positions(reset)
    state = made.of(ZERO)
    made.seek(ZERO, position, epoch=3)
    made.take_view(a_view(1, epoch=3))
    made.take_epoch_end(state, state.version, position, 3, position)
    if fetched_to > position:
        values = [str(offset) for offset in range(position, fetched_to)]
        batch = batch_at(a_batch(position, *values))
        state.buffer(Chunk(ZERO, [batch], position, None, 99, fetched_to, 3))
    return made, state


def test_without_a_group_a_partition_begins_by_the_rule() -> None:
    for reset, timestamp in (("earliest", EARLIEST), ("latest", LATEST), ("by_duration:PT1H", 9 * HOUR_MS)):
        state = positions(reset, has_group=False).of(ZERO)
        assert (state.stage, state.reset_to) == (Stage.RESET, timestamp)


def test_with_a_group_it_begins_at_the_committed_offset_or_else_by_the_rule() -> None:
    made = positions()
    state = made.of(ZERO)
    assert state.stage is Stage.NO_OFFSET
    made.take_committed(state, state.version, 42, 1)
    assert (state.position, state.fetch_offset, state.fetch_epoch, state.stage) == (42, 42, 1, Stage.CHECK)

    made = positions()
    state = made.of(ZERO)
    made.take_committed(state, state.version, None, -1)
    assert (state.stage, state.reset_to) == (Stage.RESET, EARLIEST)
    made.take_reset(state, state.version, 7, -1)
    made.take_view(a_view(1))
    assert (state.position, state.stage) == (7, Stage.READING)


def test_what_was_asked_before_a_seek_does_not_count() -> None:
    made = positions()
    state = made.of(ZERO)
    asked = state.version
    made.seek(ZERO, 3)
    made.take_committed(state, asked, 42, 1)
    made.take_reset(state, asked, 42, 1)
    assert state.position == 3


def test_none_as_a_rule_names_all_partitions_without_an_offset_until_a_seek() -> None:
    made = positions("none", has_group=False)
    made.add([ONE])
    problem = made.problem()
    assert isinstance(problem, NoOffset)
    assert problem.places == (ZERO, ONE)
    made.seek(ONE, 0)
    problem = made.problem()
    assert isinstance(problem, NoOffset)
    assert problem.places == (ZERO,)


def test_a_new_leader_is_asked_before_reading_goes_on() -> None:
    made, state = reading()
    assert (state.stage, state.leader_epoch) == (Stage.READING, 3)
    made.take_view(a_view(2, epoch=4))
    assert (state.stage, state.leader_epoch) == (Stage.CHECK, 3)
    made.take_epoch_end(state, state.version, 8, 4, 8)
    assert (state.stage, state.leader_epoch, len(state.buffered)) == (Stage.READING, 4, 1)


def test_a_leader_that_lost_only_what_nobody_has_seen_is_read_from_the_position_again() -> None:
    made, state = reading()
    made.take_view(a_view(2, epoch=4))
    made.take_epoch_end(state, state.version, 8, 4, 6)
    assert (state.stage, state.position, state.fetch_offset) == (Stage.READING, 5, 5)
    assert not state.buffered


def test_a_leader_that_lost_what_was_read_sends_us_back_or_stops_us() -> None:
    made, state = reading()
    made.take_view(a_view(2, epoch=4))
    made.take_epoch_end(state, state.version, 8, 4, 2)
    assert (state.stage, state.position, state.fetch_offset) == (Stage.READING, 2, 2)

    made, state = reading("none")
    made.take_view(a_view(2, epoch=4))
    made.take_epoch_end(state, state.version, 8, 4, 2)
    problem = made.problem()
    assert isinstance(problem, LogTruncated)
    assert problem.diverged == {ZERO: 2}
    assert "lost records before offset 5: from offset 2 on" in str(problem)


def test_a_leader_that_never_had_the_epoch_leads_to_a_reset() -> None:
    made, state = reading()
    made.take_view(a_view(2, epoch=4))
    made.take_epoch_end(state, state.version, 8, 4, None)
    assert (state.stage, state.reset_to) == (Stage.RESET, EARLIEST)

    made, state = reading("none")
    made.take_view(a_view(2, epoch=4))
    made.take_epoch_end(state, state.version, 8, 4, None)
    problem = made.problem()
    assert isinstance(problem, LogTruncated)
    assert problem.diverged == {ZERO: None}


def test_an_older_view_changes_nothing() -> None:
    made, state = reading()
    made.take_view(a_view(2, epoch=2))
    assert state.stage is Stage.READING


def test_a_topic_made_anew_has_other_epochs() -> None:
    made, state = reading()
    made.take_view(a_view(1, epoch=0, topic_id=Uuid(b"orders-made-anew")))
    assert (state.stage, state.fetch_epoch, state.leader_epoch) == (Stage.READING, UNKNOWN, 0)


def test_partitions_that_are_not_assigned_are_refused_by_name() -> None:
    made = positions()
    with pytest.raises(Misused, match="orders-1 is not assigned: orders-0 is"):
        made.of(ONE)
    made.add([ZERO])
    assert made.places == [ZERO]
    made.remove([ZERO, ONE])
    assert made.places == []
