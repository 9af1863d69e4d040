"""Chunks to columns: how much of them, what is left, and what damage does (C1)."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from everlog.client.core.columns.columns import Unpacked, chunks_to_arrow, record_schema, unpack
from everlog.client.core.columns.feed import Portion, read_columns
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import DamagedBatch
from everlog.client.core.consumer.positions import PartitionState, Stage
from everlog.client.core.consumer.row_feed import RowFeed
from everlog.model.topics import TopicPartition
from everlog.records.batch import HEADER_BYTES, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.columns import columns_are_compiled
from everlog.records.compression import Codec
from everlog.records.runs import PlainRun, plain_run

pa: Any = import_module("pyarrow")
PLACE = TopicPartition("topic", 2)
NOON = 1_700_000_000_000
needs_kernel = pytest.mark.skipif(
    not columns_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)


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
    raws = [bytearray(each.raw) for each in chunk.batches]
    raws[batch][HEADER_BYTES] = 0x7E
    return replace(chunk, batches=[batch_at(raw) for raw in raws])


def as_run(chunk: Chunk) -> Chunk:
    """The same chunk as an answer brings it: its batches back to back in one buffer."""
    run = plain_run(memoryview(b"".join(bytes(batch.raw) for batch in chunk.batches)), 0)
    assert run is not None
    return replace(chunk, batches=run, counted_bytes=len(run.raw))


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
    chunks[chunk] = damage(chunks[chunk], batch)
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

    assert isinstance(read.error, DamagedBatch)
    assert (read.error.place, read.error.offset, read.error.retriable) == (PLACE, 0, False)
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


@needs_kernel
def test_a_run_becomes_the_columns_of_its_batches() -> None:
    chunk = a_chunk(3, 1, 4, start=2)

    for views in (False, True):
        assert chunks_to_arrow([as_run(chunk)], views=views).equals(chunks_to_arrow([chunk], views=views))
    limited = replace(chunk, end=6)
    assert offsets(chunks_to_arrow([as_run(limited)])) == [2, 3, 4, 5]


@needs_kernel
def test_a_run_is_unpacked_up_to_a_bound_and_a_batch_at_least() -> None:
    chunk = as_run(a_chunk(10, 10, 10, start=4))

    first, rest = unpack(chunk, 1)
    assert rest is not None
    assert (len(first.chunk.batches), first.chunk.start, first.chunk.next_offset) == (1, 4, 10)
    assert (first.chunk.leader_epoch, first.chunk.size_bytes) == (0, first.size_bytes)
    assert (len(rest.batches), rest.start, rest.next_offset, rest.leader_epoch) == (2, 10, 30, 2)
    assert rest.size_bytes + first.size_bytes == chunk.size_bytes
    assert isinstance(rest.batches, PlainRun)
    assert unpack(chunk, 1 << 20) == (Unpacked(chunk, (), chunk.size_bytes), None)


@needs_kernel
def test_what_is_left_of_a_run_is_a_run() -> None:
    left = as_run(a_chunk(10, 10, 10)).rest(13)

    assert isinstance(left.batches, PlainRun)
    assert (len(left.batches), left.start, left.next_offset) == (2, 13, 30)
    assert offsets(chunks_to_arrow([left])) == list(range(13, 30))
    assert not as_run(a_chunk(3)).rest(3).batches


@needs_kernel
def test_the_size_of_what_is_left_of_a_run_is_known_without_a_look_at_its_batches() -> None:
    left = as_run(a_chunk(10, 10, 10)).rest(13)

    assert left.counted_bytes == left.size_bytes == sum(batch.size for batch in left.batches)


@needs_kernel
@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_damage_in_a_run_is_named_and_what_is_before_it_is_read(damaged: int) -> None:
    read = read_columns([a_portion(as_run(damage(a_chunk(2, 3, 1), damaged)))])

    if damaged == 0:
        assert read.error is not None
        assert "the batch of topic-2 at offset 0 is damaged" in str(read.error)
        assert not read.used
        return
    assert read.batch is not None
    assert offsets(read.batch) == list(range([2, 5][damaged - 1]))
    assert [portion.chunk.start for portion in read.left] == [[2, 5][damaged - 1]]


@needs_kernel
def test_a_wrong_checksum_in_a_run_ends_the_chunk_before_it() -> None:
    chunk = replace(as_run(damage(a_chunk(2, 3, 1), 1)), is_checked=False)

    good, damage_found = chunk.checked()
    assert "at offset 2 is damaged: its checksum does not hold" in str(damage_found)
    assert (len(good.batches), good.next_offset, good.is_checked) == (1, 2, True)
    whole, nothing = replace(as_run(a_chunk(2, 3)), is_checked=False).checked()
    assert (whole.is_checked, nothing) == (True, None)
