"""The few requests a loader sends, as bytes, and what it must know of the answers.

Produce 11, Fetch 13 (by topic id), CreateTopics 7, DeleteTopics 5: versions that both brokers serve and
that current clients use. Frames carry their size field.
"""

from dataclasses import dataclass
from struct import Struct
from uuid import UUID

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_REQUEST = Struct(">hhih")
CLIENT_ID = b"bench"

PRODUCE, FETCH, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 19, 20
_ONE = b"\x02"  # The length of a compact array of one.
_NO_TAGS = b"\x00"
_NULL = b"\x00"


def produce_frame(topic: str, partition: int, batch: bytes, acks: int = -1) -> bytes:
    """A Produce request of one batch for one partition."""
    before, behind = around_batch(topic, partition, len(batch), acks)
    return before + batch + behind


def around_batch(topic: str, partition: int, batch_bytes: int, acks: int = -1) -> tuple[bytes, bytes]:
    """What a Produce request has before its batch and behind it."""
    body = [
        _NULL,  # transactional id
        _INT16.pack(acks),
        _INT32.pack(30_000),
        _ONE,
        _compact(topic.encode()),
        _ONE,
        _INT32.pack(partition),
        _uvarint(batch_bytes + 1),
    ]
    behind = _NO_TAGS * 3
    return _frame(PRODUCE, 11, b"".join(body), batch_bytes + len(behind)), behind


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """Where things lie in the answer to a Produce request of one partition, size field included."""

    error_at: int
    base_offset_at: int

    @classmethod
    def of(cls, topic: str) -> "ProduceAnswer":
        """The layout for a topic's name, which the answer repeats."""
        # Size, correlation id, tags; one topic, its name; one partition, its index.
        error_at = 4 + 4 + 1 + 1 + len(_compact(topic.encode())) + 1 + 4
        return cls(error_at, error_at + 2)


class FetchFrame:
    """A Fetch request for one partition outside a session, whose offset is changed in place."""

    def __init__(
        self, topic_id: UUID, partition: int, *, max_wait_ms: int = 500, max_bytes: int = 1 << 20
    ) -> None:
        head = [
            _INT32.pack(-1),  # replica: a consumer
            _INT32.pack(max_wait_ms),
            _INT32.pack(1),  # min bytes
            _INT32.pack(50 << 20),
            b"\x00",  # read uncommitted
            _INT32.pack(0),
            _INT32.pack(-1),  # no session
            _ONE,
            topic_id.bytes,
            _ONE,
            _INT32.pack(partition),
            _INT32.pack(-1),  # leader epoch unknown
        ]
        tail = [
            _INT64.pack(0),
            _INT32.pack(-1),
            _INT64.pack(-1),
            _INT32.pack(max_bytes),
            _NO_TAGS * 2,
            b"\x01",  # nothing forgotten
            _compact(b""),
            _NO_TAGS,
        ]
        before = b"".join(head)
        self.data = bytearray(_frame(FETCH, 13, before + b"".join(tail)))
        self._offset_at = len(_frame(FETCH, 13, before))

    def at(self, offset: int) -> bytearray:
        """The frame, asking for records from `offset` on."""
        _INT64.pack_into(self.data, self._offset_at, offset)
        return self.data


# Size, correlation id, tags; throttle time, error, session, one topic, its id, one partition, its index.
_FETCH_ERROR_AT = 4 + 4 + 1 + 4
_FETCH_PARTITION_ERROR_AT = _FETCH_ERROR_AT + 2 + 4 + 1 + 16 + 1 + 4
FETCH_HEAD_BYTES = _FETCH_PARTITION_ERROR_AT + 2 + 24 + 1 + 4 + 5
"""An answer with records is at least this long up to the first of them."""
EMPTY_FETCH_BYTES = _FETCH_ERROR_AT + 2


def fetched_range(answer: memoryview) -> tuple[int, int]:
    """Where the records lie in the answer to a `FetchFrame`; RuntimeError if the broker refused it."""
    error = _INT16.unpack_from(answer, _FETCH_ERROR_AT)[0]
    error = error or _INT16.unpack_from(answer, _FETCH_PARTITION_ERROR_AT)[0]
    if error:
        raise RuntimeError(f"fetch was answered with error {error}")
    at = _FETCH_PARTITION_ERROR_AT + 2 + 24
    aborted, at = _read_uvarint(answer, at)
    if aborted > 1:
        raise RuntimeError("a fetch answer names aborted transactions where there are none")
    length, at = _read_uvarint(answer, at + 4)
    return at, at + max(0, length - 1)


def create_topic_frame(topic: str, partitions: int) -> bytes:
    """A CreateTopics request for one topic of one replica."""
    body = [
        _ONE,
        _compact(topic.encode()),
        _INT32.pack(partitions),
        _INT16.pack(1),
        b"\x01",  # no manual assignment
        b"\x01",  # no configs
        _NO_TAGS,
        _INT32.pack(30_000),
        b"\x00",  # not only validated
        _NO_TAGS,
    ]
    return _frame(CREATE_TOPICS, 7, b"".join(body))


def created_topic(answer: memoryview) -> tuple[UUID, int]:
    """The id of the topic that was created, and the error code."""
    length, at = _read_uvarint(answer, 4 + 4 + 1 + 4 + 1)
    at += length - 1
    return UUID(bytes=bytes(answer[at : at + 16])), _INT16.unpack_from(answer, at + 16)[0]


def delete_topic_frame(topic: str) -> bytes:
    """A DeleteTopics request for one topic."""
    return _frame(DELETE_TOPICS, 5, _ONE + _compact(topic.encode()) + _INT32.pack(30_000) + _NO_TAGS)


def deleted_topic_error(answer: memoryview) -> int:
    """The error code in the answer to a `delete_topic_frame`."""
    length, at = _read_uvarint(answer, 4 + 4 + 1 + 4 + 1)
    return int(_INT16.unpack_from(answer, at + length - 1)[0])


def frame_size(data: memoryview) -> int:
    """The size of the frame at the start of `data`, its size field included."""
    return int(_INT32.unpack_from(data)[0]) + 4


def int16_at(data: memoryview, position: int) -> int:
    """The two-byte integer at `position`."""
    return int(_INT16.unpack_from(data, position)[0])


def int64_at(data: memoryview, position: int) -> int:
    """The eight-byte integer at `position`."""
    return int(_INT64.unpack_from(data, position)[0])


def _frame(api: int, version: int, body: bytes, bytes_to_come: int = 0) -> bytes:
    # One correlation id serves for all: answers come in order, and the same bytes can be sent again.
    header = _REQUEST.pack(api, version, 1, len(CLIENT_ID)) + CLIENT_ID + _NO_TAGS
    return _INT32.pack(len(header) + len(body) + bytes_to_come) + header + body


def _compact(data: bytes) -> bytes:
    return _uvarint(len(data) + 1) + data


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
