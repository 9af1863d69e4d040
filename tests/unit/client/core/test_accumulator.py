"""When a batch is ready, how it grows, and how memory is counted (P1, P2)."""

import threading
from typing import Any

import pytest

from everlog.client.core.errors import Closed
from everlog.client.core.producer.accumulator import Accumulator, TopicQueues
from everlog.client.core.producer.delivery import Delivery
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.settings import ProducerSettings
from everlog.model.errors import Refused
from everlog.records.batch import HEADER_BYTES
from everlog.records.rows import BatchBuffer


class Bench:
    """An accumulator with a clock that a test sets, for a topic of three partitions."""

    def __init__(self, **settings: Any) -> None:
        self.now = 100.0
        self.wakes = 0
        self.accumulator = Accumulator(
            ProducerSettings(**settings), threading.Lock(), lambda: self.now, self._wake
        )
        self.topic: TopicQueues = self.accumulator.open_topic("orders", 3, [0, 1, 2])

    def _wake(self) -> None:
        self.wakes += 1

    def add(self, size: int = 100, partition: int = 0) -> Delivery | None:
        return self.accumulator.append(self.topic, self.topic.queues[partition], None, bytes(size), (), 1_000)

    def line(self, partition: int = 0) -> PartitionQueue:
        return self.topic.queues[partition]

    def is_ready(self, partition: int = 0) -> bool:
        return self.accumulator.is_ready(self.line(partition), self.now)

    def counts(self, partition: int = 0) -> list[int]:
        return [batch.count for batch in self.line(partition).waiting]


def test_p2_a_batch_is_ready_at_batch_size_and_goes_on_growing_until_it_is_taken() -> None:
    bench = Bench(batch_size=300, linger_ms=10)
    bench.add()
    assert not bench.is_ready()
    bench.add()
    bench.add()
    assert bench.is_ready()
    for _ in range(50):
        bench.add()
    assert bench.counts() == [53]

    taken = bench.accumulator.take(bench.line())
    bench.add()
    assert taken.count == 53
    assert bench.counts() == [1]


def test_p2_a_batch_is_ready_when_it_has_lingered() -> None:
    bench = Bench(linger_ms=10)
    bench.add()
    assert bench.accumulator.ready_at(bench.line()) == pytest.approx(100.01)
    bench.now += 0.009
    assert not bench.is_ready()
    bench.now += 0.002
    assert bench.is_ready()


def test_p2_a_flush_makes_everything_ready_while_it_lasts() -> None:
    bench = Bench(linger_ms=10)
    bench.add()
    assert bench.accumulator.begin_flush() == bench.accumulator.unfinished()
    assert bench.is_ready()
    bench.accumulator.end_flush()
    assert not bench.is_ready()


def test_p2_who_waits_for_memory_makes_everything_ready_and_is_told_when_there_is_some() -> None:
    bench = Bench(linger_ms=1000, buffer_memory=HEADER_BYTES + 250)
    told: list[str] = []
    assert bench.add() is not None
    assert bench.add(200) is None
    bench.accumulator.when_room(200, lambda: told.append("first"))
    bench.accumulator.when_room(250, lambda: told.append("second"))
    assert bench.is_ready()
    assert told == []

    bench.accumulator.finished(bench.accumulator.take(bench.line()))
    assert bench.accumulator.used_bytes == 0
    assert told == ["first", "second"]
    assert bench.add(200) is not None


def test_who_waits_for_memory_is_served_in_order() -> None:
    bench = Bench(buffer_memory=10_000)
    told: list[int] = []
    taken: list[PendingBatch] = []
    for _ in range(9):
        bench.add(1000)
        taken.append(bench.accumulator.take(bench.line()))
    for number in range(3):
        bench.accumulator.when_room(1200, lambda number=number: told.append(number))  # type: ignore[misc]
    assert told == []
    bench.accumulator.finished(taken[0])
    assert told == [0]


def test_memory_is_counted_by_the_byte_and_given_back() -> None:
    bench = Bench()
    for partition in (0, 1, 2, 0):
        bench.add(partition=partition)
    batches = bench.accumulator.unfinished()
    sizes = [batch.buffer.size_bytes for batch in batches if batch.buffer is not None]
    assert bench.accumulator.used_bytes == sum(sizes)
    for queue in bench.accumulator.lines():
        bench.accumulator.finished(bench.accumulator.take(queue))
    assert bench.accumulator.used_bytes == 0
    assert bench.accumulator.unfinished() == []
    assert bench.accumulator.lines() == []


def test_a_batch_grows_to_max_request_size_and_no_further() -> None:
    bench = Bench(max_request_size=2000, batch_size=100)
    for _ in range(40):
        bench.add(100)
    assert len(bench.counts()) > 1
    assert sum(bench.counts()) == 40
    assert all(batch.charged_bytes <= 2000 for batch in bench.line().waiting)
    assert bench.is_ready()


def test_a_record_that_fits_no_request_or_no_buffer_is_refused_and_leaves_no_trace() -> None:
    bench = Bench(max_request_size=2000)
    with pytest.raises(Refused, match="max_request_size, 2000"):
        bench.add(2000)
    small = Bench(buffer_memory=500)
    with pytest.raises(Refused, match="buffer_memory, 500"):
        small.add(500)
    for each in (bench, small):
        assert each.accumulator.used_bytes == 0
        assert each.accumulator.lines() == []


def test_a_record_that_is_none_leaves_no_empty_batch() -> None:
    bench = Bench()
    with pytest.raises(TypeError, match="value should be bytes"):
        bench.accumulator.append(bench.topic, bench.line(), None, "text", (), 1)  # type: ignore[arg-type]
    assert bench.accumulator.unfinished() == []
    assert bench.accumulator.used_bytes == 0
    bench.add()
    with pytest.raises(TypeError):
        bench.accumulator.append(bench.topic, bench.line(), None, 5, (), 1)  # type: ignore[arg-type]
    assert bench.counts() == [1]


def test_a_batch_that_comes_back_does_not_grow() -> None:
    bench = Bench()
    bench.add()
    line = bench.line()
    batch = bench.accumulator.take(line)
    line.sent(batch, 1, 0.0)
    line.answered(batch)
    bench.accumulator.put_back(line, lambda: line.again(batch, Closed("no"), 0.0))
    bench.add()
    assert bench.counts() == [1, 1]
    assert line.waiting[0] is batch


def test_the_sender_is_woken_by_a_first_record_and_by_a_ready_batch_and_not_by_each() -> None:
    bench = Bench(batch_size=1000)
    for _ in range(5):
        bench.add()
    assert bench.wakes == 1

    # It sleeps until the linger is over, so only a full batch is news.
    bench.accumulator.wakes_on_ready = True
    bench.add(partition=1)
    assert bench.wakes == 1
    for _ in range(20):
        bench.add()
    assert bench.wakes == 2


def test_prebuilt_batches_are_ready_at_once_and_stand_in_line() -> None:
    bench = Bench(linger_ms=1000)
    bench.add()
    built = BatchBuffer()
    built.append(None, b"x", (), 1)
    batches = bench.accumulator.add_batches(bench.topic, [(0, built), (1, built)])
    assert bench.is_ready(0)
    assert bench.is_ready(1)
    bench.add()
    assert bench.counts() == [1, 1, 1]
    assert list(bench.line().waiting)[1] is batches[0]


def a_built_batch(size: int = 50) -> BatchBuffer:
    built = BatchBuffer()
    built.append(None, bytes(size), (), 1_000)
    return built


def test_a_prebuilt_batch_behind_one_that_the_sender_knows_wakes_nobody() -> None:
    bench = Bench(linger_ms=1_000)
    wakes: list[int] = []
    bench.add(partition=2)
    for partition in (0, 0, 1, 0, 2, 2):
        # The sender has looked around, and what it found could not be sent yet.
        bench.accumulator.wakes_on_first = bench.accumulator.wakes_on_ready = True
        bench.accumulator.add_batches(bench.topic, [(partition, a_built_batch())])
        wakes.append(bench.wakes)
    # The first batch of partition 2 is open, and ready only because something stands behind it.
    assert wakes == [2, 2, 3, 3, 4, 5]


def test_who_has_more_to_come_waits_for_a_quarter_of_the_memory() -> None:
    bench = Bench(buffer_memory=4_000)
    told: list[str] = []
    batches = bench.accumulator.add_batches(bench.topic, [(0, a_built_batch(300)) for _ in range(10)])
    size = batches[0].charged_bytes
    bench.accumulator.when_room(4_000 - 10 * size, lambda: told.append("fits"), ahead=4_000)
    assert told == ["fits"]

    bench.accumulator.when_room(size, lambda: told.append("more"), ahead=9_999)
    for batch in batches:
        free = 4_000 - bench.accumulator.used_bytes
        assert told == (["fits"] if free < 1_000 else ["fits", "more"])
        bench.accumulator.finished(batch)


def test_who_has_more_to_come_may_be_ahead_by_less_than_the_memory() -> None:
    bench = Bench(buffer_memory=4_000)
    batches = bench.accumulator.add_batches(bench.topic, [(0, a_built_batch(300))])
    told: list[str] = []
    bench.accumulator.when_room(100, lambda: told.append("one record"))
    bench.accumulator.when_room(100, lambda: told.append("far ahead"), ahead=1_000)
    assert told == ["one record", "far ahead"]

    bench.accumulator.when_room(100, lambda: told.append("ahead"), ahead=200)
    assert told == ["one record", "far ahead"]
    for batch in batches:
        bench.accumulator.finished(batch)
    assert told == ["one record", "far ahead", "ahead"]


def test_a_closed_accumulator_refuses_and_tells_those_who_wait() -> None:
    bench = Bench(buffer_memory=400)
    bench.add(200)
    told: list[bool] = []
    bench.accumulator.when_room(250, lambda: told.append(True))
    bench.accumulator.close(Closed("over"))
    assert told == [True]
    with pytest.raises(Closed, match="over"):
        bench.add()


def test_a_topic_gets_more_partitions_and_keeps_those_it_has() -> None:
    bench = Bench()
    bench.add()
    before = bench.line()
    topic = bench.accumulator.open_topic("orders", 5, [0, 4])
    assert topic is bench.topic
    assert topic.queues[0] is before
    assert len(topic.queues) == 5
    assert topic.led == [0, 4]


def test_the_oldest_batch_is_found_whether_it_waits_or_is_under_way() -> None:
    bench = Bench()
    bench.add()
    batch = bench.accumulator.take(bench.line())
    bench.now += 1
    bench.add(partition=1)
    assert bench.accumulator.oldest() is batch
    bench.accumulator.finished(batch)
    oldest = bench.accumulator.oldest()
    assert oldest is not None
    assert oldest.place.partition == 1
    bench.accumulator.withdraw(oldest)
    assert bench.accumulator.lines() == []
