"""Records that go the short way are counted afterwards, and nothing else differs (P1, P2).

The same sends with and without a short way give the same records in the same partitions in the same order;
memory is never exceeded while they come, and none of it is lost.
"""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.client.core.errors import Closed
from everlog.client.core.producer.accumulator import RECORD_OVERHEAD, Accumulator
from everlog.client.core.producer.delivery import Delivery
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.record_intake import RecordIntake, short_way_of
from everlog.client.core.producer.settings import ProducerSettings
from everlog.records.batch import HEADER_BYTES, batch_at
from everlog.records.reader import read_records
from everlog.records.rows import BatchBuffer, rows_are_compiled

pytestmark = pytest.mark.skipif(
    not rows_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)
PARTITIONS = 3


class Bench:
    """What a producer has before its sender, for a topic of three partitions."""

    def __init__(self, *, short: bool = True, **settings: Any) -> None:
        self.settings = ProducerSettings(**settings)
        self.now = 100.0
        self.wakes = 0
        self.long = 0
        self.accumulator = Accumulator(self.settings, threading.Lock(), lambda: self.now, self._wake)
        self.send: Any = self.send_long
        if short:
            send_long: Any = self.send_long
            way = short_way_of(self.settings, send_long)
            assert way is not None
            self.accumulator.short_way = way
            self.send = way.send
        self.intake = RecordIntake(self.settings, self.accumulator)
        self.topic = self.accumulator.open_topic("orders", PARTITIONS, range(PARTITIONS))

    def _wake(self) -> None:
        self.wakes += 1

    def send_long(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Any = (),
        on_delivery: Any = None,
    ) -> Delivery | None:
        self.long += 1
        queue = self.intake.route(self.topic, key, value, partition)
        delivery = self.intake.add(self.topic, queue, key, value, headers, 1_000)
        if on_delivery is not None and delivery is not None:
            delivery.notify(on_delivery)
        return delivery

    def take(self, partition: int) -> PendingBatch:
        return self.accumulator.take(self.topic.queues[partition])

    def sizes(self) -> list[int]:
        """Bytes of all batches that wait."""
        return [batch.size_bytes for queue in self.topic.queues for batch in queue.waiting]


def values_of(batch: PendingBatch) -> list[bytes | None]:
    assert batch.buffer is not None
    assert batch.buffer.count == batch.count
    return [record.value for record in read_records(batch_at(batch.buffer.seal()))]


def test_p2_most_records_go_the_short_way_and_the_one_that_fills_a_batch_wakes_the_sender() -> None:
    bench = Bench(batch_size=16384)
    bench.accumulator.wakes_on_first = False

    while not bench.wakes:
        bench.send("orders", bytes(100), partition=0)

    queue = bench.topic.queues[0]
    assert bench.long == 2
    assert 16384 <= queue.waiting[0].size_bytes < 16384 + 120
    assert bench.accumulator.is_ready(queue, bench.now)


def test_p2_a_batch_that_is_not_full_is_not_ready_for_what_is_set_aside_for_it() -> None:
    bench = Bench(batch_size=16384, linger_ms=10)
    for _ in range(5):
        bench.send("orders", bytes(100), partition=0)

    assert not bench.accumulator.is_ready(bench.topic.queues[0], bench.now)
    bench.now += 0.010
    assert bench.accumulator.is_ready(bench.topic.queues[0], bench.now)


def test_p1_memory_is_counted_in_full_when_a_batch_is_taken_and_given_back() -> None:
    bench = Bench(batch_size=1000)
    for number in range(50):
        bench.send("orders", bytes(100), partition=number % 2)
    assert bench.accumulator.used_bytes >= sum(bench.sizes())

    taken = [bench.take(0), bench.take(1)]
    assert [batch.count for batch in taken] == [25, 25]
    assert bench.accumulator.used_bytes == sum(batch.charged_bytes for batch in taken)
    assert all(batch.charged_bytes == batch.size_bytes for batch in taken)
    for batch in taken:
        bench.accumulator.finished(batch)

    assert bench.accumulator.used_bytes == 0
    assert [queue.waiting_bytes for queue in bench.topic.queues] == [0, 0, 0]


def test_p1_a_record_after_a_batch_was_taken_goes_into_another() -> None:
    bench = Bench()
    first = bench.send("orders", b"first", partition=0)
    again = bench.send("orders", b"again", partition=0)
    taken = bench.take(0)
    later = bench.send("orders", b"later", partition=0)

    assert values_of(taken) == [b"first", b"again"]
    assert values_of(bench.take(0)) == [b"later"]
    taken.deliver(70, -1)
    assert [first.result(0).offset, again.result(0).offset] == [70, 71]
    assert not later.done()


def test_p1_callbacks_of_both_ways_come_in_the_order_of_the_records() -> None:
    bench = Bench(batch_size=400)
    told: list[int] = []

    def hear(found: Any, _error: object) -> None:
        told.append(found.offset)

    for _ in range(20):
        bench.send("orders", bytes(100), partition=0, on_delivery=hear)
    batch = bench.take(0)
    assert batch.count == 20

    batch.deliver(500, -1)

    assert told == list(range(500, 520))
    assert bench.long < 20


def test_p1_records_go_behind_batches_that_were_made_elsewhere() -> None:
    bench = Bench()
    bench.send("orders", b"first", partition=0)
    made = BatchBuffer()
    made.append(None, b"in a batch", (), 1_000)
    bench.accumulator.add_batches(bench.topic, [(0, made)])
    bench.send("orders", b"behind it", partition=0)
    bench.send("orders", b"last", partition=0)

    batches = [values_of(bench.take(0)) for _ in range(3)]
    assert batches == [[b"first"], [b"in a batch"], [b"behind it", b"last"]]


def test_p1_nothing_is_taken_after_close() -> None:
    bench = Bench()
    bench.send("orders", b"before", partition=0)
    bench.accumulator.close(Closed("this producer is closed"))

    with pytest.raises(Closed):
        bench.send("orders", b"after", partition=0)
    assert values_of(bench.take(0)) == [b"before"]


def test_p1_where_memory_is_short_the_long_way_says_so() -> None:
    bench = Bench(buffer_memory=2000, batch_size=1000)
    sent = 0
    while bench.send("orders", bytes(100), partition=sent % PARTITIONS) is not None:
        sent += 1
        assert sum(bench.sizes()) <= 2000
        assert bench.accumulator.used_bytes <= 2000

    # What was set aside for one partition's batch is there for the others in the end.
    assert sent >= (2000 - PARTITIONS * HEADER_BYTES - 100 - RECORD_OVERHEAD) // 110


def test_p1_what_was_set_aside_for_others_makes_room_for_a_record() -> None:
    bench = Bench(buffer_memory=2000, batch_size=1900)
    bench.send("orders", bytes(100), partition=0)
    bench.send("orders", bytes(100), partition=1)
    assert bench.accumulator.used_bytes + 1200 > 2000

    assert bench.send("orders", bytes(1200), partition=2) is not None
    bench.send("orders", b"again", partition=0)

    assert [bench.take(number).count for number in range(PARTITIONS)] == [2, 1, 1]


def test_p2_a_batch_grows_to_what_a_request_may_have_and_not_beyond() -> None:
    bench = Bench(batch_size=1000, max_request_size=5000)
    for _ in range(100):
        bench.send("orders", bytes(100), partition=0)

    sizes = [batch.size_bytes for batch in bench.topic.queues[0].waiting]
    assert all(4800 < size <= 5000 for size in sizes[:-1])
    assert len(sizes) > 1


def test_p1_records_without_a_key_go_to_all_partitions_in_time() -> None:
    bench = Bench(batch_size=2000)
    for _ in range(3000):
        bench.send("orders", bytes(100))

    counts = [
        sum(bench.take(number).count for _ in queue.waiting.copy())
        for number, queue in enumerate(bench.topic.queues)
    ]
    assert sum(counts) == 3000
    # Each draw is for one batch at least, and for what is granted to a batch that is full already at most.
    assert min(counts) > 0
    assert bench.long < 3000 / 4


@pytest.mark.parametrize(
    "settings",
    [
        {"transactional_id": "shop"},
        {"key_serializer": str.encode},
        {"value_serializer": str.encode},
        {"partitioner_ignore_keys": True},
    ],
)
def test_p1_there_is_no_short_way_where_each_record_needs_a_look(settings: dict[str, Any]) -> None:
    long_way: Any = print
    assert short_way_of(ProducerSettings(**settings), long_way) is None


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            st.sampled_from([0, 1, 10, 100, 900, 3000]),
            st.none() | st.binary(max_size=3),
            st.none() | st.integers(0, PARTITIONS - 1),
        ),
        st.tuples(st.just("take"), st.integers(0, PARTITIONS - 1), st.none(), st.none()),
        st.tuples(st.just("finish"), st.integers(0, 5), st.none(), st.none()),
    ),
    max_size=120,
)


@given(STEPS, st.sampled_from([300, 2000]), st.sampled_from([3500, 6000]))
def test_p1_nothing_is_lost_or_moved_and_memory_adds_up(
    steps: list[tuple[str, int, Any, Any]], batch_size: int, largest: int
) -> None:
    bench = Bench(batch_size=batch_size, max_request_size=largest, buffer_memory=20_000)
    sent: dict[int, list[tuple[bytes, Any]]] = {number: [] for number in range(PARTITIONS)}
    out: list[PendingBatch] = []
    taken: list[PendingBatch] = []
    for number, (what, size, key, partition) in enumerate(steps):
        if what == "send":
            value = b"%d:" % number + bytes(size)
            delivery = bench.send("orders", value, key, partition=partition)
            if delivery is not None:
                place = delivery._batch.place.partition
                assert partition in (None, place)
                sent[place].append((value, delivery))
        elif what == "take" and bench.topic.queues[size].waiting:
            out.append(bench.take(size))
            taken.append(out[-1])
        elif what == "finish" and size < len(out):
            bench.accumulator.finished(out.pop(size))
        assert sum(bench.sizes()) + sum(batch.charged_bytes for batch in out) <= bench.accumulator.used_bytes
        assert bench.accumulator.used_bytes <= 20_000
        for queue in bench.topic.queues:
            assert all(batch.size_bytes <= largest for batch in queue.waiting)

    for number, queue in enumerate(bench.topic.queues):
        while queue.waiting:
            out.append(bench.take(number))
            taken.append(out[-1])
    for number in range(PARTITIONS):
        mine = [batch for batch in taken if batch.place.partition == number]
        assert [value for batch in mine for value in values_of(batch)] == [value for value, _ in sent[number]]
        held = {id(batch): values_of(batch) for batch in mine}
        for value, delivery in sent[number]:
            assert held[id(delivery._batch)][delivery._index] == value
    for batch in out:
        bench.accumulator.finished(batch)
    assert bench.accumulator.used_bytes == 0
    assert not bench.accumulator.active
