"""Records are handed out once each, in order, whatever is sought, paused and taken meanwhile (C1, C7).

Every test runs over chunks that have their batches one by one and, where the kernel is built, over runs.
"""

from collections.abc import Generator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import DamagedBatch, DeserializationError
from everlog.client.core.consumer.positions import PartitionState, Stage
from everlog.client.core.consumer.row_feed import RowFeed
from everlog.client.core.consumer.settings import Deserializer
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.columns import columns_are_compiled
from everlog.records.runs import plain_run

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)

_made_as = ["batches"]
needs_kernel = pytest.mark.skipif(
    not columns_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)


@pytest.fixture(params=["batches", pytest.param("runs", marks=needs_kernel)], autouse=True, scope="module")
def made_as(request: pytest.FixtureRequest) -> Generator[None]:
    """How `a_chunk` makes chunks."""
    _made_as[:] = [request.param]
    yield
    _made_as[:] = ["batches"]


def a_state(place: TopicPartition = ZERO, offset: int = 0) -> PartitionState:
    state = PartitionState(place)
    state.put_at(offset, -1, Stage.READING)
    return state


def a_chunk(
    start: int, *sizes: int, place: TopicPartition = ZERO, gap: int = 0, first: int | None = None
) -> Chunk:
    """Batches of so many records, behind each other; the first may begin earlier, the end is a gap."""
    at = start if first is None else first
    batches: list[BatchView] = []
    for size in sizes:
        records = [NewRecord(None, b"%d" % (at + index), (), 1000) for index in range(size)]
        batches.append(batch_at(build_batch(records, base_offset=at, leader_epoch=4)))
        at += size
    run = plain_run(bytearray(b"".join(batch.raw for batch in batches)), start)
    if run is not None and _made_as == ["runs"]:
        return Chunk(place, run, start, None, 99, at + gap, 4)
    return Chunk(place, batches, start, None, 99, at + gap, 4)


def feed_of(state: PartitionState, *chunks: Chunk, value: Deserializer | None = None) -> RowFeed:
    feed = RowFeed(None, value)
    for chunk in chunks:
        feed.add(state, chunk)
    return feed


def test_pieces_move_the_position_behind_their_last_record() -> None:
    state = a_state()
    feed = feed_of(state, a_chunk(0, 3, 3, gap=4))
    assert [row.offset for row in feed.take(2)] == [0, 1]
    assert (state.position, state.position_epoch) == (2, 4)
    assert [row.offset for row in feed.take(2)] == [2, 3]
    assert [row.offset for row in feed.take(10)] == [4, 5]
    assert state.position == 10, "behind what the chunk holds and nobody sees"
    assert not feed.take(1)


def test_a_chunk_without_visible_records_still_moves_the_position() -> None:
    state = a_state()
    feed = feed_of(state, a_chunk(0, gap=5))
    assert feed.take(5) == []
    assert state.position == 5


def test_records_before_the_start_are_not_seen() -> None:
    feed = feed_of(a_state(ZERO, 2), a_chunk(2, 5, first=0))
    assert [row.offset for row in feed.take(9)] == [2, 3, 4]


def test_the_list_that_was_handed_out_is_the_callers() -> None:
    feed = feed_of(a_state(), a_chunk(0, 3), a_chunk(3, 3))
    rows = feed.take(3)
    rows.append(rows[0])
    assert [row.offset for row in feed.take(3)] == [3, 4, 5]


def test_what_is_paused_is_given_back_as_far_as_it_is_left() -> None:
    state = a_state()
    feed = feed_of(state, a_chunk(0, 4, 4))
    feed.take(2)
    state.paused = True
    assert not feed.is_ready
    assert not feed.tidy()
    assert feed.take(9) == []
    state.paused = False
    feed.add(state, state.unbuffer())
    assert [row.offset for row in feed.take(9)] == [2, 3, 4, 5, 6, 7]


def test_a_damaged_batch_is_said_after_the_records_before_it() -> None:
    state = a_state()
    chunk = a_chunk(0, 2, 2)
    chunk.batches[1].raw[61] = 0x7F  # The size of its first record.
    feed = feed_of(state, chunk)
    assert len(feed.take(10)) == 2
    for _ in range(2):
        with pytest.raises(DamagedBatch, match="orders-0 at offset 2") as raised:
            feed.take(10)
        assert (raised.value.place, raised.value.offset) == (ZERO, 2)
        assert not raised.value.retriable, "its checksum holds: another fetch would bring the same"
    assert state.position == 2


def test_a_failing_deserializer_is_said_after_the_records_before_it() -> None:
    def only_small(data: bytes) -> int:
        if int(data) >= 2:
            raise ValueError("too large")
        return int(data)

    state, other = a_state(), a_state(ONE)
    feed = feed_of(state, a_chunk(0, 4), value=only_small)
    feed.add(other, a_chunk(0, 1, place=ONE))
    assert [row.value for row in feed.take(10)] == [0, 1]
    with pytest.raises(DeserializationError, match="value of orders-0 at offset 2") as failed:
        feed.take(10)
    assert (failed.value.place, failed.value.offset, state.position) == (ZERO, 2, 2)
    state.put_at(3, -1, Stage.READING)
    feed.tidy()
    assert [(row.partition, row.value) for row in feed.take(10)] == [(1, 0)]


actions = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, 9)),
        st.tuples(st.just("fetch"), st.integers(0, 4)),
        st.tuples(st.just("refill"), st.integers(0, 1)),
        st.tuples(st.just("seek"), st.integers(0, 59)),
        st.tuples(st.just("pause"), st.integers(0, 1)),
        st.tuples(st.just("resume"), st.integers(0, 1)),
        st.tuples(st.just("tidy"), st.just(0)),
        st.tuples(st.just("give back"), st.just(0)),
    ),
    max_size=60,
)


@given(actions)
def test_in_any_order_of_events_each_record_follows_the_position(history: Sequence[tuple[str, int]]) -> None:
    states = [a_state(ZERO), a_state(ONE)]
    feed = RowFeed(None, None)
    expected = {ZERO: 0, ONE: 0}

    def check(partition: int, offset: int) -> None:
        place = TopicPartition("orders", partition)
        assert offset == expected[place], "none is left out and none comes twice"
        assert not states[partition].paused
        expected[place] = offset + 1

    for action, number in history:
        state = states[number % 2]
        match action:
            case "take":
                for row in feed.take(number):
                    check(row.partition, row.offset)
                for each in states:
                    assert each.position == expected[each.place]
            case "fetch":
                for each in states:
                    if each.fetch_offset < 60:
                        chunk = a_chunk(each.fetch_offset, *([2] * number or [1]), place=each.place)
                        each.buffer(chunk)
            case "refill":
                if state.buffered and not state.paused:
                    feed.tidy()
                    feed.add(state, state.unbuffer())
            case "seek":
                state.put_at(number, -1, Stage.READING)
                expected[state.place] = number
            case "pause":
                state.paused = True
            case "resume":
                state.paused = False
            case "tidy":
                feed.tidy()
            case _:
                feed.give_back()
    feed.give_back()
    for state in states:
        assert state.position == expected[state.place] <= state.fetch_offset
        assert state.buffered_bytes == sum(chunk.size_bytes for chunk in state.buffered)
