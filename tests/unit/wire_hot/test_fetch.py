"""The hand-written Fetch reader and writer agree byte for byte with the schema table, at every version."""

import pytest

from everlog.model.errors import ProtocolError
from everlog.model.ids import Uuid
from everlog.ports.files import File, FileSlice
from everlog.sim.disk import SimFiles
from everlog.wire.codec import encode_request, encode_response, read_request_header
from everlog.wire.hot.fetch import (
    FIRST_VERSION,
    FIRST_WITH_TOPIC_ID,
    LAST_VERSION,
    FetchResult,
    read_fetch,
    write_fetch_answer,
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
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)

VERSIONS = range(FIRST_VERSION, LAST_VERSION + 1)
ID = Uuid(bytes(range(16)))
NO_ID = Uuid(bytes(16))


def a_request(version: int) -> FetchRequest:
    by_id = version >= FIRST_WITH_TOPIC_ID
    name, topic_id = ("", ID) if by_id else ("orders", NO_ID)
    return FetchRequest(
        replica_id=3 if version < 15 else -1,
        replica_state=ReplicaState(replica_id=3, replica_epoch=12) if version >= 15 else ReplicaState(),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50_000_000,
        isolation_level=1,
        session_id=77 if version >= 7 else 0,
        session_epoch=4 if version >= 7 else -1,
        topics=[
            FetchTopic(
                topic=name,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=6 if version >= 9 else -1,
                        fetch_offset=1000 + index,
                        last_fetched_epoch=5 if version >= 12 else -1,
                        log_start_offset=10 if version >= 5 else -1,
                        partition_max_bytes=1 << 20,
                        replica_directory_id=ID if version >= 17 else NO_ID,
                    )
                    for index in range(3)
                ],
            )
        ],
        forgotten_topics_data=[ForgottenTopic(topic=name, topic_id=topic_id, partitions=[8, 9])]
        if version >= 7
        else [],
        rack_id="west" if version >= 11 else "",
    )


def frame_of(version: int) -> memoryview:
    return memoryview(encode_request(a_request(version), version, 9, None))[4:]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_the_schema_wrote_it(version: int) -> None:
    frame = frame_of(version)

    data = read_fetch(frame, read_request_header(frame).body_at, version)

    assert (data.replica_id, data.max_wait_ms, data.min_bytes, data.max_bytes) == (3, 500, 1, 50_000_000)
    assert data.read_committed
    assert (data.session_id, data.session_epoch) == ((77, 4) if version >= 7 else (0, -1))
    topic = ID if version >= FIRST_WITH_TOPIC_ID else "orders"
    assert data.forgotten == ([(topic, 8), (topic, 9)] if version >= 7 else [])
    assert data.rack_id == ("west" if version >= 11 else "")
    assert [tuple(wanted) for wanted in data.partitions] == [
        (
            topic,
            index,
            6 if version >= 9 else -1,
            1000 + index,
            5 if version >= 12 else -1,
            10 if version >= 5 else -1,
            1 << 20,
        )
        for index in range(3)
    ]


@pytest.mark.parametrize("version", [11, 12])
def test_a_rack_that_is_null_is_refused(version: int) -> None:
    name = b"\x05west" if version >= 12 else b"\x00\x04west"
    body = bytes(frame_of(version)[read_request_header(frame_of(version)).body_at :])
    null = body.replace(name, b"\x00" if version >= 12 else b"\xff\xff")

    with pytest.raises(ProtocolError, match="rack id is null"):
        read_fetch(memoryview(null), 0, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_a_protocol_error(version: int) -> None:
    frame = frame_of(version)
    body_at = read_request_header(frame).body_at

    for end in range(body_at, len(frame)):
        with pytest.raises(ProtocolError):
            read_fetch(frame[:end], body_at, version)


def a_file(content: bytes) -> File:
    files = SimFiles()
    files.make_dir("/d")
    file = files.open("/d/f", create=True)
    file.append((content,))
    return file


def results(version: int) -> list[FetchResult]:
    file = a_file(b"0123456789" * 50)
    flexible = version >= 12
    return [
        FetchResult(0, 0, 100, 90, 5, [(7, 11), (8, 12)], FileSlice(file, 10, 300)),
        FetchResult(1, 0, 100, 90, 5, [], None),
        FetchResult(2, 6, leader=(4, 9) if flexible else None),
        FetchResult(3, 0, 100, 90, 5, None, None, diverging=(3, 50) if flexible else None),
        FetchResult(4, 0, 8, 8, 0, None, FileSlice(file, 0, 8)),
    ]


def schema_answer(version: int) -> FetchResponse:
    by_id = version >= FIRST_WITH_TOPIC_ID
    partitions = [
        PartitionData(
            partition_index=result.partition,
            error_code=result.error_code,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.start_offset,
            aborted_transactions=None
            if result.aborted is None
            else [AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in result.aborted],
            records=b"" if result.records is None else result.records.read(),
            diverging_epoch=EpochEndOffset()
            if result.diverging is None
            else EpochEndOffset(epoch=result.diverging[0], end_offset=result.diverging[1]),
            current_leader=LeaderIdAndEpoch()
            if result.leader is None
            else LeaderIdAndEpoch(leader_id=result.leader[0], leader_epoch=result.leader[1]),
        )
        for result in results(version)
    ]
    return FetchResponse(
        error_code=0,
        session_id=77 if version >= 7 else 0,
        responses=[
            FetchableTopicResponse(
                topic="" if by_id else "orders", topic_id=ID if by_id else NO_ID, partitions=partitions
            )
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_the_bytes_that_the_schema_gives(version: int) -> None:
    topic = ID if version >= FIRST_WITH_TOPIC_ID else "orders"

    parts = write_fetch_answer(version, 9, 0, 77, [(topic, results(version))])

    whole = b"".join(part if isinstance(part, bytes) else part.read() for part in parts)
    assert whole == encode_response(schema_answer(version), version, 9)
    assert any(isinstance(part, FileSlice) for part in parts), "the records must not be read here"
