"""Appenders: idempotent ones that send again until they are told, and plain ones that send once."""

from dataclasses import dataclass, replace

from everlog.model.errors import ErrorCode
from everlog.records.compression import Codec
from everlog.sim.history import Kind, Outcome, Sent
from everlog.sim.outcomes import DEFINITE_PRODUCE_ERRORS, outcome
from everlog.sim.script import Lost, Script, ask, burst
from everlog.sim.workloads.actor import Actor, Topic, error_name
from everlog.sim.workloads.content import ProducerState, a_batch, with_digest
from everlog.wire.message import Message
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_ATTEMPTS = 8
_SEQUENCES = 1 << 31


def a_produce(
    topic: Topic, batches: dict[int, bytes], version: int, transactional_id: str | None = None, acks: int = -1
) -> ProduceRequest:
    """A produce request, by name or by id as its version has it."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=2_000,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.id,
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index, records in batches.items()
                ],
            )
        ],
    )


def placed(sends: tuple[Sent, ...], base_offset: int) -> tuple[Sent, ...]:
    """Records with the offsets that they got."""
    return tuple(replace(sent, offset=base_offset + at) for at, sent in enumerate(sends))


@dataclass(slots=True)
class _Waiting:
    """A batch that was not acknowledged yet."""

    batch: bytes
    sends: tuple[Sent, ...]
    start: int
    attempts: int = 0


class PlainAppender(Actor):
    """Sends each batch once, without a producer id: what was lost on the way stays unknown."""

    def script(self, topic: Topic) -> Script[None]:
        """Append until told to stop."""
        while not self.stopping:
            index = self.chance.below(topic.partitions)
            leader = yield from self.routing.leader(topic, index)
            if leader is None:
                yield from self.pause(100)
                continue
            sends = self._records(topic, index)
            codec = self.chance.pick((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD))
            batch = a_batch(sends, ProducerState(), codec=codec)
            version = self.chance.pick((7, 9, 12, 13))
            start = self.now()
            try:
                answer = yield from ask(
                    ProduceResponse, a_produce(topic, {index: batch}, version), version, node=leader.node
                )
            except Lost:
                self.routing.forget_leader(topic, index)
                self.note(Kind.SEND, Outcome.INFO, start, sends=sends)
            else:
                told = answer.responses[0].partition_responses[0]
                known = outcome(told.error_code, DEFINITE_PRODUCE_ERRORS)
                where = placed(sends, told.base_offset) if known is Outcome.OK else sends
                self.note(Kind.SEND, known, start, sends=where, note=error_name(told.error_code))
                if told.error_code != ErrorCode.NONE:
                    self.routing.forget_leader(topic, index)
            yield from self.pause()

    def _records(self, topic: Topic, index: int) -> tuple[Sent, ...]:
        partition = topic.names()[index]
        # Not in order of time: a lookup by time has to find the first of several.
        wall = self.setting.wall()
        return tuple(
            with_digest(partition, self.value(), wall - self.chance.below(200), f"k{self.chance.below(5)}")
            for _ in range(1 + self.chance.below(4))
        )


class IdempotentAppender(PlainAppender):
    """Keeps up to five batches on their way to a partition, and sends again what was not answered."""

    _begun: dict[str, bool]
    """The partitions that have taken a batch of the present producer id, and whether that was its first."""

    def script(self, topic: Topic) -> Script[None]:
        """Append until told to stop."""
        while not self.stopping:
            producer_id, epoch = yield from self._init()
            if producer_id >= 0:
                yield from self._append(topic, producer_id, epoch)

    def append_some(self, topic: Topic, rounds: int) -> Script[None]:
        """Append so many times, or until that is given up."""
        producer_id, epoch = yield from self._init()
        if producer_id >= 0:
            yield from self._append(topic, producer_id, epoch, rounds)

    def _init(self) -> Script[tuple[int, int]]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while not self.stopping:
            try:
                answer = yield from ask(InitProducerIdResponse, request, 4)
            except Lost:
                answer = InitProducerIdResponse(error_code=ErrorCode.NETWORK_EXCEPTION)
            if answer.error_code == ErrorCode.NONE:
                return answer.producer_id, answer.producer_epoch
            yield from self.pause(100)
        return -1, -1

    def _append(self, topic: Topic, producer_id: int, epoch: int, rounds: int | None = None) -> Script[None]:
        # Near the end of the numbers, so that they begin again at 0 within a run; any first one is taken.
        first = _SEQUENCES - 5 if self.chance.happens(30) else 0
        sequences = [first] * topic.partitions
        self._begun = {}
        done = 0
        while not self.stopping and done != rounds:
            done += 1
            index = self.chance.below(topic.partitions)
            waiting: list[_Waiting] = []
            for _ in range(1 + self.chance.below(5)):
                sends = self._records(topic, index)
                batch = a_batch(sends, ProducerState(producer_id, epoch, sequences[index]))
                sequences[index] = (sequences[index] + len(sends)) % _SEQUENCES
                # They leave together; the history knows them in their order.
                waiting.append(_Waiting(batch, sends, self.now() + len(waiting)))
            given_up = yield from self._deliver(topic, index, waiting)
            if given_up:
                # What became of them is unknown, and so is the next sequence number: begin as another.
                return
            yield from self.pause()

    def _deliver(self, topic: Topic, index: int, waiting: list[_Waiting]) -> Script[bool]:
        """Send until all are answered; True if that was given up."""
        version = self.chance.pick(topic.versions((9, 12, 13)))
        while waiting:
            if waiting[0].attempts >= _ATTEMPTS:
                break
            leader = yield from self.routing.leader(topic, index)
            if leader is None:
                # The topic may be gone for good, if it is one of those.
                waiting[0].attempts += bool(topic.label)
                yield from self.pause(100)
                continue
            for one in waiting:
                one.attempts += 1
            requests: list[Message] = [a_produce(topic, {index: one.batch}, version) for one in waiting]
            answers = yield from burst(ProduceResponse, requests, version, node=leader.node)
            again: list[_Waiting] = []
            for one, answer in zip(waiting, answers, strict=True):
                told = None if answer is None else answer.responses[0].partition_responses[0]
                if not self._settled(one, told, first=not again):
                    again.append(one)
            if again:
                self.routing.forget_leader(topic, index)
            if again and len(again) == len(waiting):
                yield from self.pause(100)
            waiting = again
        for one in waiting:
            self.note(Kind.SEND, Outcome.INFO, one.start, sends=one.sends, note="given up")
        return bool(waiting)

    def _begins(self, partition: str, *, first: bool) -> None:
        # A producer may begin with any number, as in Kafka. Where the first of a burst is refused, as too few
        # replicas are in sync, it may begin with one of those behind, and nothing comes before that any more.
        self._begun.setdefault(partition, first)

    def _has_begun(self, partition: str) -> bool:
        return self._begun.get(partition, not self.setting.clustered)

    def _settled(self, one: _Waiting, told: PartitionProduceResponse | None, *, first: bool) -> bool:
        """Take in the answer to a batch, if there is one; False if it is to be sent again."""
        if told is None:
            return False
        error = told.error_code
        if error == ErrorCode.NONE:
            self.note(Kind.SEND, Outcome.OK, one.start, sends=placed(one.sends, told.base_offset))
            self._begins(one.sends[0].partition, first=first)
            return True
        sound = self._has_begun(one.sends[0].partition) and not self.setting.forgetful
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and first and sound:
            # All before it are there, so it is the next one; whoever says otherwise has lost some.
            self.setting.complain(self.name, "out of order at the head of the line")
        return False
