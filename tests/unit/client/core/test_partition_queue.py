"""The order of one partition's batches through refusals, losses and splits (P4)."""

import threading

from everlog.client.core.errors import Unreachable
from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.core.producer.partition_queue import FORGOTTEN_AFTER_S, MAX_EPOCH, PartitionQueue
from everlog.client.core.producer.pending_batch import NO_SEQUENCE, PendingBatch
from everlog.model.topics import TopicPartition
from everlog.records.rows import BatchBuffer

NODE, OTHER_NODE = 1, 2
LOST = Unreachable("the connection broke")
ME = ProducerIdentity(7, 0)


class Line:
    """A queue with batches of two records each, named by their order."""

    def __init__(self, *, batches: int, identity: ProducerIdentity = ME, is_known: bool = True) -> None:
        self.queue = PartitionQueue(TopicPartition("orders", 0))
        self.queue.adopt(identity)
        if is_known:
            self.queue.delivered(0.0)
        lock = threading.Lock()
        self.all: list[PendingBatch] = []
        for order in range(batches):
            buffer = BatchBuffer()
            buffer.append(None, b"a", (), 1)
            buffer.append(None, b"b", (), 1)
            batch = PendingBatch(self.queue.place, buffer, 0.0, (order,), lock)
            batch.count = 2
            self.queue.waiting.append(batch)
            self.all.append(batch)

    def send(self) -> PendingBatch:
        assert self.queue.may_send(NODE)
        batch = self.queue.waiting.popleft()
        self.queue.number(batch)
        self.queue.sent(batch, NODE, 0.0)
        return batch

    def lose(self, batch: PendingBatch) -> None:
        self.queue.answered(batch)
        self.queue.again(batch, LOST, 0.0)

    def refuse(self, batch: PendingBatch) -> bool:
        self.queue.answered(batch)
        return self.queue.out_of_order(batch, LOST)


def test_batches_are_numbered_in_a_row_when_they_are_sent() -> None:
    line = Line(batches=3)
    assert [line.send().base_sequence for _ in range(3)] == [0, 2, 4]
    assert [batch.identity for batch in line.all] == [ME] * 3


def test_numbers_begin_again_behind_the_largest() -> None:
    line = Line(batches=2)
    line.queue.next_sequence = 2**31 - 1
    assert [line.send().base_sequence for _ in range(2)] == [2**31 - 1, 1]


def test_the_first_batch_goes_alone_because_a_broker_takes_any_number_from_a_stranger() -> None:
    line = Line(batches=3, is_known=False)
    first = line.send()
    assert not line.queue.may_send(NODE)
    line.queue.answered(first)
    line.queue.delivered(1.0)
    line.send()
    assert line.queue.may_send(NODE)


def test_so_does_the_first_after_a_long_silence() -> None:
    line = Line(batches=2)
    batch = line.queue.waiting.popleft()
    line.queue.sent(batch, NODE, FORGOTTEN_AFTER_S + 1)
    assert not line.queue.may_send(NODE)


def test_without_numbers_nothing_is_held_up() -> None:
    line = Line(batches=2, identity=ProducerIdentity(), is_known=False)
    line.send()
    assert line.queue.may_send(NODE)


def test_batches_that_are_lost_come_back_in_order_and_nothing_younger_passes_them() -> None:
    line = Line(batches=4)
    first, second, third = (line.send() for _ in range(3))
    line.lose(second)
    assert not line.queue.may_send(NODE)
    line.lose(first)
    line.lose(third)
    assert list(line.queue.waiting) == line.all

    # One by one until none is left that was lost.
    again = line.send()
    assert again is first
    assert again.base_sequence == 0
    assert not line.queue.may_send(NODE)
    line.queue.answered(first)
    assert line.send() is second


def test_a_batch_that_is_sent_again_goes_alone() -> None:
    line = Line(batches=2)
    line.lose(line.send())
    line.send()
    assert not line.queue.may_send(NODE)


def test_a_partition_that_moved_waits_for_the_answers_of_the_old_leader() -> None:
    line = Line(batches=2)
    batch = line.send()
    assert line.queue.may_send(NODE)
    assert not line.queue.may_send(OTHER_NODE)
    line.queue.answered(batch)
    assert line.queue.may_send(OTHER_NODE)


def test_out_of_order_behind_a_lost_one_is_no_hole() -> None:
    line = Line(batches=2)
    first, second = line.send(), line.send()
    line.lose(first)
    assert not line.refuse(second)
    assert [line.send().base_sequence] == [0]
    line.queue.answered(first)
    assert [line.send().base_sequence] == [2]
    assert second.identity == ME


def test_out_of_order_with_nothing_before_it_is_a_hole_and_all_are_numbered_anew() -> None:
    line = Line(batches=4)
    first, second, third = (line.send() for _ in range(3))
    line.queue.answered(first)  # Given up, or refused for good.
    assert line.refuse(second)
    assert not line.queue.may_send(NODE), "the third is still under way under the old epoch"
    assert not line.refuse(third)

    sent: list[tuple[int, ProducerIdentity]] = []
    for _ in range(3):
        batch = line.send()
        sent.append((batch.base_sequence, batch.identity))
        line.queue.answered(batch)
    assert sent == [(0, (7, 1)), (2, (7, 1)), (4, (7, 1))]


def test_the_bytes_of_a_batch_with_a_new_number_are_made_anew() -> None:
    line = Line(batches=2)
    first, second = line.send(), line.send()
    second.encoded = bytearray(b"old")
    line.queue.answered(first)
    line.refuse(second)
    line.send()
    assert second.encoded is None


def test_epochs_that_are_used_up_need_another_producer_id() -> None:
    line = Line(batches=2, identity=ProducerIdentity(7, MAX_EPOCH))
    first, second = line.send(), line.send()
    line.queue.answered(first)
    assert line.refuse(second)
    assert line.queue.needs_identity
    line.queue.adopt(ProducerIdentity(8, 0))
    assert line.send().identity == (8, 0)
    assert second.base_sequence == 0


def test_a_batch_that_may_have_been_written_keeps_its_number_under_the_old_id() -> None:
    line = Line(batches=2)
    first = line.send()
    line.queue.adopt(ProducerIdentity(8, 0))
    assert line.queue.identity == ME, "the first is under way"
    line.lose(first)
    line.queue.adopt(ProducerIdentity(8, 0))
    again = line.send()
    assert (again.identity, again.base_sequence) == (ME, 0)
    line.queue.answered(first)
    line.queue.adopt(ProducerIdentity(8, 0))
    second = line.send()
    assert (second.identity, second.base_sequence) == ((8, 0), 0)


def test_a_split_batch_keeps_its_numbers_and_its_place() -> None:
    line = Line(batches=3)
    first, second = line.send(), line.send()
    line.queue.answered(first)
    line.queue.divided(first)
    line.lose(second)
    assert first.parts is not None
    assert list(line.queue.waiting) == [*first.parts, second, line.all[2]]
    assert [batch.base_sequence for batch in line.queue.waiting] == [0, 1, 2, NO_SEQUENCE]


def test_without_an_identity_nothing_is_numbered() -> None:
    line = Line(batches=1, identity=ProducerIdentity())
    assert line.send().base_sequence == NO_SEQUENCE


def test_a_retry_waits_until_its_time() -> None:
    line = Line(batches=1)
    batch = line.send()
    line.queue.answered(batch)
    line.queue.again(batch, LOST, 5.0)
    assert line.queue.retry_at == 5.0
    assert batch.last_error is LOST
