"""Produce, versions 3 to 13: the request read in place, the answer written in one go."""

import struct
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from everlog.model.errors import ProtocolError
from everlog.wire.hot.reading import (
    INT32,
    MAX_ELEMENTS,
    classic_count,
    classic_text,
    compact_count,
    compact_text,
    skip_tags,
    uvarint,
    within_budget,
)
from everlog.wire.hot.writing import (
    NodeEndpoint,
    compact_nullable_text,
    compact_size,
    node_endpoints_tags,
    nullable_text,
)

FIRST_VERSION, LAST_VERSION = 3, 13
FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_ID = 13

_FIRST_WITH_ENDPOINTS = 10
_FEW = 126
"""The largest array whose compact count is a single byte."""

_ACKS_TIMEOUT = Struct(">hi")
_RESULT = Struct(">ihqqq")
_ANSWER_START = Struct(">iibb")
_ONE_RESULT_BYTES = 4 + 1 + 1 + 1 + _RESULT.size + 9
_RESULT_BEFORE_5 = Struct(">ihqq")

# What nearly every request is made of: no transactional id, acks, timeout, one topic, the size of its name;
# then behind the name one partition, its index and the varint before its records.
_ONE_START = Struct(">BhiBB")
_ONE_PARTITION = Struct(">BiBBBB")

# What one result ends with when nothing went wrong, from version 8: no record errors, no message.
_NO_ERRORS = b"\x00\x00\x00\x00\xff\xff"
_NO_ERRORS_FLEXIBLE = b"\x01\x00\x00"


class ProduceData(NamedTuple):
    """A produce request. The records are views of the frame and die with it."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]]
    """Topic name, or topic id from version 13; then partition and records."""


class LeaderHint(NamedTuple):
    """Where the leader of a partition is, for a client that asked the wrong broker (KIP-951)."""

    leader_id: int
    leader_epoch: int


class ProduceResult(NamedTuple):
    """What became of one partition's records."""

    partition: int
    error_code: int
    base_offset: int = -1
    append_time: int = -1
    start_offset: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()
    error_message: str | None = None
    leader: LeaderHint | None = None


def read_produce(frame: memoryview, at: int, version: int) -> ProduceData:
    """Read the body of a produce request that begins at `at`; ProtocolError if it is not one."""
    try:
        if version >= FIRST_FLEXIBLE:
            one = _read_one(frame, at) if version < FIRST_WITH_TOPIC_ID else None
            return one if one is not None else _read_flexible(frame, at, version >= FIRST_WITH_TOPIC_ID)
        return _read_classic(frame, at)
    except (struct.error, IndexError):
        raise ProtocolError(f"the Produce v{version} request ends before its last field") from None


def _read_one(frame: memoryview, at: int) -> ProduceData | None:
    """Read one batch for one partition, which nearly every request is; None if it is more, or is damaged."""
    transactional_id, acks, timeout_ms, topics, name_size = _ONE_START.unpack_from(frame, at)
    name_end = at + 8 + name_size
    if transactional_id or topics != 2 or not 1 < name_size < 0x80 or len(frame) < name_end + 9:
        return None
    partitions, index, first, second, third, fourth = _ONE_PARTITION.unpack_from(frame, name_end)
    if first < 0x80:
        length, start = first, name_end + 6
    elif second < 0x80:
        length, start = first & 0x7F | second << 7, name_end + 7
    elif third < 0x80:
        length, start = first & 0x7F | (second & 0x7F) << 7 | third << 14, name_end + 8
    elif fourth < 0x80:
        low = first & 0x7F | (second & 0x7F) << 7 | (third & 0x7F) << 14
        length, start = low | fourth << 21, name_end + 9
    else:
        return None
    end = start + length - 1
    if partitions != 2 or not length or end + 3 > len(frame) or frame[end] | frame[end + 1] | frame[end + 2]:
        return None
    try:
        topic = str(frame[at + 9 : name_end], "utf-8")
    except UnicodeDecodeError:
        return None
    return ProduceData(None, acks, timeout_ms, [(topic, [(index, frame[start:end])])])


def _read_flexible(frame: memoryview, at: int, by_id: bool) -> ProduceData:
    # Lengths and counts of one byte, which are nearly all, are read in place: a call costs more.
    if frame[at] == 0:
        transactional_id, at = None, at + 1
    else:
        transactional_id, at = compact_text(frame, at, "the transactional id")
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
    at += 6
    topic_count = frame[at] - 1
    at += 1
    if not 0 <= topic_count <= _FEW:
        topic_count, at = compact_count(frame, at - 1, 3, "topics")
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    tags = MAX_ELEMENTS
    total = 0
    for _ in range(topic_count):
        topic: str | bytes | None
        if by_id:
            topic = bytes(frame[at : at + 16])
            at += 16
        else:
            topic, at = compact_text(frame, at, "a topic name")
            if topic is None:
                raise ProtocolError("a topic name is null")
        partition_count = frame[at] - 1
        at += 1
        if not 0 <= partition_count <= _FEW:
            partition_count, at = compact_count(frame, at - 1, 6, "partitions")
        total = within_budget(total + partition_count, "partitions")
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index = INT32.unpack_from(frame, at)[0]
            length, at = uvarint(frame, at + 4)
            end = at + length - 1
            if length > 0 and end <= len(frame):
                partitions.append((index, frame[at:end]))
                at = end
            else:
                records, at = _records(frame, at, length - 1)
                partitions.append((index, records))
            at += 1
            if frame[at - 1]:
                at, tags = skip_tags(frame, at - 1, tags)
        topics.append((topic, partitions))
        at += 1
        if frame[at - 1]:
            at, tags = skip_tags(frame, at - 1, tags)
    if frame[at]:
        skip_tags(frame, at, tags)
    return ProduceData(transactional_id, acks, timeout_ms, topics)


def _read_classic(frame: memoryview, at: int) -> ProduceData:
    transactional_id, at = classic_text(frame, at, "the transactional id")
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
    topic_count, at = classic_count(frame, at + 6, 6, "topics")
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    total = 0
    for _ in range(topic_count):
        topic, at = classic_text(frame, at, "a topic name")
        if topic is None:
            raise ProtocolError("a topic name is null")
        partition_count, at = classic_count(frame, at, 8, "partitions")
        total = within_budget(total + partition_count, "partitions")
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index = INT32.unpack_from(frame, at)[0]
            length = INT32.unpack_from(frame, at + 4)[0]
            records, at = _records(frame, at + 8, length)
            partitions.append((index, records))
        topics.append((topic, partitions))
    return ProduceData(transactional_id, acks, timeout_ms, topics)


def _records(frame: memoryview, at: int, length: int) -> tuple[memoryview | None, int]:
    if length < 0:
        if length < -1:
            raise ProtocolError(f"the length of records is {length}")
        return None, at
    end = at + length
    if end > len(frame):
        raise ProtocolError(f"records have {length} bytes, {len(frame) - at} are left in the frame")
    return frame[at:end], end


def write_produce_answer(
    version: int,
    correlation_id: int,
    topics: list[tuple[str | bytes, list[ProduceResult]]],
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return the whole answer frame, size and header included; from version 10 `endpoints` say who leads."""
    if version >= FIRST_FLEXIBLE and len(topics) == 1:
        topic, results = topics[0]
        if len(results) == 1 and results[0].error_message is None and results[0].error_code == 0:
            return _write_one(correlation_id, topic, results[0])
    out = bytearray(4)
    out += INT32.pack(correlation_id)
    if version >= FIRST_FLEXIBLE:
        out.append(0)
        _write_flexible(out, version, topics, endpoints)
    else:
        _write_classic(out, version, topics)
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _write_one(correlation_id: int, topic: str | bytes, result: ProduceResult) -> bytes:
    """The answer that nearly every produce gets: one partition, no error."""
    raw = topic
    if isinstance(raw, str):
        encoded = raw.encode()
        raw = compact_size(len(encoded) + 1) + encoded
    # Header without tags, one topic; its name, one partition; the result; no errors, no tags, no throttling.
    return b"".join(
        (
            _ANSWER_START.pack(len(raw) + _ONE_RESULT_BYTES, correlation_id, 0, 2),
            raw,
            b"\x02",
            _RESULT.pack(result[0], 0, result[2], result[3], result[4]),
            b"\x01\x00\x00\x00\x00\x00\x00\x00\x00",
        )
    )


def _write_flexible(
    out: bytearray,
    version: int,
    topics: list[tuple[str | bytes, list[ProduceResult]]],
    endpoints: Sequence[NodeEndpoint],
) -> None:
    out += compact_size(len(topics) + 1)
    for topic, results in topics:
        if isinstance(topic, str):
            raw = topic.encode()
            out += compact_size(len(raw) + 1)
            out += raw
        else:
            out += topic
        out += compact_size(len(results) + 1)
        for result in results:
            out += _RESULT.pack(*result[:5])
            if result.record_errors or result.error_message is not None:
                out += compact_size(len(result.record_errors) + 1)
                for index, message in result.record_errors:
                    out += INT32.pack(index)
                    out += compact_nullable_text(message)
                    out.append(0)
                out += compact_nullable_text(result.error_message)
                out += _result_tags(version, result.leader)
            elif result.leader is None:
                out += _NO_ERRORS_FLEXIBLE
            else:
                out += _NO_ERRORS_FLEXIBLE[:2]
                out += _result_tags(version, result.leader)
        out.append(0)
    out += b"\x00\x00\x00\x00"  # Throttle time.
    out += node_endpoints_tags(endpoints if version >= _FIRST_WITH_ENDPOINTS else ())


def _result_tags(version: int, leader: LeaderHint | None) -> bytes:
    if leader is None or version < 10:
        return b"\x00"
    # One field, tag 0, nine bytes: leader id, epoch, and no tagged fields of its own.
    return b"\x01\x00\x09" + struct.pack(">ii", *leader) + b"\x00"


def _write_classic(
    out: bytearray, version: int, topics: list[tuple[str | bytes, list[ProduceResult]]]
) -> None:
    out += INT32.pack(len(topics))
    for topic, results in topics:
        assert isinstance(topic, str), topic
        out += nullable_text(topic)
        out += INT32.pack(len(results))
        for result in results:
            if version >= 5:
                out += _RESULT.pack(*result[:5])
            else:
                out += _RESULT_BEFORE_5.pack(*result[:4])
            if version < 8:
                continue
            if not result.record_errors and result.error_message is None:
                out += _NO_ERRORS
                continue
            out += INT32.pack(len(result.record_errors))
            for index, message in result.record_errors:
                out += INT32.pack(index)
                out += nullable_text(message)
            out += nullable_text(result.error_message)
    out += b"\x00\x00\x00\x00"
