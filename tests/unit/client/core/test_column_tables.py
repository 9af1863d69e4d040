"""Tables in pieces, and what becomes of a batch of columns on its way (P1, P2)."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.client.core.columns.intake import ColumnIntake
from everlog.client.core.columns.tables import pieces
from everlog.client.core.producer.accumulator import TopicQueues
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.settings import producer_settings
from everlog.model.topics import TopicPartition
from everlog.records.batch import HEADER_BYTES, batch_at
from everlog.records.column_batch import ColumnBatch
from everlog.records.column_buffers import RowSource
from everlog.records.columns import encode_rows
from everlog.records.compression import Codec
from everlog.records.reader import read_records

pa: Any = import_module("pyarrow")
NOON = 1_700_000_000_000


def batches_of(*sizes: int) -> Iterator[Any]:
    start = 0
    for size in sizes:
        yield pa.record_batch({"value": [b"%07d" % i for i in range(start, start + size)]})
        start += size


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 300), max_size=12), piece_bytes=st.integers(1, 5_000))
def test_pieces_hold_the_same_rows_in_batches_of_a_size(sizes: list[int], piece_bytes: int) -> None:
    found = list(pieces(batches_of(*sizes), piece_bytes))

    rows = [value for piece in found for value in piece.column("value").to_pylist()]
    assert rows == [b"%07d" % i for i in range(sum(sizes))]
    assert all(piece.num_rows for piece in found)
    # Some leeway for the offsets that every batch has one more of.
    assert len(found) <= 1 + 1.5 * sum(batch.nbytes for batch in batches_of(*sizes)) / piece_bytes
    assert all(piece.nbytes <= 2 * piece_bytes + 64 for piece in found)


def a_topic(partitions: int, limit: int = 10_000) -> TopicQueues:
    queues = [PartitionQueue(TopicPartition("topic", index)) for index in range(partitions)]
    return TopicQueues("topic", queues, range(partitions), limit)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 900), min_size=1, max_size=120),
    partitions=st.integers(1, 4),
    keyed=st.booleans(),
    codec=st.sampled_from(["none", "lz4"]),
)
def test_every_row_is_in_one_batch_and_in_order(
    lengths: list[int], partitions: int, keyed: bool, codec: str
) -> None:
    table: dict[str, Any] = {"value": [b"%05d" % i + b"x" * length for i, length in enumerate(lengths)]}
    if keyed:
        table["key"] = [b"%d" % (i % 7) for i in range(len(lengths))]
    intake = ColumnIntake(producer_settings("localhost:9092", {"compression_type": codec}))
    by_partition: dict[int, list[int]] = {}
    for partition, batch in intake.batches(a_topic(partitions, 2_000), pa.table(table), None, NOON):
        assert batch.size_bytes <= 2_000
        sealed = batch_at(batch.seal(Codec.LZ4 if codec == "lz4" else Codec.NONE))
        assert sealed.checksum_holds()
        numbers = [int((record.value or b"")[:5]) for record in read_records(sealed)]
        by_partition.setdefault(partition, []).extend(numbers)
    assert sorted(number for numbers in by_partition.values() for number in numbers) == list(
        range(len(lengths))
    )
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())


def test_a_row_alone_may_be_larger_than_the_topic_wants_its_batches() -> None:
    intake = ColumnIntake(producer_settings("localhost:9092", {}))
    table = pa.table({"value": [b"small", bytes(5_000), b"small"]})
    counts = [batch.count for _, batch in intake.batches(a_topic(1, 2_000), table, None, NOON)]

    assert sum(counts) == 3
    assert len(counts) > 1


def test_a_batch_is_no_larger_than_the_memory_for_all() -> None:
    intake = ColumnIntake(producer_settings("localhost:9092", {"buffer_memory": 3_000}))
    table = pa.table({"value": [bytes(100)] * 100})
    sizes = [batch.size_bytes for _, batch in intake.batches(a_topic(1), table, None, NOON)]

    assert max(sizes) <= 3_000


def a_batch(count: int = 5) -> ColumnBatch:
    source = RowSource(count, None, None, None, None, NOON)
    return ColumnBatch(encode_rows(source, None, 0, count, 1_000, HEADER_BYTES), count)


def test_a_batch_is_sealed_in_place_once_and_copied_after_that() -> None:
    batch = a_batch()
    first = batch.seal(producer_id=7, producer_epoch=0, base_sequence=3)
    sent = bytes(first)
    second = batch.seal(producer_id=8, producer_epoch=1, base_sequence=0, transactional=True)

    assert first == sent, "bytes that may be on their way do not change"
    assert (batch_at(first).producer_id, batch_at(second).producer_id) == (7, 8)
    assert batch_at(second).is_transactional
    assert len(first) == batch.size_bytes
    for raw in (first, second):
        assert batch_at(raw).checksum_holds()
        assert len(read_records(batch_at(raw))) == 5


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_is_packed_ahead_is_sealed_with_those_bytes(codec: Codec) -> None:
    batch = a_batch(100)
    batch.pack(codec, None)
    sealed = batch_at(batch.seal(codec))

    assert (sealed.codec, sealed.checksum_holds()) == (codec, True)
    assert len(read_records(sealed)) == 100
    other = batch_at(batch.seal(Codec.SNAPPY if codec == Codec.GZIP else Codec.GZIP))
    assert len(read_records(other)) == 100, "another codec is not mixed up with it"


def test_a_batch_can_be_split() -> None:
    batch = a_batch(5)
    batch.seal()
    first, second = batch.split()

    assert (first.count, second.count) == (2, 3)
    assert len(read_records(batch_at(second.seal()))) == 3
