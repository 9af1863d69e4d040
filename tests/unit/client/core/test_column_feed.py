"""Chunks to columns: how much of them, what is left, and what damage does (C1)."""

from importlib import import_module
from typing import Any

import pytest

from everlog.client.core.columns.columns import chunks_to_arrow, record_schema, unpack
from everlog.client.core.columns.feed import Portion, read_columns
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.positions import PartitionState, Stage
from everlog.client.core.consumer.row_feed import RowFeed
from everlog.model.errors import CorruptDataError
from everlog.model.topics import TopicPartition
from everlog.records.batch import HEADER_BYTES, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.columns import columns_are_compiled
from everlog.records.compression import Codec

pa: Any = import_module("pyarrow")
PLACE = TopicPartition("topic", 2)
NOON = 1_700_000_000_000


def a_chunk(*counts: int, start: int = 0, codec: Codec = Codec.NONE, place: TopicPartition = PLACE) -> Chunk:
    """A chunk whose batches have so many records, with values that are their offsets."""
    batches: list[bytearray] = []
    base = 0
    for count in counts:
        records = [NewRecord(None, b"%d" % (base + i), (), NOON) for i in range(count)]
        batches.append(build_batch(records, codec=codec, base_offset=base, leader_epoch=len(batches)))
        base += count
    views = [batch_at(raw) for raw in batches]
    return Chunk(place, views, start, None, base, base, len(views) - 1)


def a_portion(chunk: Chunk) -> Portion:
    state = PartitionState(chunk.place)
    state.put_at(chunk.start, -1, Stage.READING)
    return Portion(state, state.version, chunk)


def damage(chunk: Chunk, batch: int) -> Chunk:
    """Have a record of a batch say that it is longer than the batch; in a copy of it."""
    raw = bytearray(chunk.batches[batch].raw)
    raw[HEADER_BYTES] = 0x7E
    chunk.batches[batch] = batch_at(raw)
    return chunk


def offsets(batch: Any) -> list[int]:
    found: list[int] = batch.column("offset").to_pylist()
    return found


def test_chunks_become_one_batch_of_the_schema() -> None:
    other = TopicPartition("other", 0)
    batch = chunks_to_arrow([a_chunk(3, 2, start=1), a_chunk(1, place=other), a_chunk(1, codec=Codec.GZIP)])

    assert batch.schema.equals(record_schema())
    batch.validate(full=True)
    assert offsets(batch) == [1, 2, 3, 4, 0, 0]
    assert batch.column("value").to_pylist() == [b"1", b"2", b"3", b"4", b"0", b"0"]
    assert batch.column("topic").to_pylist() == ["topic"] * 4 + ["other", "topic"]
    assert batch.column("partition").to_pylist() == [2, 2, 2, 2, 0, 2]
    assert batch.column("leader_epoch").to_pylist() == [0, 0, 1, 1, 0, 0]
    assert batch.column("headers").to_pylist() == [[]] * 6


def test_values_may_be_views_of_what_was_fetched() -> None:
    values = [None, b"", b"short", b"large" * 30]
    batches = [
        build_batch([NewRecord(None, value, (), NOON) for value in values], codec=codec, base_offset=base)
        for base, codec in ((0, Codec.NONE), (4, Codec.GZIP))
    ]
    chunk = Chunk(PLACE, [batch_at(raw) for raw in batches], 1, None, 8, 8, 0)
    portion = a_portion(chunk)
    batch = read_columns([portion], views=True).batch
    del chunk, portion

    assert batch is not None
    assert batch.schema.equals(record_schema(views=True))
    batch.validate(full=True)
    assert batch.column("value").type == pa.binary_view()
    assert batch.column("value").to_pylist() == [*values[1:], *values]
    assert batch.column("value").cast(pa.binary()).to_pylist() == [*values[1:], *values]
    if columns_are_compiled():  # The plain version makes a copy.
        with pytest.raises(BufferError):  # What the columns point to cannot be used for another answer.
            batches[0].append(0)


def test_damage_ends_the_reading_of_views() -> None:
    read = read_columns([a_portion(damage(a_chunk(2, 3), 1))], views=True)

    assert read.batch is not None
    assert read.batch.schema.equals(record_schema(views=True))
    assert offsets(read.batch) == [0, 1]


def test_an_end_is_kept() -> None:
    chunk = a_chunk(5, 5)
    limited = Chunk(PLACE, chunk.batches, 3, 7, 10, 10, 1)
    assert offsets(chunks_to_arrow([limited])) == [3, 4, 5, 6]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_chunk_is_unpacked_up_to_a_bound_and_a_batch_at_least(codec: Codec) -> None:
    chunk = a_chunk(10, 10, 10, start=4, codec=codec)

    first, rest = unpack(chunk, 1)
    assert rest is not None
    assert (len(first.chunk.batches), first.chunk.start, first.chunk.next_offset) == (1, 4, 10)
    assert (len(rest.batches), rest.start, rest.next_offset) == (2, 10, 30)
    assert first.chunk.leader_epoch == 0
    assert len(unpack(chunk, 0)[0].chunk.batches) == 1
    whole, nothing = unpack(chunk, 1 << 20)
    assert (whole.chunk, nothing) == (chunk, None)


def test_positions_move_behind_what_is_used_and_the_rest_is_left() -> None:
    first, second = a_portion(a_chunk(10, 10, start=4)), a_portion(a_chunk(5))
    read = read_columns([first, second], max_bytes=1)

    assert offsets(read.batch) == list(range(4, 10))
    assert [len(portion.chunk.batches) for portion in read.left] == [1, 1]
    read.move_positions()
    assert (first.state.position, first.state.position_epoch, second.state.position) == (10, 0, 0)
    again = read_columns(read.left)
    assert offsets(again.batch) == [*range(10, 20), *range(5)]
    again.move_positions()
    assert (first.state.position, second.state.position, again.left) == (20, 5, [])


def test_a_portion_that_does_not_fit_is_left_whole() -> None:
    first, second = a_portion(a_chunk(5)), a_portion(a_chunk(5, codec=Codec.LZ4))
    read = read_columns([first, second], max_bytes=1)

    assert (read.used, read.left) == ([first], [second])


def test_a_seek_meanwhile_is_not_undone() -> None:
    portion = a_portion(a_chunk(10))
    read = read_columns([portion])
    portion.state.put_at(3, -1, Stage.READING)
    read.move_positions()

    assert portion.state.position == 3


def test_a_chunk_without_batches_moves_the_position() -> None:
    portion = a_portion(Chunk(PLACE, [], 4, None, 9, 9, 7))
    read = read_columns([portion])
    read.move_positions()

    assert read.batch is not None
    assert (read.batch.num_rows, portion.state.position) == (0, 9)


@pytest.mark.parametrize(("chunk", "batch"), [(0, 1), (0, 2), (1, 0), (1, 1)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_what_is_before_damage_is_handed_out_first(chunk: int, batch: int, codec: Codec) -> None:
    chunks = [a_chunk(4, 4, 4, codec=codec), a_chunk(3, 3, codec=codec)]
    damage(chunks[chunk], batch)
    portions = [a_portion(each) for each in chunks]

    read = read_columns(portions)
    assert read.error is None
    good = [*range(4 * batch)] if chunk == 0 else [*range(12), *range(3 * batch)]
    assert offsets(read.batch) == good
    read.move_positions()
    bad = portions[chunk].state
    assert bad.position == (4 if chunk == 0 else 3) * batch
    again = read_columns(read.left)
    assert again.error is not None
    assert f"the batch of topic-2 at offset {bad.position} is damaged" in str(again.error)
    assert (again.used, again.left) == ([], read.left)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_damage_in_front_is_an_error_and_nothing_moves(codec: Codec) -> None:
    portion = a_portion(damage(a_chunk(4, 4, codec=codec), 0))
    read = read_columns([portion])

    assert isinstance(read.error, CorruptDataError)
    assert (read.used, read.left, read.batch) == ([], [portion], None)


def test_rows_and_columns_take_turns_in_one_feed() -> None:
    feed = RowFeed(None, None)
    state = PartitionState(PLACE)
    state.put_at(0, -1, Stage.READING)
    feed.add(state, a_chunk(5, 5))

    assert [row.offset for row in feed.take(3)] == [0, 1, 2]
    portions = feed.take_portions()
    assert not feed.is_ready
    read = read_columns(portions, max_bytes=1)
    feed.return_portions(read.left)
    read.move_positions()
    assert offsets(read.batch) == [3, 4]
    assert [row.offset for row in feed.take(100)] == [5, 6, 7, 8, 9]
    assert state.position == 10


def test_what_is_stale_is_not_taken_back() -> None:
    feed = RowFeed(None, None)
    portion = a_portion(a_chunk(5))
    portion.state.put_at(2, -1, Stage.READING)
    feed.return_portions([portion])

    assert not feed.is_ready
