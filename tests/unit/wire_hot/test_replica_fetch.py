"""A follower's fetch and the leader's answer agree byte for byte with the schema table."""

import struct

import pytest

from everlog.model.errors import ProtocolError
from everlog.model.ids import Uuid
from everlog.ports.files import FileSlice
from everlog.sim.disk import SimFiles
from everlog.wire.codec import encode_request, encode_response
from everlog.wire.hot.fetch import FetchResult, read_fetch, write_fetch_answer
from everlog.wire.hot.replica_fetch import (
    VERSION,
    Limits,
    ReplicaAnswer,
    Wanted,
    by_topic,
    read_replica_answer,
    write_replica_fetch,
)
from everlog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

A, B = Uuid(bytes(range(16))), Uuid(bytes(range(16, 32)))
PLACES: dict[bytes, list[Wanted]] = {
    A: [(0, 6, 1000, 5, 10, 1 << 20), (300, 6, 0, -1, 0, 1 << 20)],
    B: [(7, 2, 1 << 40, 2, 3, 1)],
}


def test_a_request_is_what_the_schema_says() -> None:
    expected = encode_request(
        FetchRequest(
            replica_state=ReplicaState(replica_id=3, replica_epoch=77),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=10 << 20,
            session_id=12,
            session_epoch=4,
            topics=[
                FetchTopic(
                    topic_id=Uuid(topic),
                    partitions=[
                        FetchPartition(
                            partition=index,
                            current_leader_epoch=epoch,
                            fetch_offset=offset,
                            last_fetched_epoch=last,
                            log_start_offset=start,
                            partition_max_bytes=most,
                        )
                        for index, epoch, offset, last, start, most in places
                    ],
                )
                for topic, places in PLACES.items()
            ],
            forgotten_topics_data=[ForgottenTopic(topic_id=B, partitions=[8, 9])],
        ),
        VERSION,
        0,
        "replica-3",
    )

    frame = write_replica_fetch(
        b"replica-3",
        (3, 77),
        Limits(500, 1, 10 << 20),
        (12, 4),
        PLACES,
        by_topic([(B, 8), (B, 9)]),
    )

    assert frame == bytes(expected)


def test_the_leader_reads_what_a_follower_writes() -> None:
    frame = write_replica_fetch(b"r", (3, 77), Limits(500, 1, 99), (12, 4), PLACES, {})

    found = read_fetch(memoryview(frame), 4 + 8 + 2 + 1 + 1, VERSION)

    assert (found.replica_id, found.replica_epoch) == (3, 77)
    assert [(one.topic, *one[1:]) for one in found.partitions] == [
        (topic, *place) for topic, places in PLACES.items() for place in places
    ]


def test_an_answer_of_any_broker_is_read() -> None:
    answer = FetchResponse(
        throttle_time_ms=3,
        session_id=12,
        responses=[
            FetchableTopicResponse(
                topic_id=A,
                partitions=[
                    PartitionData(
                        partition_index=0, high_watermark=5, log_start_offset=1, records=b"x" * 300
                    ),
                    PartitionData(
                        partition_index=1,
                        high_watermark=9,
                        log_start_offset=2,
                        diverging_epoch=EpochEndOffset(epoch=4, end_offset=33),
                        aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)],
                    ),
                    PartitionData(partition_index=2, error_code=6, records=None),
                ],
            )
        ],
    )
    frame = memoryview(bytes(encode_response(answer, VERSION, 99)))[4:]

    code, session_id, found = read_replica_answer(frame)

    assert (code, session_id) == (0, 12)
    assert found[0] == ReplicaAnswer(A, 0, 0, 5, 1, None, memoryview(b"x" * 300))
    assert found[1][:6] == (A, 1, 0, 9, 2, (4, 33))
    assert found[2][:6] == (A, 2, 6, 0, -1, None)
    assert found[2].records is None


def test_a_follower_reads_what_the_leader_writes() -> None:
    files = SimFiles()
    file = files.open("/log", create=True)
    file.append((b"records",))
    results = [
        FetchResult(0, 0, 5, -1, 1, records=FileSlice(file, 0, 7)),
        FetchResult(1, 0, 5, -1, 1, diverging=(2, 8)),
        FetchResult(2, 74),
    ]
    parts = write_fetch_answer(VERSION, 1, 0, 12, [(A, results)])
    frame = b"".join(part if isinstance(part, bytes) else part.read() for part in parts)

    _, _, found = read_replica_answer(memoryview(frame)[4:])

    assert found == [
        ReplicaAnswer(A, 0, 0, 5, 1, None, memoryview(b"records")),
        ReplicaAnswer(A, 1, 0, 5, 1, (2, 8), None),
        ReplicaAnswer(A, 2, 74, -1, -1, None, None),
    ]


def test_an_answer_that_is_cut_off_anywhere_is_refused() -> None:
    results = [FetchResult(0, 0, 5, -1, 1, diverging=(2, 8)), FetchResult(2, 74)]
    [frame] = write_fetch_answer(VERSION, 1, 0, 12, [(A, results)])
    assert isinstance(frame, bytes)

    for end in range(4, len(frame)):
        with pytest.raises(ProtocolError):
            read_replica_answer(memoryview(frame)[4:end])


def test_an_epoch_that_is_none_does_not_part_the_logs() -> None:
    [frame] = write_fetch_answer(VERSION, 1, 0, 12, [(A, [FetchResult(0, 0, 5, -1, 1, diverging=(-1, -1))])])
    assert isinstance(frame, bytes)

    _, _, found = read_replica_answer(memoryview(frame)[4:])

    assert found == [ReplicaAnswer(A, 0, 0, 5, 1, None, None)]


def test_a_diverging_epoch_that_is_not_as_long_as_it_says_is_refused() -> None:
    [frame] = write_fetch_answer(VERSION, 1, 0, 12, [(A, [FetchResult(0, 0, 5, -1, 1, diverging=(2, 8))])])
    assert isinstance(frame, bytes)
    field = b"\x00\x0d" + struct.pack(">iq", 2, 8) + b"\x00"
    longer = frame.replace(field, b"\x00\x0e" + field[2:] + b"\x00")
    assert len(longer) == len(frame) + 1

    with pytest.raises(ProtocolError, match="a diverging epoch has 14 bytes, expected 13"):
        read_replica_answer(memoryview(longer)[4:])


def test_aborted_transactions_are_passed_over_however_long_their_count_is_written() -> None:
    """A varint may have bytes that add nothing; here they say that there is no list."""
    [frame] = write_fetch_answer(VERSION, 1, 0, 12, [(A, [FetchResult(0, 0, 5, -1, 1)])])
    assert isinstance(frame, bytes)
    end = 4 + 1 + 4 + 4 + 2 + 4 + 1 + 16 + 1 + 4 + 2 + 8 * 3
    assert frame[end] in (0, 1)

    for none in (b"\x80\x00", b"\x81\x00"):
        longer = frame[:end] + none + frame[end + 1 :]
        assert read_replica_answer(memoryview(longer)[4:]) == read_replica_answer(memoryview(frame)[4:])
