"""Fetch, version 17, as a follower sends it and reads its answer: what brokers say to each other most.

Records of an answer stay views of its frame.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from everlog.model.errors import ProtocolError
from everlog.wire.hot.reading import (
    INT32,
    MAX_ELEMENTS,
    compact_count,
    count,
    find_tag,
    skip_tags,
    uvarint,
    within_budget,
)
from everlog.wire.hot.writing import compact_size

VERSION: Final = 17
_FETCH_KEY: Final = 1
_TOPIC_ID_BYTES: Final = 16

_HEADER: Final = Struct(">ihhih")
_LIMITS: Final = Struct(">iiibii")
_PARTITION: Final = Struct(">iiqiqi")
_REPLICA_STATE: Final = Struct(">iq")
_ANSWER: Final = Struct(">ihi")
_RESULT: Final = Struct(">ihqqq")
_DIVERGING: Final = Struct(">iq")
_MIN_RESULT_BYTES: Final = 37

Wanted = tuple[int, int, int, int, int, int]
"""Partition, leader epoch, fetch offset, epoch of the record before that, log start, most bytes."""


class Limits(NamedTuple):
    """How long a fetch may wait, and how much it may bring."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class ReplicaAnswer(NamedTuple):
    """What a leader has answered about one partition."""

    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    start_offset: int
    diverging: tuple[int, int] | None
    """Epoch and end offset where the two logs part; None if they do not."""
    records: memoryview | None


def write_replica_fetch(
    client_id: bytes,
    replica: tuple[int, int],
    limits: Limits,
    session: tuple[int, int],
    wanted: Mapping[bytes, Sequence[Wanted]],
    forgotten: Mapping[bytes, Sequence[int]],
) -> bytes:
    """Return the whole request frame; `replica` is the broker and its epoch, `session` its id and epoch.

    Partitions are by topic id. The correlation id is 0, and is put in by whoever sends the frame.
    """
    out = bytearray(_HEADER.size)
    out += client_id
    out.append(0)
    out += _LIMITS.pack(*limits, 0, *session)
    out += compact_size(len(wanted) + 1)
    for topic_id, partitions in wanted.items():
        out += topic_id
        out += compact_size(len(partitions) + 1)
        for partition in partitions:
            out += _PARTITION.pack(*partition)
            out.append(0)
        out.append(0)
    out += compact_size(len(forgotten) + 1)
    for topic_id, indexes in forgotten.items():
        out += topic_id
        out += compact_size(len(indexes) + 1)
        out += struct.pack(f">{len(indexes)}i", *indexes)
        out.append(0)
    # No rack; then one tagged field, 1: who asks.
    out += b"\x01\x01\x01\x0d"
    out += _REPLICA_STATE.pack(*replica)
    out.append(0)
    _HEADER.pack_into(out, 0, len(out) - 4, _FETCH_KEY, VERSION, 0, len(client_id))
    return bytes(out)


def read_replica_answer(frame: memoryview) -> tuple[int, int, list[ReplicaAnswer]]:
    """Read an answer frame: error code, session id, and what it says of partitions; ProtocolError."""
    try:
        return _read(frame)
    except (struct.error, IndexError):
        raise ProtocolError(f"the Fetch v{VERSION} answer ends before its last field") from None


def _read(frame: memoryview) -> tuple[int, int, list[ReplicaAnswer]]:
    at, tags = skip_tags(frame, INT32.size, MAX_ELEMENTS)
    _, error_code, session_id = _ANSWER.unpack_from(frame, at)
    topic_count, at = compact_count(frame, at + _ANSWER.size, _TOPIC_ID_BYTES + 2, "topics")
    found: list[ReplicaAnswer] = []
    for _ in range(topic_count):
        topic_id = bytes(frame[at : at + _TOPIC_ID_BYTES])
        results, at = compact_count(frame, at + _TOPIC_ID_BYTES, _MIN_RESULT_BYTES, "partitions")
        within_budget(len(found) + results, "partitions")
        for _ in range(results):
            index, code, high_watermark, _, start = _RESULT.unpack_from(frame, at)
            at, tags = _skip_aborted(frame, at + _RESULT.size, tags)
            length, at = uvarint(frame, at + INT32.size)  # The preferred replica is for consumers.
            end = at + max(length - 1, 0)
            if end > len(frame):
                raise ProtocolError(
                    f"records have {length - 1} bytes, {len(frame) - at} are left in the frame"
                )
            records = frame[at:end] if length > 1 else None
            diverging, at, tags = _read_tags(frame, end, tags)
            found.append(ReplicaAnswer(topic_id, index, code, high_watermark, start, diverging, records))
        at, tags = skip_tags(frame, at, tags)
    skip_tags(frame, at, tags)
    return error_code, session_id, found


def _skip_aborted(frame: memoryview, at: int, tags: int) -> tuple[int, int]:
    if frame[at] <= 1:
        return at + 1, tags
    found, at = uvarint(frame, at)
    for _ in range(count(found - 1, frame, at, 17, "aborted transactions") if found else 0):
        at, tags = skip_tags(frame, at + 16, tags)
    return at, tags


def _read_tags(frame: memoryview, at: int, tags: int) -> tuple[tuple[int, int] | None, int, int]:
    if frame[at] == 0:
        return None, at + 1, tags
    field, at, tags = find_tag(frame, at, 0, tags)
    if field is None:
        return None, at, tags
    epoch, end_offset = _DIVERGING.unpack_from(field)
    behind, tags = skip_tags(field, _DIVERGING.size, tags)
    if behind != len(field):
        raise ProtocolError(f"a diverging epoch has {len(field)} bytes, expected {behind}")
    # To Kafka, an epoch that is none says that the logs do not part; taken at its word it would empty ours.
    return (epoch, end_offset) if epoch >= 0 else None, at, tags


def by_topic(partitions: Iterable[tuple[bytes, int]]) -> dict[bytes, list[int]]:
    """Put partitions under their topics, in the order in which they come."""
    found: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, []).append(index)
    return found
