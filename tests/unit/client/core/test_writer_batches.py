"""When a batch is closed (P2)."""

from everlog.client.core.writer_batches import Accumulator, PendingBatch
from everlog.model.ids import Instant
from everlog.model.topics import TopicPartition
from everlog.records.builder import NewRecord, build_batch

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)
NOON = Instant(1_000)


def a_record(size: int = 100) -> NewRecord:
    return NewRecord(None, bytes(size))


def places(batches: list[PendingBatch]) -> list[tuple[int, int]]:
    return [(batch.place.partition, len(batch.records)) for batch in batches]


def test_a_batch_is_full_when_the_next_record_would_not_fit() -> None:
    accumulator = Accumulator(batch_bytes=400, linger_ms=10)
    for _ in range(3):
        accumulator.add(ONE, a_record(), NOON)

    assert accumulator.has_full
    assert places(accumulator.take_full()) == [(1, 2)]
    assert not accumulator.has_full
    assert places(accumulator.take_all()) == [(1, 1)]


def test_a_closed_batch_is_never_larger_than_asked_for() -> None:
    accumulator = Accumulator(batch_bytes=1000, linger_ms=0)
    for size in range(0, 300, 7):
        accumulator.add(ONE, a_record(size), NOON)

    for batch in accumulator.take_all():
        assert len(build_batch(batch.records)) <= batch.size_bytes <= 1000


def test_a_record_larger_than_a_batch_travels_alone_and_at_once() -> None:
    accumulator = Accumulator(batch_bytes=100, linger_ms=10)
    accumulator.add(ONE, a_record(5000), NOON)

    assert places(accumulator.take_full()) == [(1, 1)]


def test_other_partitions_go_on_growing_when_one_is_full() -> None:
    accumulator = Accumulator(batch_bytes=300, linger_ms=10)
    accumulator.add(TWO, a_record(), NOON)
    for _ in range(2):
        accumulator.add(ONE, a_record(), NOON)

    assert places(accumulator.take_full()) == [(1, 1)]


def test_a_batch_that_has_lingered_is_ready() -> None:
    accumulator = Accumulator(batch_bytes=1000, linger_ms=10)
    accumulator.add(ONE, a_record(), NOON)
    assert accumulator.deadline() == NOON + 10

    assert accumulator.take_ready(Instant(NOON + 9)) == []
    assert places(accumulator.take_ready(Instant(NOON + 10))) == [(1, 1)]
    assert accumulator.deadline() is None
