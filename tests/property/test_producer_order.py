"""Whatever a network and a broker do to a producer's batches: each record once, in order, none lost (P4).

The broker here is a model of one partition with Kafka's rules for sequence numbers. Requests get lost on the
way there or back, some arrive late, the broker refuses for a while or finds batches too large, records are
given up in the middle.
"""

import threading
from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.send_plan import Fate, rule
from everlog.model.errors import ErrorCode
from everlog.model.topics import TopicPartition
from everlog.records.rows import BatchBuffer
from everlog.wire.messages.produce import PartitionProduceResponse

NODE = 1
REMEMBERED = 5
LOST = Unreachable("the connection broke")


@dataclass
class ModelPartition:
    """A log of record numbers, and what a leader knows of one producer."""

    log: list[int] = field(default_factory=list[int])
    epoch: int = -1
    remembered: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """First and last sequence and offset of the last batches."""
    limit: int = 100

    def append(self, epoch: int, sequence: int, records: list[int]) -> PartitionProduceResponse:
        last = sequence + len(records) - 1
        if len(records) > self.limit:
            return PartitionProduceResponse(error_code=ErrorCode.MESSAGE_TOO_LARGE)
        if epoch < self.epoch:
            return PartitionProduceResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
        if epoch > self.epoch:
            if sequence != 0 and self.epoch >= 0:
                return PartitionProduceResponse(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            self.remembered.clear()
        for first, known_last, offset in self.remembered:
            if (first, known_last) == (sequence, last):
                return PartitionProduceResponse(base_offset=offset)
        if self.remembered and sequence != self.remembered[-1][1] + 1:
            return PartitionProduceResponse(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.epoch = epoch
        self.remembered.append((sequence, last, len(self.log)))
        self.log += records
        return PartitionProduceResponse(base_offset=len(self.log) - len(records))


@dataclass
class Request:
    """A copy of a batch on its way."""

    batch: PendingBatch
    epoch: int
    sequence: int
    records: list[int]


class World:
    """A producer's line, the broker, and one connection between them that keeps the order."""

    def __init__(self) -> None:
        self.queue = PartitionQueue(TopicPartition("orders", 0))
        self.queue.adopt(ProducerIdentity(7, 0))
        self.broker = ModelPartition()
        self.there: deque[Request] = deque()
        self.back: deque[tuple[PendingBatch, PartitionProduceResponse]] = deque()
        self.late: list[Request] = []
        """Requests of connections that the client has given up, which may still be in some socket."""
        self.records: dict[PendingBatch, list[int]] = {}
        self.next_record = 0
        self.delivered: dict[int, int] = {}
        self.given_up: set[int] = set()
        self._lock = threading.Lock()

    def collect(self, count: int) -> None:
        """The application sends some records, which become a batch."""
        buffer = BatchBuffer()
        numbers = list(range(self.next_record, self.next_record + count))
        self.next_record += count
        for number in numbers:
            buffer.append(None, b"%d" % number, (), 1)
        batch = PendingBatch(self.queue.place, buffer, 0.0, (self.queue.next_order,), self._lock)
        self.queue.next_order += 1
        batch.count = count
        batch.is_closed = True
        self.records[batch] = numbers
        self.queue.waiting.append(batch)

    def send(self) -> None:
        if not self.queue.waiting or not self.queue.may_send(NODE) or len(self.queue.in_flight) >= REMEMBERED:
            return
        batch = self.queue.waiting.popleft()
        self.queue.number(batch)
        self.queue.sent(batch, NODE, 0.0)
        epoch = batch.identity.producer_epoch
        self.there.append(Request(batch, epoch, batch.base_sequence, self.records[batch]))

    def arrive(self) -> None:
        """The oldest request reaches the broker."""
        if self.there:
            request = self.there.popleft()
            answer = self.broker.append(request.epoch, request.sequence, request.records)
            self.back.append((request.batch, answer))

    def refuse(self, code: ErrorCode) -> None:
        if self.there:
            self.back.append((self.there.popleft().batch, PartitionProduceResponse(error_code=code)))

    def answer(self) -> None:
        if self.back:
            batch, answer = self.back.popleft()
            self._take_in(batch, answer)

    def break_connection(self) -> None:
        """All that is under way is lost to the client; what was not read may be read by the broker later."""
        self.late += self.there
        self.there.clear()
        self.back.clear()
        for batch in list(self.queue.in_flight):
            self.queue.answered(batch)
            if not batch.is_done:
                self.queue.again(batch, LOST, 0.0)

    def arrive_late(self) -> None:
        if self.late:
            request = self.late.pop(0)
            self.broker.append(request.epoch, request.sequence, request.records)

    def give_up(self) -> None:
        """The time of the oldest batch is up, wherever it is."""
        for batch in [*self.queue.in_flight, *self.queue.waiting]:
            if not batch.is_done:
                if batch in self.queue.waiting:
                    self.queue.waiting.remove(batch)
                self._fail(batch)
                return

    def shrink(self, limit: int) -> None:
        self.broker.limit = limit

    def settle(self) -> None:
        """Let everything be delivered that can be."""
        for _ in range(10_000):
            if not self.queue.waiting and not self.queue.in_flight:
                return
            self.send()
            self.arrive()
            self.answer()
        raise AssertionError("it does not come to an end")

    def _take_in(self, batch: PendingBatch, answer: PartitionProduceResponse) -> None:
        self.queue.answered(batch)
        ruling = rule(batch, answer)
        if ruling.fate is Fate.DELIVERED:
            self.queue.delivered(0.0)
        if batch.is_done:
            return
        match ruling.fate:
            case Fate.DELIVERED:
                batch.deliver(ruling.base_offset, -1)
                for index, number in enumerate(self.records[batch]):
                    self.delivered[number] = ruling.base_offset + index
            case Fate.FAILED:
                self._fail(batch)
            case Fate.TOO_LARGE:
                numbers = self.records[batch]
                self.queue.divided(batch)
                assert batch.parts is not None
                first, second = batch.parts
                self.records[first], self.records[second] = numbers[: first.count], numbers[first.count :]
            case Fate.OUT_OF_ORDER:
                if batch.is_doubtful:
                    self._fail(batch)
                else:
                    self.queue.out_of_order(batch, LOST)
            case _:
                assert ruling.error is not None
                self.queue.again(batch, ruling.error, 0.0)

    def _fail(self, batch: PendingBatch) -> None:
        batch.fail(TimedOut("its time was up"))
        self.given_up.update(self.records[batch])


STEPS = st.one_of(
    st.tuples(st.just("collect"), st.integers(1, 4)),
    *[st.tuples(st.just(name), st.just(0)) for name in ("send", "send", "arrive", "arrive", "answer")],
    st.tuples(st.just("break_connection"), st.just(0)),
    st.tuples(st.just("arrive_late"), st.just(0)),
    st.tuples(st.just("give_up"), st.just(0)),
    st.tuples(st.just("shrink"), st.integers(1, 3)),
    st.tuples(
        st.just("refuse"),
        st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]),
    ),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(STEPS, max_size=80))
def test_p4_each_record_is_written_once_and_in_order_or_was_given_up(steps: list[tuple[str, int]]) -> None:
    world = World()
    for name, argument in steps:
        if name in ("collect", "shrink"):
            getattr(world, name)(argument)
        elif name == "refuse":
            world.refuse(ErrorCode(argument))
        else:
            getattr(world, name)()
    world.settle()
    while world.late:
        world.arrive_late()

    log = world.broker.log
    assert log == sorted(set(log)), "each once and in order"
    missing = set(range(world.next_record)) - set(log)
    assert missing <= world.given_up, "only what was given up may be missing"
    assert all(log[offset] == number for number, offset in world.delivered.items())
    assert set(world.delivered) | world.given_up == set(range(world.next_record))
