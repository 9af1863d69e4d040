"""Fetch, versions 4 to 18: the request read in place, the answer as buffers and file ranges."""

import struct
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from everlog.model.errors import ProtocolError
from everlog.model.ids import NO_EPOCH, LeaderEpoch, Offset
from everlog.ports.files import FileSlice
from everlog.wire.hot.reading import (
    INT32,
    MAX_ELEMENTS,
    classic_count,
    classic_text,
    compact_count,
    compact_text,
    find_tag,
    skip_tags,
    within_budget,
)
from everlog.wire.hot.writing import NodeEndpoint, compact_size, node_endpoints_tags, nullable_text

FIRST_VERSION, LAST_VERSION = 4, 18
FIRST_FLEXIBLE = 12
FIRST_WITH_TOPIC_ID = 13
NO_REPLICA = -1
NO_BROKER_EPOCH = -1
_FIRST_WITH_ENDPOINTS = 16

_LIMITS = Struct(">iiib")
_SESSION = Struct(">ii")
_REPLICA_STATE = Struct(">iq")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")

_RESULT_V4 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_NULL_ARRAY = b"\xff\xff\xff\xff"

Topic = str | bytes
"""A topic's name, or its id from version 13."""


class FetchPartition(NamedTuple):
    """One partition that a client wants."""

    topic: Topic
    partition: int
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    start_offset: int
    max_bytes: int


class FetchData(NamedTuple):
    """A fetch request."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[tuple[Topic, int]]
    rack_id: str
    replica_epoch: int = NO_BROKER_EPOCH
    """The broker epoch of the replica that asks, from version 15 (KIP-903)."""


class FetchResult(NamedTuple):
    """What one partition has for the client."""

    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    aborted: list[tuple[int, int]] | None = None
    """Producer id and first offset of each aborted transaction; None unless read_committed."""
    records: FileSlice | None = None
    diverging: tuple[int, int] | None = None
    """Epoch and end offset where the client's log leaves ours."""
    leader: tuple[int, int] | None = None
    """Id and epoch of the leader, for a client that asked the wrong broker (KIP-951)."""
    preferred: int = NO_REPLICA
    """The replica that the client had better read from (KIP-392)."""


def read_fetch(frame: memoryview, at: int, version: int) -> FetchData:
    """Read the body of a fetch request that begins at `at`; ProtocolError if it is not one."""
    try:
        return _read(frame, at, version)
    except (struct.error, IndexError):
        raise ProtocolError(f"the Fetch v{version} request ends before its last field") from None


def _read(frame: memoryview, at: int, version: int) -> FetchData:
    flexible = version >= FIRST_FLEXIBLE
    replica_id = NO_REPLICA
    if version < 15:
        replica_id = INT32.unpack_from(frame, at)[0]
        at += 4
    max_wait_ms, min_bytes, max_bytes, isolation = _LIMITS.unpack_from(frame, at)
    at += 13
    session_id, session_epoch = 0, -1
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(frame, at)
        at += 8
    partitions, at, tags = _read_topics(frame, at, version)
    forgotten: list[tuple[Topic, int]] = []
    if version >= 7:
        forgotten, at, tags = _read_forgotten(frame, at, version, tags)
    rack_id = ""
    if version >= 11:
        told, at = (compact_text if flexible else classic_text)(frame, at, "the rack id")
        if told is None:
            raise ProtocolError("the rack id is null")
        rack_id = told
    replica_epoch = NO_BROKER_EPOCH
    if flexible and frame[at]:
        state, _, _ = find_tag(frame, at, 1, tags)
        if version >= 15 and state is not None:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(state)
    return FetchData(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation == 1,
        session_id,
        session_epoch,
        partitions,
        forgotten,
        rack_id,
        replica_epoch,
    )


def _read_topic(frame: memoryview, at: int, version: int) -> tuple[Topic, int]:
    topic: Topic | None
    if version >= FIRST_WITH_TOPIC_ID:
        topic = bytes(frame[at : at + 16])
        return topic, at + 16
    topic, at = (compact_text if version >= FIRST_FLEXIBLE else classic_text)(frame, at, "a topic name")
    if topic is None:
        raise ProtocolError("a topic name is null")
    return topic, at


def _read_topics(frame: memoryview, at: int, version: int) -> tuple[list[FetchPartition], int, int]:
    """The partitions asked for, the position behind them, and how many tagged fields may still come."""
    tags = MAX_ELEMENTS
    flexible = version >= FIRST_FLEXIBLE
    read_count = compact_count if flexible else classic_count
    partitions: list[FetchPartition] = []
    topic_count, at = read_count(frame, at, 3, "topics")
    for _ in range(topic_count):
        topic, at = _read_topic(frame, at, version)
        partition_count, at = read_count(frame, at, 16, "partitions")
        within_budget(len(partitions) + partition_count, "partitions")
        for _ in range(partition_count):
            epoch, last_epoch, start = NO_EPOCH, NO_EPOCH, -1
            if flexible:
                index, epoch, offset, last_epoch, start, limit = _PARTITION_V12.unpack_from(frame, at)
                at += 33
                if frame[at - 1]:
                    at, tags = skip_tags(frame, at - 1, tags)
            elif version >= 9:
                index, epoch, offset, start, limit = _PARTITION_V9.unpack_from(frame, at)
                at += 28
            elif version >= 5:
                index, offset, start, limit = _PARTITION_V5.unpack_from(frame, at)
                at += 24
            else:
                index, offset, limit = _PARTITION_V4.unpack_from(frame, at)
                at += 16
            partitions.append(FetchPartition(topic, index, epoch, offset, last_epoch, start, limit))
        if flexible:
            at += 1
            if frame[at - 1]:
                at, tags = skip_tags(frame, at - 1, tags)
    return partitions, at, tags


def _read_forgotten(
    frame: memoryview, at: int, version: int, tags: int
) -> tuple[list[tuple[Topic, int]], int, int]:
    flexible = version >= FIRST_FLEXIBLE
    read_count = compact_count if flexible else classic_count
    forgotten: list[tuple[Topic, int]] = []
    topic_count, at = read_count(frame, at, 3, "forgotten topics")
    for _ in range(topic_count):
        topic, at = _read_topic(frame, at, version)
        partition_count, at = read_count(frame, at, 4, "forgotten partitions")
        within_budget(len(forgotten) + partition_count, "forgotten partitions")
        indexes = struct.unpack_from(f">{partition_count}i", frame, at)
        forgotten.extend((topic, index) for index in indexes)
        at += 4 * partition_count
        if flexible:
            at, tags = skip_tags(frame, at, tags)
    return forgotten, at, tags


def write_fetch_answer(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: list[tuple[Topic, list[FetchResult]]],
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | FileSlice]:
    """Return the whole answer frame as parts: bytes, and file ranges that go out as they are.

    From version 16 `endpoints` say where the leaders are that results name.
    """
    flexible = version >= FIRST_FLEXIBLE
    parts: list[bytes | FileSlice] = []
    sliced = 0
    out = bytearray(4)
    out += INT32.pack(correlation_id)
    if flexible:
        out.append(0)
    out += b"\x00\x00\x00\x00"  # Throttle time.
    if version >= 7:
        out += struct.pack(">hi", error_code, session_id)
    out += compact_size(len(topics) + 1) if flexible else INT32.pack(len(topics))
    for topic, results in topics:
        if not isinstance(topic, str):
            out += topic
        elif flexible:
            raw = topic.encode()
            out += compact_size(len(raw) + 1)
            out += raw
        else:
            out += nullable_text(topic)
        out += compact_size(len(results) + 1) if flexible else INT32.pack(len(results))
        for result in results:
            _write_result(out, version, result)
            if result.records is not None:
                parts.append(bytes(out))
                parts.append(result.records)
                sliced += result.records.length
                out = bytearray()
            if flexible:
                out += _result_tags(result)
        if flexible:
            out.append(0)
    if flexible:
        out += node_endpoints_tags(endpoints if version >= _FIRST_WITH_ENDPOINTS else ())
    parts.append(bytes(out))
    size = sliced + sum(len(part) for part in parts if isinstance(part, bytes)) - 4
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = INT32.pack(size) + first[4:]
    return parts


def _write_result(out: bytearray, version: int, result: FetchResult) -> None:
    length = 0 if result.records is None else result.records.length
    if version >= 5:
        out += _RESULT_V5.pack(*result[:5])
    else:
        out += _RESULT_V4.pack(*result[:4])
    flexible = version >= FIRST_FLEXIBLE
    if result.aborted is None:
        out += b"\x00" if flexible else _NULL_ARRAY
    else:
        out += compact_size(len(result.aborted) + 1) if flexible else INT32.pack(len(result.aborted))
        for entry in result.aborted:
            out += _ABORTED.pack(*entry)
            if flexible:
                out.append(0)
    if version >= 11:
        out += INT32.pack(result.preferred)
    out += compact_size(length + 1) if flexible else INT32.pack(length)


def _result_tags(result: FetchResult) -> bytes:
    if result.diverging is None and result.leader is None:
        return b"\x00"
    out = bytearray((int(result.diverging is not None) + int(result.leader is not None),))
    if result.diverging is not None:
        out += b"\x00\x0d" + struct.pack(">iq", *result.diverging) + b"\x00"
    if result.leader is not None:
        out += b"\x01\x09" + struct.pack(">ii", *result.leader) + b"\x00"
    return bytes(out)
