"""Headers, frames and refusals of the codec, on bytes written out by hand (mission O5)."""

import struct

import pytest

from everlog.model.errors import EverlogError, ProtocolError
from everlog.model.ids import Uuid
from everlog.wire.apis import ApiKey
from everlog.wire.codec import (
    RequestHeader,
    UnencodableError,
    UnsupportedVersionError,
    decode_request,
    decode_response,
    decode_value,
    encode_request,
    encode_response,
    encode_value,
    is_too_new_api_versions,
    read_request_header,
    too_new_api_versions,
)
from everlog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from everlog.wire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from everlog.wire.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from everlog.wire.messages.fetch import FetchResponse
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from everlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def test_a_classic_request_is_laid_out_as_kafka_does() -> None:
    request = HeartbeatRequest(group_id="kitchen", generation_id=7, member_id="m")

    frame = encode_request(request, 0, 258, "me")

    assert frame == (
        b"\0\0\0\x1c" + b"\0\x0c\0\0\0\0\x01\x02\0\x02me" + b"\0\x07kitchen" + b"\0\0\0\x07" + b"\0\x01m"
    )
    header = read_request_header(frame[4:])
    assert header == RequestHeader(ApiKey.HEARTBEAT, 0, 258, "me", 12)
    assert decode_request(header, frame[4:]) == request


def test_a_flexible_request_has_compact_lengths_and_tagged_fields() -> None:
    request = HeartbeatRequest(group_id="kitchen", generation_id=7, member_id="m", group_instance_id=None)

    frame = encode_request(request, 4, 1, None)

    assert (
        frame[4:]
        == b"\0\x0c\0\x04\0\0\0\x01\xff\xff\0" + b"\x08kitchen" + b"\0\0\0\x07" + b"\x02m" + b"\0" + b"\0"
    )
    header = read_request_header(memoryview(frame)[4:])
    assert header.client_id is None
    assert decode_request(header, bytearray(frame[4:])) == request


def test_unknown_tags_in_a_request_header_are_skipped() -> None:
    frame = b"\0\x0c\0\x04\0\0\0\x01\0\x01c" + b"\x02\x00\x01a\x07\x02bc" + b"\x08kitchen\0\0\0\x07\x02m\0\0"

    header = read_request_header(frame)

    assert header.body_at == 19
    assert decode_request(header, frame) == HeartbeatRequest(
        group_id="kitchen", generation_id=7, member_id="m", group_instance_id=None
    )


def test_an_answer_has_a_header_with_tagged_fields_only_if_flexible() -> None:
    answer = HeartbeatResponse(error_code=27)

    assert encode_response(answer, 0, 5) == b"\0\0\0\x06\0\0\0\x05\0\x1b"
    assert encode_response(answer, 4, 5) == b"\0\0\0\x0c\0\0\0\x05\0\0\0\0\0\0\x1b\0"
    assert decode_response(12, 4, encode_response(answer, 4, 5)[4:]) == (5, answer)


@pytest.mark.parametrize("version", range(6))
def test_the_answer_to_api_versions_never_has_tagged_fields_in_its_header(version: int) -> None:
    answer = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=5)])

    frame = encode_response(answer, version, 9)

    assert frame[4:10] == b"\0\0\0\x09\0\0"
    assert decode_response(18, version, frame[4:]) == (9, answer)


def test_api_versions_in_a_version_to_come_is_answered_in_version_0() -> None:
    frame = b"\0\x12\0\x63\0\0\0\x08\xff\xff" + b"whatever that version may hold"

    header = read_request_header(frame)

    assert is_too_new_api_versions(header)
    for asked in (0, 3, 5):
        assert decode_response(18, asked, too_new_api_versions(header.correlation_id)[4:]) == (
            8,
            ApiVersionsResponse(
                error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=5)]
            ),
        )
    known = read_request_header(encode_request(ApiVersionsRequest(), 5, 1, None)[4:])
    assert not is_too_new_api_versions(known)


@pytest.mark.parametrize(("key", "version"), [(4, 0), (93, 0), (-1, 0), (3, 14), (3, -1), (0, 2), (18, -1)])
def test_an_api_or_version_that_is_not_there_is_refused_by_name(key: int, version: int) -> None:
    opening = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)

    with pytest.raises(UnsupportedVersionError) as refusal:
        read_request_header(opening + b"\0\0\0\x2a\xff\xff")

    assert (refusal.value.api_key, refusal.value.api_version, refusal.value.correlation_id) == (
        key,
        version,
        42,
    )
    assert f"API {key} in version {version}" in str(refusal.value)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x03\0\x0c\0\0\0",
        b"\0\x03\0\x0c\0\0\0\0\0\x05ab",
        b"\0\x03\0\x0c\0\0\0\0\xff\xfe",
        b"\0\x03\0\x0c\0\0\0\0\0\x01\xff",
        b"\0\x03\0\x0c\0\0\0\0\0\x01a",
        b"\0\x03\0\x0c\0\0\0\0\0\x01a\x01",
        b"\0\x03\0\x0c\0\0\0\0\0\x01a\xe9\x07" + b"\0\0" * 1001,
    ],
)
def test_a_header_that_cannot_be_read_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="request header"):
        read_request_header(frame)


def test_records_stay_in_the_frame_they_came_in() -> None:
    request = ProduceRequest(
        acks=1,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"batch")])
        ],
    )
    frame = bytearray(encode_request(request, 9, 1, None)[4:])

    decoded = decode_request(read_request_header(frame), frame)

    assert isinstance(decoded, ProduceRequest)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"batch")] = ord("B")
    assert records.tobytes() == b"Batch"


def test_a_null_struct_is_told_from_one_that_is_there() -> None:
    absent = ConsumerGroupHeartbeatResponse(assignment=None)
    empty = ConsumerGroupHeartbeatResponse(assignment=Assignment())

    assert encode_value(absent, 0)[-2:] == b"\xff\0"
    assert encode_value(empty, 0)[-4:] == b"\x01\x01\0\0"
    for message in (absent, empty):
        assert decode_value(ConsumerGroupHeartbeatResponse, 0, encode_value(message, 0)) == message


def test_a_value_without_a_field_in_the_version_is_not_dropped() -> None:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)

    assert decode_value(MetadataRequest, 4, encode_value(request, 4)) == request
    with pytest.raises(UnencodableError, match="MetadataRequest v3: allow_auto_topic_creation: is False"):
        encode_value(request, 3)


def test_a_value_that_may_be_ignored_is_dropped() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=Uuid(b"1" * 16), name="t")])

    assert encode_value(request, 9) == encode_value(
        MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9
    )


@pytest.mark.parametrize(
    ("message", "version", "what"),
    [
        (
            HeartbeatRequest(generation_id=2**31),
            0,
            "HeartbeatRequest v0: group_id to generation_id|generation_id",
        ),
        (HeartbeatRequest(group_id="x" * 32768), 0, "group_id"),
        (HeartbeatRequest(group_id="x" * 32768), 4, "32768 bytes, at most 32767"),
        (MetadataRequest(topics=None), 0, "topics"),
        (
            MetadataRequest(topics=[MetadataRequestTopic(topic_id=Uuid(b"short"))]),
            12,
            "topics.topic_id: .* 16 bytes",
        ),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9, "topics.name"),
        (MetadataRequest(), 14, "no version 14"),
    ],
)
def test_what_cannot_be_written_is_named(message: HeartbeatRequest, version: int, what: str) -> None:
    with pytest.raises(UnencodableError, match=what):
        encode_value(message, version)


def test_one_exception_tree_holds_both_refusals() -> None:
    assert issubclass(UnencodableError, EverlogError)
    assert issubclass(UnsupportedVersionError, ProtocolError)


def test_messages_are_equal_by_value_and_show_their_fields() -> None:
    assert MetadataRequest(topics=[]) == MetadataRequest(topics=[])
    assert MetadataRequest(topics=[]) != MetadataRequest(topics=None)
    assert MetadataRequest() != HeartbeatRequest()
    assert repr(HeartbeatResponse(error_code=3)) == "HeartbeatResponse(throttle_time_ms=0, error_code=3)"
    first, second = FetchResponse(), FetchResponse()
    first.responses.append(object())  # type: ignore[arg-type]  # Only that the list is not shared matters here.
    assert second.responses == []
    with pytest.raises(TypeError, match="unhashable"):
        hash(first)


def test_what_comes_after_the_body_of_a_request_is_ignored() -> None:
    """librdkafka 2.16 asks for all topics with a count of four zero bytes, where one is due."""
    head = struct.pack(">hhih", ApiKey.METADATA, 13, 7, -1) + b"\0"
    frame = head + struct.pack(">i", 0) + b"\0\0\0"

    request = decode_request(read_request_header(frame), frame)

    assert isinstance(request, MetadataRequest)
    assert request.topics is None


@pytest.mark.parametrize("version", [1, 2])
def test_an_explanation_that_is_too_long_is_cut_between_letters(version: int) -> None:
    """It may quote what a client has sent, which can be longer than any string of an answer."""
    told = DescribeConfigsResponse(results=[DescribeConfigsResult(error_message="ü" * 20_000)])

    _, read = decode_response(ApiKey.DESCRIBE_CONFIGS, version, encode_response(told, version, 1)[4:])

    assert isinstance(read, DescribeConfigsResponse)
    assert read.results[0].error_message == "ü" * 16_383


def test_a_name_that_is_too_long_is_not_cut() -> None:
    told = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_name="n" * 40_000)])

    with pytest.raises(UnencodableError, match="resource_name"):
        encode_response(told, 1, 1)
