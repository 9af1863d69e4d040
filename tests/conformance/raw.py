"""The smallest possible Kafka client, by hand, to send and see the very bytes.

Client libraries hide what they sent; a codec that was silently dropped or a producer id that is missing shows
only in the batch headers. They also refuse to send what a broker must be able to refuse.
"""

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.conformance.scenarios import CODECS

_PRODUCE = 0
_FETCH = 1
_METADATA = 3
_INIT_PRODUCER_ID = 22
_NOT_YET = (3, 5, 6)
_BATCH = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and last timestamp,
producer id and epoch, base sequence, count."""


class NotServedYet(Exception):
    """The broker does not know or lead the partition, which may be news on their way to it."""


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """The header of a record batch as the broker serves it."""

    base_offset: int
    last_offset: int
    codec: str
    producer_id: int
    base_sequence: int
    count: int
    timestamp_type: int


def batches(bootstrap: str, topic: str, partition: int, offset: int = 0) -> list[BatchSeen]:
    """The headers of all whole batches of a partition from `offset` to its end."""
    found: list[BatchSeen] = []
    with connected(bootstrap) as connection:
        while True:
            records = fetch(connection, topic, partition, offset)
            page = split(records)
            if not page:
                return found
            found += page
            offset = page[-1].last_offset + 1


def wait_for_ends(bootstrap: str, topic: str, ends: Mapping[int, int], timeout_s: float = 40.0) -> None:
    """Return once each partition holds records up to its end: acks=0 tells nobody when that is."""
    deadline = time.monotonic() + timeout_s
    waiting = dict(ends)
    while waiting:
        for partition, end in tuple(waiting.items()):
            try:
                seen = batches(bootstrap, topic, partition)
            except NotServedYet:
                continue
            if end == 0 or (seen and seen[-1].last_offset + 1 >= end):
                del waiting[partition]
        if waiting:
            assert time.monotonic() < deadline, f"not there after {timeout_s} s: {waiting}"
            time.sleep(0.02)


def split(records: bytes) -> list[BatchSeen]:
    """The batch headers in a records field, without the cut batch that may end it."""
    found: list[BatchSeen] = []
    position = 0
    while position + _BATCH.size <= len(records):
        fields: tuple[int, ...] = _BATCH.unpack_from(records, position)
        base, length, _, magic, _, attributes, delta, _, _, producer, _, sequence, count = fields
        assert magic == 2, magic
        position += 12 + length
        if position > len(records):
            break
        stamp = attributes >> 3 & 1
        found.append(BatchSeen(base, base + delta, CODECS[attributes & 7], producer, sequence, count, stamp))
    return found


def fetch(connection: socket.socket, topic: str, partition: int, offset: int) -> bytes:
    """One Fetch v4 of one partition; the raw records field of the answer."""
    name = topic.encode()
    body = struct.pack(">iiiibi", -1, 500, 0, 1 << 25, 0, 1)
    body += struct.pack(f">h{len(name)}siiqi", len(name), name, 1, partition, offset, 1 << 25)
    answer = roundtrip(connection, _FETCH, 4, body)
    # Throttle time, one topic by name, one partition; then the partition's own fields.
    at = 4 + 4 + 2 + len(name) + 4
    number, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
    if error in _NOT_YET:
        raise NotServedYet(f"{topic}-{partition}: error {error}")
    assert (number, error) == (partition, 0), (topic, partition, error)
    at += 26 + 16 * max(aborted, 0)
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size]


def produce(
    connection: socket.socket, topic: str, batch: bytes, partition: int = 0, acks: int = -1, version: int = 7
) -> tuple[int, int]:
    """One Produce of one records field; the error code and base offset of the answer."""
    body = produce_body(topic, batch, partition, acks)
    answer = roundtrip(connection, _PRODUCE, version, body)
    # One topic by name, one partition; then the partition's own fields.
    number, error, offset = struct.unpack_from(">ihq", answer, 4 + 2 + len(topic.encode()) + 4)
    assert number == partition, number
    return error, offset


def produce_body(topic: str, records: bytes, partition: int = 0, acks: int = -1) -> bytes:
    """The body of a Produce request of a version from 3 to 8."""
    name = topic.encode()
    head = struct.pack(
        f">hhiih{len(name)}siii", -1, acks, 10_000, 1, len(name), name, 1, partition, len(records)
    )
    return head + records


def init_producer_id(connection: socket.socket) -> tuple[int, int]:
    """A new producer id and its epoch, by InitProducerId v0."""
    answer = roundtrip(connection, _INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000))
    _, error, producer_id, epoch = struct.unpack(">ihqh", answer)
    assert error == 0, error
    return producer_id, epoch


def metadata(connection: socket.socket) -> bytes:
    """The answer to Metadata v1 for no topic: the brokers."""
    return roundtrip(connection, _METADATA, 1, struct.pack(">i", 0))


def roundtrip(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    """Send one request with a classic header (v1) and return the answer's body after its correlation id."""
    header = struct.pack(">hhih5s", api_key, version, 1, 5, b"probe")
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size,) = struct.unpack(">i", exactly(connection, 4))
    answer = exactly(connection, size)
    assert answer[:4] == b"\0\0\0\1", "an answer out of order"
    return answer[4:]


def exactly(connection: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes; an end of stream before that is a ConnectionError."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(1 << 20, size - len(parts)))
        if not part:
            raise ConnectionError(f"closed after {len(parts)} of {size} bytes")
        parts += part
    return bytes(parts)


def address(bootstrap: str) -> tuple[str, int]:
    """The host and port of the first bootstrap server."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


def connected(bootstrap: str, source: str = "127.0.0.1") -> socket.socket:
    """A connection from the loopback address `source`, with ten seconds for each wait."""
    return socket.create_connection(address(bootstrap), timeout=10, source_address=(source, 0))
