"""Batches to produce requests, and what the answers mean for them (P3, P4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from everlog.client.core.errors import error_code, refusal
from everlog.client.core.metadata import ClusterView
from everlog.client.core.retry import Verdict, verdict
from everlog.client.core.writer_batches import PendingBatch
from everlog.model.errors import ErrorCode, EverlogError
from everlog.model.ids import NO_UUID
from everlog.model.topics import TopicPartition
from everlog.records.batch import MAX_SEQUENCE
from everlog.records.builder import build_batch
from everlog.records.compression import Codec
from everlog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

FIRST_VERSION_BY_ID = 13
UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The id and epoch by which a broker tells a retry from a new batch."""

    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One produce request: at most one batch of each partition, all led by one broker."""

    node_id: int
    request: ProduceRequest
    batches: Sequence[PendingBatch]
    has_topic_ids: bool
    """Whether every topic's id is known, so that versions that name topics by id may be spoken."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A batch that the broker has; `base_offset` is -1 where it did not say (acks=0, a late duplicate)."""

    batch: PendingBatch
    base_offset: int
    log_append_time: int = -1


@dataclass(frozen=True, slots=True)
class Failed:
    """A batch that will not be delivered, and why."""

    batch: PendingBatch
    error: EverlogError


@dataclass(slots=True)
class Outcome:
    """What became of the batches of one request."""

    delivered: list[Delivered] = field(default_factory=list[Delivered])
    failed: list[Failed] = field(default_factory=list[Failed])
    again: list[PendingBatch] = field(default_factory=list[PendingBatch])
    """To be sent once more, in this order."""
    last_error: EverlogError | None = None
    """Why the last of `again` was not delivered."""


class SendPlan:
    """Gives batches their sequence numbers and bytes, groups them by leader, and reads the answers."""

    def __init__(self, *, acks: int, codec: Codec, level: int | None, timeout_ms: int) -> None:
        self._acks = acks
        self._codec = codec
        self._level = level
        self._timeout_ms = timeout_ms
        self.identity = ProducerIdentity()
        self._next_sequence: dict[TopicPartition, int] = {}

    def start_over(self, identity: ProducerIdentity, waiting: Iterable[PendingBatch]) -> None:
        """Go on as a new producer: sequences begin at 0 again, those of batches that wait included."""
        self.identity = identity
        self._next_sequence.clear()
        for batch in waiting:
            batch.encoded = None
            batch.base_sequence = -1

    def group(
        self, batches: Iterable[PendingBatch], view: ClusterView, max_request_bytes: int
    ) -> tuple[list[Outgoing], list[PendingBatch]]:
        """Make requests of the batches, in order; also return those whose leader is not known.

        A request has at most one batch of a partition, as brokers demand, and stays below
        `max_request_bytes` unless one batch alone is larger. Requests must be sent in the order given.
        """
        leaderless: list[PendingBatch] = []
        open_requests: dict[int, list[PendingBatch]] = {}
        closed: list[tuple[int, list[PendingBatch]]] = []
        for batch in batches:
            leader = view.leader_of(batch.place)
            if leader is None:
                leaderless.append(batch)
                continue
            self._encode(batch)
            group = open_requests.setdefault(leader.node_id, [])
            size = sum(len(other.encoded or b"") for other in group) + len(batch.encoded or b"")
            if group and (size > max_request_bytes or any(other.place == batch.place for other in group)):
                closed.append((leader.node_id, group))
                group = open_requests[leader.node_id] = []
            group.append(batch)
        closed.extend(open_requests.items())
        return [self._outgoing(node, group, view) for node, group in closed], leaderless

    def read_answer(self, outgoing: Outgoing, response: ProduceResponse | None, view: ClusterView) -> Outcome:
        """Sort the batches of a request by what the answer says; None is the silence after acks=0."""
        if response is None:
            return Outcome(delivered=[Delivered(batch, UNKNOWN_OFFSET) for batch in outgoing.batches])
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or view.name_of(topic.topic_id) or ""
            for partition in topic.partition_responses:
                answers[TopicPartition(name, partition.index)] = partition
        outcome = Outcome()
        for batch in outgoing.batches:
            self._sort(batch, answers.get(batch.place), outcome)
        return outcome

    def _sort(self, batch: PendingBatch, answer: PartitionProduceResponse | None, outcome: Outcome) -> None:
        if answer is None:
            error = refusal(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves the partition out", str(batch.place)
            )
            outcome.failed.append(Failed(batch, error))
            return
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            outcome.delivered.append(Delivered(batch, answer.base_offset, answer.log_append_time_ms))
            return
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # The broker has had it for so long that it forgot the offset.
            outcome.delivered.append(Delivered(batch, UNKNOWN_OFFSET))
            return
        refused = refusal(answer.error_code, _words(answer), f"produce to {batch.place}")
        if code is ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            outcome.again.extend(halves(batch))
            outcome.last_error = refused
        elif verdict(code) is Verdict.FAIL:
            outcome.failed.append(Failed(batch, refused))
        else:
            outcome.again.append(batch)
            outcome.last_error = refused

    def _encode(self, batch: PendingBatch) -> None:
        if batch.encoded is not None:
            return
        if self.identity.producer_id >= 0 and batch.base_sequence < 0:
            batch.base_sequence = self._next_sequence.get(batch.place, 0)
            following = batch.base_sequence + len(batch.records)
            self._next_sequence[batch.place] = following & MAX_SEQUENCE
        batch.encoded = build_batch(
            batch.records,
            codec=self._codec,
            level=self._level,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=batch.base_sequence,
        )

    def _outgoing(self, node_id: int, batches: Sequence[PendingBatch], view: ClusterView) -> Outgoing:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name = batch.place.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData(
                    name=name, topic_id=view.topic_id(name), partition_data=[]
                )
            assert batch.encoded is not None
            topic.partition_data.append(
                PartitionProduceData(index=batch.place.partition, records=memoryview(batch.encoded))
            )
        request = ProduceRequest(
            acks=self._acks, timeout_ms=self._timeout_ms, topic_data=list(topics.values())
        )
        has_ids = all(topic.topic_id != NO_UUID for topic in topics.values())
        return Outgoing(node_id, request, batches, has_ids)


def halves(batch: PendingBatch) -> list[PendingBatch]:
    """Split a batch that is too large for the broker; its sequence numbers are split with it."""
    middle = len(batch.records) // 2
    second = -1 if batch.base_sequence < 0 else (batch.base_sequence + middle) & MAX_SEQUENCE
    return [
        PendingBatch(batch.place, batch.opened_at, records, base_sequence=sequence)
        for records, sequence in (
            (batch.records[:middle], batch.base_sequence),
            (batch.records[middle:], second),
        )
    ]


def _words(answer: PartitionProduceResponse) -> str | None:
    first = next((entry.batch_index_error_message for entry in answer.record_errors or ()), None)
    return answer.error_message or first
