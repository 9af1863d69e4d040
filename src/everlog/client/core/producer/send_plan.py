"""Batches to produce requests, and what the answers mean for them (P3, P4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from everlog.client.core.errors import error_code, refusal
from everlog.client.core.metadata import Broker, ClusterView
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.settings import ProducerSettings
from everlog.client.core.retry import Verdict, verdict
from everlog.model.errors import ErrorCode, EverlogError
from everlog.model.ids import NO_UUID
from everlog.model.topics import TopicPartition
from everlog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

FIRST_VERSION_BY_ID = 13


class Fate(Enum):
    """What an answer means for a batch."""

    DELIVERED = auto()
    FAILED = auto()
    AGAIN = auto()
    """The same batch may be taken later."""
    MOVED = auto()
    """The same batch may be taken by another broker, or once more is known of the cluster."""
    OUT_OF_ORDER = auto()
    TOO_LARGE = auto()
    """Its halves may be taken."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """An answer about one batch, and the error it carries unless it is DELIVERED."""

    fate: Fate
    base_offset: int = -1
    append_time: int = -1
    error: EverlogError | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """A batch that is under way, and the line it came from."""

    queue: PartitionQueue
    batch: PendingBatch
    attempt: int
    """The how-manieth it is of the batch: an answer to an earlier one is of no interest any more."""

    @property
    def is_awaited(self) -> bool:
        """Whether what becomes of this attempt still decides on the batch."""
        return self.attempt == self.batch.attempts and self.batch in self.queue.in_flight


def encode(batch: PendingBatch, settings: ProducerSettings, *, transactional: bool) -> bytearray:
    """The bytes of a batch that has its number: those of the last try, if it is not the first."""
    if batch.encoded is None:
        assert batch.buffer is not None
        batch.encoded = batch.buffer.seal(
            settings.codec,
            settings.compression_level,
            producer_id=batch.identity.producer_id,
            producer_epoch=batch.identity.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=transactional,
        )
    return batch.encoded


def produce_request(
    departures: Sequence[Departure], view: ClusterView, settings: ProducerSettings
) -> tuple[ProduceRequest, bool]:
    """A request of encoded batches, one at most of each partition; and whether all topics' ids are known."""
    topics: dict[str, TopicProduceData] = {}
    for departure in departures:
        name, partition = departure.queue.place
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(
                name=name, topic_id=view.topic_id(name), partition_data=[]
            )
        assert departure.batch.encoded is not None
        records = memoryview(departure.batch.encoded)
        topic.partition_data.append(PartitionProduceData(index=partition, records=records))
    request = ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.acks,
        timeout_ms=settings.request_timeout_ms,
        topic_data=list(topics.values()),
    )
    return request, all(topic.topic_id != NO_UUID for topic in topics.values())


def answers_by_place(
    response: ProduceResponse, names: dict[bytes, str]
) -> dict[TopicPartition, PartitionProduceResponse]:
    """The answers of a response by partition; `names` has the topics that were asked for by id."""
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }


def rule(batch: PendingBatch, answer: PartitionProduceResponse | None) -> Ruling:
    """Say what an answer means for a batch; None is one that leaves the partition out."""
    if answer is None:
        missing = refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves the partition out", f"produce to {batch.place}"
        )
        return Ruling(Fate.FAILED, error=missing)
    code = error_code(answer.error_code)
    if code is ErrorCode.NONE:
        return Ruling(Fate.DELIVERED, answer.base_offset, answer.log_append_time_ms)
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        # The broker has had it for so long that it forgot the offset.
        return Ruling(Fate.DELIVERED)
    error = refusal(answer.error_code, _words(answer), f"produce to {batch.place}")
    if code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
        return Ruling(Fate.OUT_OF_ORDER, error=error)
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE) and batch.count > 1:
        return Ruling(Fate.TOO_LARGE, error=error)
    match verdict(code):
        case Verdict.RETRY:
            return Ruling(Fate.AGAIN, error=error)
        case Verdict.REFRESH:
            return Ruling(Fate.MOVED, error=error)
        case _:
            return Ruling(Fate.FAILED, error=error)


def learned(response: ProduceResponse, names: dict[bytes, str], view: ClusterView) -> ClusterView:
    """The view with the leaders that a response names (KIP-951); the same view if it names none."""
    for endpoint in response.node_endpoints:
        view = view.with_broker(Broker(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack))
    for place, leader_id, leader_epoch in _leaders(response, names):
        view = view.with_new_leader(place, leader_id, leader_epoch)
    return view


def _leaders(response: ProduceResponse, names: dict[bytes, str]) -> Iterator[tuple[TopicPartition, int, int]]:
    for place, answer in answers_by_place(response, names).items():
        leader = answer.current_leader
        if leader.leader_id >= 0:
            yield place, leader.leader_id, leader.leader_epoch


def _words(answer: PartitionProduceResponse) -> str | None:
    first = next((entry.batch_index_error_message for entry in answer.record_errors or ()), None)
    return answer.error_message or first
