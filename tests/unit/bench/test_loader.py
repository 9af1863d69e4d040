"""The loader speaks for itself, so what it says is held against the wire and record code it does not use."""

from array import array
from uuid import UUID

import pytest
from bench.loader import frames, jobs
from bench.loader.batches import batch_of, batch_of_size, check_batches
from bench.loader.latency import quantiles

from everlog.model.ids import Uuid
from everlog.records.batch import BatchView, batch_at
from everlog.records.reader import read_records
from everlog.wire.codec import decode_request, encode_response, read_request_header
from everlog.wire.message import Message
from everlog.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from everlog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from everlog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from everlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC_ID = UUID(int=7)
TOPIC_BYTES = Uuid(TOPIC_ID.bytes)


def decoded(frame: bytes | bytearray) -> Message:
    assert frames.frame_size(memoryview(frame)) == len(frame)
    body = memoryview(frame)[4:]
    return decode_request(read_request_header(body), body)


def test_a_batch_is_valid_and_holds_as_many_records_as_it_says() -> None:
    batch = batch_at(batch_of(300))

    assert batch.checksum_holds()
    assert batch.producer_id == -1
    records = read_records(batch)
    assert [record.offset for record in records] == list(range(300))
    assert {len(record.value or b"") for record in records} == {100}


@pytest.mark.parametrize("size", [16 << 10, 64 << 10, 1 << 20])
def test_a_batch_of_a_size_is_the_largest_that_fits(size: int) -> None:
    batch, count = batch_of_size(size)

    assert len(batch) <= size < len(batch_of(count + 1))


def test_fetched_batches_are_checked_for_their_checksum_and_offsets() -> None:
    data = bytearray(batch_of(3) * 2)
    view = BatchView(memoryview(data)[len(data) // 2 :])
    view.stamp(3, 0)
    whole = memoryview(bytes(data))

    assert check_batches(whole, 0) == 6
    assert check_batches(whole[:-1], 0) == 3
    view.stamp(4, 0)
    with pytest.raises(RuntimeError, match="expected 3"):
        check_batches(memoryview(data), 0)
    data[-1] ^= 1
    view.stamp(3, 0)
    with pytest.raises(RuntimeError, match="damaged"):
        check_batches(memoryview(data), 0)


def test_a_produce_frame_is_a_produce_request_of_one_batch() -> None:
    batch = batch_of(2)

    request = decoded(frames.produce_frame("orders", 5, batch))

    assert isinstance(request, ProduceRequest)
    assert request.acks == -1
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (topic.name, partition.index, bytes(partition.records or b"")) == ("orders", 5, batch)


def test_the_place_of_the_error_code_in_a_produce_answer_is_known() -> None:
    partition = PartitionProduceResponse(index=5, error_code=3, base_offset=77)
    response = ProduceResponse(
        responses=[TopicProduceResponse(name="orders", partition_responses=[partition])]
    )
    answer = memoryview(encode_response(response, 11, 1))
    layout = frames.ProduceAnswer.of("orders")

    assert frames.int16_at(answer, layout.error_at) == 3
    assert frames.int64_at(answer, layout.base_offset_at) == 77


def test_a_fetch_frame_asks_for_the_offset_it_was_last_set_to() -> None:
    frame = frames.FetchFrame(TOPIC_ID, 2)
    frame.at(5)

    request = decoded(frame.at(123_456_789_012))

    assert isinstance(request, FetchRequest)
    assert (request.min_bytes, request.session_epoch) == (1, -1)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (topic.topic_id, partition.partition) == (TOPIC_ID.bytes, 2)
    assert (partition.fetch_offset, partition.partition_max_bytes) == (123_456_789_012, 1 << 20)


@pytest.mark.parametrize("size", [0, 1, 200, 70_000])
def test_the_records_of_a_fetch_answer_are_found(size: int) -> None:
    answer = memoryview(a_fetch_answer(memoryview(bytes(size)), error_code=0))

    start, end = frames.fetched_range(answer)

    assert end - start == size


def test_a_fetch_that_was_refused_is_a_failure() -> None:
    with pytest.raises(RuntimeError, match="error 6"):
        frames.fetched_range(memoryview(a_fetch_answer(memoryview(b""), error_code=6)))


def a_fetch_answer(records: memoryview, error_code: int) -> bytes:
    partition = PartitionData(
        partition_index=2, error_code=error_code, records=records, aborted_transactions=None
    )
    topic = FetchableTopicResponse(topic_id=TOPIC_BYTES, partitions=[partition])
    return encode_response(FetchResponse(responses=[topic]), 13, 1)


def test_topics_are_created_and_deleted_by_frames_that_mean_it() -> None:
    created = decoded(frames.create_topic_frame("orders", 12))
    deleted = decoded(frames.delete_topic_frame("orders"))

    assert isinstance(created, CreateTopicsRequest)
    assert [(topic.name, topic.num_partitions) for topic in created.topics] == [("orders", 12)]
    assert created.topics[0].configs == []
    assert isinstance(deleted, DeleteTopicsRequest)
    assert deleted.topic_names == ["orders"]


def test_answers_about_topics_are_read() -> None:
    result = CreatableTopicResult(name="orders", topic_id=TOPIC_BYTES, error_code=36)
    created = memoryview(encode_response(CreateTopicsResponse(topics=[result]), 7, 1))
    gone = DeletableTopicResult(name="orders", error_code=3)
    deleted = memoryview(encode_response(DeleteTopicsResponse(responses=[gone]), 5, 1))

    assert frames.created_topic(created) == (TOPIC_ID, 36)
    assert frames.deleted_topic_error(deleted) == 3


def test_a_job_arrives_at_the_child_as_it_left() -> None:
    job = jobs.ConsumeJob(1, "orders", str(TOPIC_ID), 1, None, 4, 1 << 30, 5.0)

    assert jobs.from_line(jobs.to_line(job)) == job


def test_quantiles_are_those_of_the_sorted_times_in_microseconds() -> None:
    found = quantiles("ack", array("d", [index * 1e-6 for index in range(1000, 0, -1)]))

    assert {name: round(value) for name, value in found.items()} == {
        "ack_p50": 501,
        "ack_p99": 991,
        "ack_p999": 1000,
    }
