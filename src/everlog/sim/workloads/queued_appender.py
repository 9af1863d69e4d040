"""An idempotent appender with the lines of the client: its core says what is sent when, and as what."""

from contextlib import nullcontext

from everlog.client.core.errors import Unreachable
from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.record_metadata import UNKNOWN_OFFSET
from everlog.client.core.producer.send_plan import Fate, encode, rule
from everlog.client.core.producer.settings import ProducerSettings
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.rows import BatchBuffer
from everlog.sim.history import Kind, Outcome, Sent
from everlog.sim.script import Script, burst
from everlog.sim.workloads.actor import Topic
from everlog.sim.workloads.appender import IdempotentAppender, a_produce, placed
from everlog.sim.workloads.content import a_record
from everlog.wire.message import Message
from everlog.wire.messages.produce import PartitionProduceResponse, ProduceResponse

_IN_FLIGHT = 5
_ROUNDS = 8
"""Rounds without a delivery after which the oldest batch is given up, as a delivery time-out does."""
_SETTINGS = ProducerSettings()
_LOST = Unreachable("no answer came")


class QueuedAppender(IdempotentAppender):
    """Keeps a line of batches for each partition; what is given up leaves a hole that its core closes."""

    def script(self, topic: Topic) -> Script[None]:
        """Append until told to stop."""
        self._sends: dict[PendingBatch, tuple[tuple[Sent, ...], int]] = {}
        """The records of each batch, and when they were sent."""
        self._begun = {}
        self._holes: set[TopicPartition] = set()
        """Where something was given up, so that a broker may find numbers missing."""
        producer_id, epoch = yield from self._init()
        if producer_id < 0:
            return
        queues = [PartitionQueue(TopicPartition(topic.name, index)) for index in range(topic.partitions)]
        for queue in queues:
            queue.adopt(ProducerIdentity(producer_id, epoch))
        while not self.stopping:
            queue = self.chance.pick(queues)
            for _ in range(1 + self.chance.below(_IN_FLIGHT)):
                self._collect(topic, queue)
            yield from self._drain(topic, queue)
            yield from self.pause()

    def _collect(self, topic: Topic, queue: PartitionQueue) -> None:
        sends = self._records(topic, queue.place.partition)
        buffer = BatchBuffer()
        for sent in sends:
            record = a_record(sent)
            buffer.append(record.key, record.value, record.headers, record.timestamp)
        batch = PendingBatch(queue.place, buffer, 0.0, (queue.next_order,), nullcontext())
        queue.next_order += 1
        batch.count = len(sends)
        batch.is_closed = True
        queue.waiting.append(batch)
        self._sends[batch] = sends, self.now() + len(queue.waiting)

    def _drain(self, topic: Topic, queue: PartitionQueue) -> Script[None]:
        """Send until the line is empty; the oldest is given up where nothing goes on."""
        version = self.chance.pick((9, 12, 13))
        index = queue.place.partition
        rounds = 0
        while queue.waiting:
            if rounds >= _ROUNDS:
                self._give_up(queue, queue.waiting.popleft())
                rounds = 0
                continue
            leader = yield from self.routing.leader(topic, index)
            if leader is None:
                yield from self.pause(100)
                continue
            going = self._depart(queue, leader.node)
            requests: list[Message] = []
            for batch in going:
                records = bytes(encode(batch, _SETTINGS, transactional=False))
                requests.append(a_produce(topic, {index: records}, version))
            answers = yield from burst(ProduceResponse, requests, version, node=leader.node)
            delivered = 0
            for number, (batch, answer) in enumerate(zip(going, answers, strict=True)):
                queue.answered(batch)
                told = None if answer is None else answer.responses[0].partition_responses[0]
                is_delivered = self._take_in(queue, batch, told)
                if is_delivered:
                    self._begins(topic.names()[index], first=delivered == number)
                delivered += is_delivered
            if delivered < len(going):
                self.routing.forget_leader(topic, index)
            if not delivered:
                rounds += 1
                yield from self.pause(100)

    def _depart(self, queue: PartitionQueue, node: int) -> list[PendingBatch]:
        going: list[PendingBatch] = []
        while queue.waiting and len(going) < _IN_FLIGHT and queue.may_send(node):
            batch = queue.waiting.popleft()
            queue.number(batch)
            queue.sent(batch, node, 0.0)
            going.append(batch)
        return going

    def _take_in(
        self, queue: PartitionQueue, batch: PendingBatch, told: PartitionProduceResponse | None
    ) -> bool:
        """Take in the answer to a batch, if there is one; True if it is delivered."""
        if told is None:
            queue.again(batch, _LOST, 0.0)
            return False
        ruling = rule(batch, told)
        error: EverlogError = ruling.error or _LOST
        match ruling.fate:
            case Fate.DELIVERED:
                queue.delivered(0.0)
                sends, start = self._sends.pop(batch)
                if ruling.base_offset == UNKNOWN_OFFSET:
                    self.note(Kind.SEND, Outcome.INFO, start, sends=sends, note="there, nobody knows where")
                else:
                    self.note(Kind.SEND, Outcome.OK, start, sends=placed(sends, ruling.base_offset))
                return True
            case Fate.OUT_OF_ORDER:
                sound = not self.setting.forgetful and queue.place not in self._holes
                sound = sound and self._has_begun(self._sends[batch][0][0].partition)
                if queue.out_of_order(batch, error) and sound:
                    # All before it are there, so it is the next one; whoever says otherwise has lost some.
                    self.setting.complain(self.name, "out of order at the head of the line")
            case Fate.FAILED | Fate.TOO_LARGE:
                self._give_up(queue, batch)
            case Fate.AGAIN | Fate.MOVED:
                queue.again(batch, error, 0.0)
        return False

    def _give_up(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        self._holes.add(queue.place)
        sends, start = self._sends.pop(batch)
        self.note(Kind.SEND, Outcome.INFO, start, sends=sends, note="given up")
