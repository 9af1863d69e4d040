"""What the answers to produce requests mean (P4)."""

import threading

import pytest

from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.client.core.producer.send_plan import (
    Departure,
    Fate,
    answers_by_place,
    encode,
    learned,
    produce_request,
    rule,
)
from everlog.client.core.producer.settings import ProducerSettings
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID
from everlog.model.topics import TopicPartition
from everlog.records.batch import batch_at
from everlog.records.rows import BatchBuffer
from everlog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.builders import ORDERS_ID, a_view


def a_departure(partition: int = 0, records: int = 2) -> Departure:
    queue = PartitionQueue(TopicPartition("orders", partition))
    buffer = BatchBuffer()
    for _ in range(records):
        buffer.append(b"k", b"v", (), 1)
    batch = PendingBatch(queue.place, buffer, 0.0, (0,), threading.Lock())
    batch.count = records
    return Departure(queue, batch, 0)


@pytest.mark.parametrize(
    ("code", "fate"),
    [
        (ErrorCode.NONE, Fate.DELIVERED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Fate.DELIVERED),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Fate.MOVED),
        (ErrorCode.REQUEST_TIMED_OUT, Fate.MOVED),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Fate.MOVED),
        (ErrorCode.UNKNOWN_TOPIC_ID, Fate.MOVED),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Fate.OUT_OF_ORDER),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Fate.OUT_OF_ORDER),
        (ErrorCode.MESSAGE_TOO_LARGE, Fate.TOO_LARGE),
        (ErrorCode.INVALID_RECORD, Fate.FAILED),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Fate.FAILED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Fate.FAILED),
    ],
)
def test_each_code_means_one_thing(code: ErrorCode, fate: Fate) -> None:
    answer = PartitionProduceResponse(index=0, error_code=code, base_offset=5)
    assert rule(a_departure().batch, answer).fate is fate


def test_one_record_that_is_too_large_cannot_be_split() -> None:
    answer = PartitionProduceResponse(index=0, error_code=ErrorCode.MESSAGE_TOO_LARGE)
    ruling = rule(a_departure(records=1).batch, answer)
    assert ruling.fate is Fate.FAILED


def test_the_brokers_words_are_in_the_error() -> None:
    answer = PartitionProduceResponse(
        index=0,
        error_code=ErrorCode.INVALID_RECORD,
        record_errors=[BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no key")],
    )
    error = rule(a_departure().batch, answer).error
    assert isinstance(error, Refused)
    assert str(error) == "produce to orders-0: INVALID_RECORD: no key"


def test_a_partition_that_the_answer_leaves_out_has_failed() -> None:
    ruling = rule(a_departure().batch, None)
    assert ruling.fate is Fate.FAILED
    assert "leaves the partition out" in str(ruling.error)


def test_a_request_names_topics_by_name_and_id() -> None:
    settings = ProducerSettings()
    departures = [a_departure(0), a_departure(1)]
    for departure in departures:
        encode(departure.batch, settings, transactional=False)
    request, has_ids = produce_request(departures, a_view(1, 1), settings)
    assert has_ids
    assert (request.acks, request.timeout_ms) == (-1, 30_000)
    assert [(topic.name, topic.topic_id) for topic in request.topic_data] == [("orders", ORDERS_ID)]
    assert [part.index for part in request.topic_data[0].partition_data] == [0, 1]
    assert not produce_request(departures, a_view(1, 1, topic_id=NO_UUID), settings)[1]


def test_a_retry_sends_the_same_bytes() -> None:
    batch = a_departure().batch
    batch.base_sequence = 5
    settings = ProducerSettings()
    first = encode(batch, settings, transactional=False)
    assert encode(batch, settings, transactional=False) is first
    assert batch_at(bytes(first)).base_sequence == 5


def test_leaders_that_an_answer_names_are_learned() -> None:
    answer = PartitionProduceResponse(
        index=1,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=4),
    )
    response = ProduceResponse(
        responses=[TopicProduceResponse(topic_id=ORDERS_ID, partition_responses=[answer])],
        node_endpoints=[NodeEndpoint(node_id=3, host="new", port=9093)],
    )
    names = {bytes(ORDERS_ID): "orders"}
    view = a_view(1, 1)
    moved = learned(response, names, view).leader_of(TopicPartition("orders", 1))
    assert moved is not None
    assert (moved.node_id, moved.address) == (3, "new:9093")
    assert list(answers_by_place(response, names)) == [TopicPartition("orders", 1)]


def test_an_answer_without_leaders_changes_nothing() -> None:
    view = a_view(1)
    answer = PartitionProduceResponse(index=0)
    response = ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[answer])])
    assert learned(response, {}, view) is view
