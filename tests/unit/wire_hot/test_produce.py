"""The hand-written Produce reader and writer agree byte for byte with the schema table, at every version."""

import pytest

from everlog.model.errors import ProtocolError
from everlog.model.ids import Uuid
from everlog.wire.codec import encode_request, encode_response, read_request_header
from everlog.wire.hot.produce import (
    FIRST_VERSION,
    FIRST_WITH_TOPIC_ID,
    LAST_VERSION,
    LeaderHint,
    ProduceResult,
    read_produce,
    write_produce_answer,
)
from everlog.wire.hot.writing import compact_size
from everlog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

VERSIONS = range(FIRST_VERSION, LAST_VERSION + 1)
ID = Uuid(bytes(range(16)))
LONG_NAME = "o" * 200


def a_request(version: int) -> ProduceRequest:
    topics = [
        TopicProduceData(
            name="" if version >= FIRST_WITH_TOPIC_ID else name,
            topic_id=ID if version >= FIRST_WITH_TOPIC_ID else Uuid(bytes(16)),
            partition_data=[
                PartitionProduceData(index=0, records=b"r" * 300),
                PartitionProduceData(index=7, records=None),
                PartitionProduceData(index=8, records=b""),
            ],
        )
        for name in ("orders", LONG_NAME)
    ]
    return ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=1500, topic_data=topics)


def frame_of(request: ProduceRequest, version: int) -> memoryview:
    return memoryview(encode_request(request, version, 9, "client"))[4:]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_the_schema_wrote_it(version: int) -> None:
    frame = frame_of(a_request(version), version)

    data = read_produce(frame, read_request_header(frame).body_at, version)

    assert (data.transactional_id, data.acks, data.timeout_ms) == ("tx", -1, 1500)
    names = [ID, ID] if version >= FIRST_WITH_TOPIC_ID else ["orders", LONG_NAME]
    assert [topic for topic, _ in data.topics] == names
    for _, partitions in data.topics:
        assert [(index, None if records is None else bytes(records)) for index, records in partitions] == [
            (0, b"r" * 300),
            (7, None),
            (8, b""),
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_a_protocol_error(version: int) -> None:
    frame = frame_of(a_request(version), version)
    body_at = read_request_header(frame).body_at

    for end in range(body_at, len(frame)):
        with pytest.raises(ProtocolError):
            read_produce(frame[:end], body_at, version)


def test_bytes_behind_the_request_are_passed_over() -> None:
    frame = memoryview(bytes(frame_of(a_request(9), 9)) + b"\0")

    assert read_produce(frame, read_request_header(frame).body_at, 9).timeout_ms == 1500


def test_a_count_that_the_frame_cannot_hold_is_refused_before_anything_is_made() -> None:
    frame = memoryview(b"\x00" + b"\x00\x01" + b"\x00\x00\x00\x00" + b"\xff\xff\xff\xff\x07")

    with pytest.raises(ProtocolError, match="count of topics"):
        read_produce(frame, 0, 9)


START = b"\x00" + b"\x00\x01" + b"\x00\x00\x00\x00"
"""No transactional id, acks and timeout, in a flexible version."""


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (START + b"\x00" + b"\x00", "count of topics is -1"),
        (START + b"\x02\x02t" + b"\x00" + b"\x00\x00", "count of partitions is -1"),
        (START + b"\x01" + b"\xe9\x07" + bytes(9_000), "1001 tagged fields, at most 1000"),
        (START + b"\x01" + b"\x02" + b"\x05\x00" + b"\x05\x00", "tags must rise"),
        (START + b"\x01" + b"\x02" + b"\x05\x00" + b"\x04\x00", "tags must rise"),
        (START + compact_size(50_002) + b"\x02t\x01\x00" * 50_001, "count of topics is 50001"),
        (
            START + b"\x03" + (b"\x02t" + compact_size(30_001) + bytes(6) * 30_000 + b"\x00") * 2 + b"\x00",
            "names 60000 partitions, at most 50000",
        ),
    ],
)
def test_what_is_beyond_the_budget_of_a_request_is_refused(body: bytes, match: str) -> None:
    with pytest.raises(ProtocolError, match=match):
        read_produce(memoryview(body), 0, 9)


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe"])
def test_an_array_that_is_null_is_refused_before_version_9_too(count: bytes) -> None:
    with pytest.raises(ProtocolError, match="count of topics is -"):
        read_produce(memoryview(b"\xff\xff" + b"\x00\x01" + b"\x00\x00\x00\x00" + count), 0, 8)


RESULTS = [
    ProduceResult(0, 0, 42, -1, 5),
    ProduceResult(1, 6, leader=LeaderHint(3, 8)),
    ProduceResult(
        2, 87, record_errors=((4, "no key"), (5, None)), error_message="bad", leader=LeaderHint(1, 2)
    ),
    ProduceResult(3, 0, 2**40, 1_700_000_000_000, 0),
]


def schema_answer(version: int) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="" if version >= FIRST_WITH_TOPIC_ID else "orders",
                topic_id=ID if version >= FIRST_WITH_TOPIC_ID else Uuid(bytes(16)),
                partition_responses=[
                    PartitionProduceResponse(
                        index=result.partition,
                        error_code=result.error_code,
                        base_offset=result.base_offset,
                        log_append_time_ms=result.append_time,
                        log_start_offset=result.start_offset,
                        record_errors=[
                            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                            for index, message in result.record_errors
                        ],
                        error_message=result.error_message,
                        current_leader=LeaderIdAndEpoch(
                            leader_id=result.leader.leader_id, leader_epoch=result.leader.leader_epoch
                        )
                        if result.leader is not None and version >= 10
                        else LeaderIdAndEpoch(),
                    )
                    for result in RESULTS
                ],
            )
        ]
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_the_bytes_that_the_schema_gives(version: int) -> None:
    topic = ID if version >= FIRST_WITH_TOPIC_ID else "orders"

    frame = write_produce_answer(version, 9, [(topic, RESULTS)])

    assert frame == encode_response(schema_answer(version), version, 9)
