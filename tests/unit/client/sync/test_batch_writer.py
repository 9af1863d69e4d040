"""What a writer does when brokers refuse, forget and hang up (P4)."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from everlog.client.core.writer_plan import Delivered, Failed
from everlog.client.sync.batch_writer import BatchWriter, WriterSettings
from everlog.client.sync.cluster import Cluster
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.records.batch import batch_at
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from everlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.builders import ORDERS_ID
from tests.unit.client.sync.scripted import ScriptedBroker

HANG_UP = "hang up"
Step = ErrorCode | str


class Partition:
    """One partition of `orders` on one broker: keeps what it accepts, refuses as a list of steps says."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = deque(steps)
        self.port = 0
        self.kept: list[bytes] = []
        self.sequences: list[int] = []
        self.tried: list[int] = []
        self.next_producer = 7
        self.producers: list[int] = []

    def __call__(self, _header: RequestHeader, request: Message) -> Message | None:
        match request:
            case MetadataRequest():
                return self._metadata()
            case InitProducerIdRequest():
                self.next_producer += 1
                return InitProducerIdResponse(producer_id=self.next_producer - 1, producer_epoch=0)
            case ProduceRequest():
                return self._produce(request)
            case _:
                raise AssertionError(request)

    def _metadata(self) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)
        topic = MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=[partition])
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[broker], topics=[topic], controller_id=1, cluster_id="c")

    def _produce(self, request: ProduceRequest) -> ProduceResponse | None:
        step = self.steps.popleft() if self.steps else ErrorCode.NONE
        if step == HANG_UP:
            return None
        assert isinstance(step, ErrorCode)
        records = request.topic_data[0].partition_data[0].records
        batch = batch_at(bytes(records or b""))
        self.tried.append(batch.base_sequence)
        answer = PartitionProduceResponse(index=0, error_code=step, base_offset=-1)
        if step is ErrorCode.NONE:
            answer.base_offset = len(self.kept)
            self.kept.append(bytes(batch.records))
            self.sequences.append(batch.base_sequence)
            self.producers.append(batch.producer_id)
        topic = TopicProduceResponse(topic_id=ORDERS_ID, partition_responses=[answer])
        return ProduceResponse(responses=[topic])


@contextmanager
def writing(
    partition: Partition,
    *,
    idempotent: bool = True,
    delivery_timeout: float = 10.0,
    max_in_flight: int = 5,
    batch_bytes: int = 1,
) -> Generator[tuple[BatchWriter, list[Delivered | Failed]]]:
    """A writer to the partition, and what it reported."""
    outcomes: list[Delivered | Failed] = []
    settings = WriterSettings(
        idempotent=idempotent,
        delivery_timeout=delivery_timeout,
        batch_bytes=batch_bytes,
        max_in_flight=max_in_flight,
    )
    with ScriptedBroker(partition) as broker:
        partition.port = broker.port
        with Cluster(f"127.0.0.1:{broker.port}", timeout=5.0) as cluster:
            yield BatchWriter(cluster, outcomes.append, settings), outcomes


def write_three(writer: BatchWriter) -> None:
    for value in (b"a", b"b", b"c"):
        writer.send("orders", None, value)
    writer.flush()


def offsets(outcomes: list[Delivered | Failed]) -> list[int]:
    return [outcome.base_offset for outcome in outcomes if isinstance(outcome, Delivered)]


def test_a_batch_refused_for_now_is_sent_again_before_the_younger_ones() -> None:
    partition = Partition(
        [
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ]
    )
    with writing(partition) as (writer, outcomes):
        write_three(writer)

    assert partition.tried == [0, 1, 2, 0, 1, 2]
    assert partition.sequences == [0, 1, 2]
    assert offsets(outcomes) == [0, 1, 2]


def test_a_broker_that_hangs_up_gets_the_same_batches_with_the_same_sequences() -> None:
    partition = Partition([ErrorCode.NONE, HANG_UP])
    with writing(partition) as (writer, outcomes):
        write_three(writer)

    assert partition.sequences == [0, 1, 2]
    assert offsets(outcomes) == [0, 1, 2]


def test_a_batch_refused_for_good_fails_alone() -> None:
    partition = Partition([ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE])
    with writing(partition, idempotent=False, max_in_flight=1) as (writer, outcomes):
        write_three(writer)

    failed = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    assert [failure.batch.records[0].value for failure in failed] == [b"b"]
    assert "MESSAGE_TOO_LARGE" in str(failed[0].error)
    assert offsets(outcomes) == [0, 1]


def test_what_cannot_be_delivered_in_time_has_failed_with_the_last_reason() -> None:
    partition = Partition([ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
    with writing(partition, delivery_timeout=0.3) as (writer, outcomes):
        writer.send("orders", None, b"a")
        writer.flush()

    assert [type(outcome) for outcome in outcomes] == [Failed]
    assert isinstance(outcomes[0], Failed)
    assert "NOT_ENOUGH_REPLICAS" in str(outcomes[0].error)


def test_a_batch_too_large_for_the_broker_is_halved_until_it_fits() -> None:
    partition = Partition([ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE])
    with writing(partition, batch_bytes=10_000) as (writer, outcomes):
        for number in range(4):
            writer.send("orders", None, b"%d" % number)
        writer.flush()

    assert partition.tried == [0, 0, 0, 1, 2]
    delivered = [outcome.batch for outcome in outcomes if isinstance(outcome, Delivered)]
    assert [record.value for batch in delivered for record in batch.records] == [b"0", b"1", b"2", b"3"]
    assert not [outcome for outcome in outcomes if isinstance(outcome, Failed)]


def test_batches_behind_one_that_failed_for_good_are_delivered_under_a_new_producer_id() -> None:
    partition = Partition(
        [
            ErrorCode.INVALID_RECORD,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ]
    )
    with writing(partition) as (writer, outcomes):
        write_three(writer)
        writer.send("orders", None, b"d")
        writer.flush()

    assert [type(outcome) for outcome in outcomes] == [Failed, Delivered, Delivered, Delivered]
    assert partition.producers == [8, 8, 8]
    assert partition.sequences == [0, 1, 2]


def test_a_partition_that_does_not_exist_is_refused_at_once() -> None:
    with writing(Partition([])) as (writer, _), pytest.raises(Refused, match=r"orders-5.*from 0 to 0"):
        writer.send("orders", None, b"a", partition=5)


def test_idempotence_with_less_than_all_acks_contradicts_itself() -> None:
    with pytest.raises(ConfigError, match="expected acks=all"):
        WriterSettings(idempotent=True, acks=1)
