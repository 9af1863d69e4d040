"""Topics for a measurement: created, made writable, deleted, on either broker."""

import time
from dataclasses import dataclass
from uuid import UUID

from bench.loader import frames
from bench.loader.batches import batch_of
from bench.loader.connecting import connect

_TOPIC_ALREADY_EXISTS = 36


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of which every partition has acknowledged one record, so that load begins at offset 1."""

    name: str
    topic_id: UUID
    partitions: int


class Link:
    """One blocking connection: a frame out, a frame in."""

    def __init__(self, port: int, timeout_s: float = 30.0) -> None:
        self._socket = connect(port, timeout_s)

    def ask(self, frame: bytes | bytearray) -> memoryview:
        """Send a request and return the whole answer, size field included."""
        self._socket.sendall(frame)
        head = self._read(4)
        return memoryview(head + self._read(frames.frame_size(memoryview(head)) - 4))

    def _read(self, count: int) -> bytes:
        out = bytearray()
        while len(out) < count:
            data = self._socket.recv(count - len(out))
            if not data:
                raise ConnectionError("the broker closed the connection")
            out += data
        return bytes(out)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_topic(link: Link, name: str, partitions: int, timeout_s: float = 30.0) -> Topic:
    """Create a topic and return once every partition of it has acknowledged a record."""
    deadline = time.monotonic() + timeout_s
    frame = frames.create_topic_frame(name, partitions)
    topic_id, error = frames.created_topic(link.ask(frame))
    while error and error != _TOPIC_ALREADY_EXISTS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"topic {name} could not be created: error {error}")
        time.sleep(0.002)
        topic_id, error = frames.created_topic(link.ask(frame))
    for partition in range(partitions):
        _wait_writable(link, name, partition, deadline)
    return Topic(name, topic_id, partitions)


def delete_topic(link: Link, name: str) -> None:
    """Delete a topic; RuntimeError if the broker refuses."""
    if error := frames.deleted_topic_error(link.ask(frames.delete_topic_frame(name))):
        raise RuntimeError(f"topic {name} could not be deleted: error {error}")


def _wait_writable(link: Link, topic: str, partition: int, deadline: float) -> None:
    frame = frames.produce_frame(topic, partition, batch_of(1))
    error_at = frames.ProduceAnswer.of(topic).error_at
    while error := frames.int16_at(link.ask(frame), error_at):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic}-{partition} takes no records: error {error}")
        time.sleep(0.002)
