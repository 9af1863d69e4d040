"""Produce as fast as the broker acknowledges."""

import select
import time

from bench.loader.batches import batch_of, batch_of_size
from bench.loader.connecting import connect
from bench.loader.frames import ProduceAnswer, around_batch, frame_size, int16_at
from bench.loader.jobs import Outcome, ProduceJob

_ACK_BUFFER_BYTES = 1 << 16


class _Ring:
    """Frames for the partitions in turn, as pieces for the kernel to gather.

    All have one batch in common. A producer sends what it has just made, which is in the processor's cache; a
    copy for each partition would not be, and the memory's speed would be measured instead of the broker's.
    """

    def __init__(self, job: ProduceJob, batch: bytes, turn: int) -> None:
        self._frames: list[list[memoryview]] = []
        for index in range(job.partitions):
            partition = job.first_partition + (turn + index) % job.partitions
            before, behind = around_batch(job.topic, partition, len(batch))
            self._frames.append([memoryview(before), memoryview(batch), memoryview(behind)])

    def pieces(self, first: int, count: int) -> list[memoryview]:
        """The pieces of `count` frames from the one with number `first` on."""
        frames = self._frames
        return [piece for at in range(first, first + count) for piece in frames[at % len(frames)]]


class _Connection:
    """One connection and how far it is: `acked <= sent <= acked + depth`, counted in frames."""

    def __init__(self, job: ProduceJob, ring: _Ring, ack_bytes: int) -> None:
        self.socket = connect(job.port)
        self.socket.setblocking(False)
        self.acked = 0
        self.sent = 0
        self.unsent: list[memoryview] = []
        self._ring = ring
        self._acks = memoryview(bytearray(_ACK_BUFFER_BYTES // ack_bytes * ack_bytes))
        self._held = 0
        self._ack_bytes = ack_bytes
        self._error_at = ProduceAnswer.of(job.topic).error_at

    def send(self, frames: int) -> None:
        """Send the next `frames` frames; what the socket does not take stays in `unsent`."""
        self.unsent = self._ring.pieces(self.sent, frames)
        self.sent += frames
        self.push()

    def push(self) -> None:
        """Send what is unsent as far as the socket takes it."""
        try:
            sent = self.socket.sendmsg(self.unsent)
        except BlockingIOError:
            return
        whole = 0
        for piece in self.unsent:
            if sent < len(piece):
                break
            sent -= len(piece)
            whole += 1
        self.unsent = self.unsent[whole:]
        if sent:
            self.unsent[0] = self.unsent[0][sent:]

    def receive(self) -> None:
        """Take in acknowledgements and check each for its error code."""
        held = self._held + self.socket.recv_into(self._acks[self._held :])
        if held == self._held:
            raise ConnectionError("the broker closed the connection")
        whole = held // self._ack_bytes
        for at in range(0, whole * self._ack_bytes, self._ack_bytes):
            if frame_size(self._acks[at:]) != self._ack_bytes or int16_at(self._acks, at + self._error_at):
                raise RuntimeError(f"a produce request was refused: {self._acks[at : at + 120].hex()}")
        self.acked += whole
        self._held = held - whole * self._ack_bytes
        if self._held:
            self._acks[: self._held] = self._acks[held - self._held : held]


class ProduceLoad:
    """A produce job, connected and ready to run."""

    def __init__(self, job: ProduceJob) -> None:
        self._job = job
        batch = batch_of_size(job.batch_bytes)[0] if job.batch_bytes else batch_of(1)
        rings = [_Ring(job, batch, turn) for turn in range(min(job.connections, job.partitions))]
        ack_bytes = _ack_bytes(job)
        self._connections = [
            _Connection(job, rings[index % len(rings)], ack_bytes) for index in range(job.connections)
        ]
        self._batch_bytes = len(batch)

    def run(self) -> Outcome:
        """Send until the job's end and return `requests`, `bytes` (of batches) and `seconds`."""
        job, connections = self._job, self._connections
        by_fd = {connection.socket.fileno(): connection for connection in connections}
        poll = select.epoll()
        for fd in by_fd:
            poll.register(fd, select.EPOLLIN)
        # Shared by all connections, so that a fast one does what a slow one does not.
        left = max(len(connections) * job.depth, job.max_bytes // self._batch_bytes)
        started = time.perf_counter()
        deadline = started + job.max_s
        for connection in connections:
            connection.send(job.depth)
            left -= job.depth
            _watch(poll, connection)
        busy = len(connections)
        while busy:
            for fd, events in poll.poll():
                connection = by_fd[fd]
                if events & select.EPOLLOUT:
                    connection.push()
                    _watch(poll, connection)
                if not events & ~select.EPOLLOUT:
                    continue
                connection.receive()
                if connection.unsent:
                    continue
                wanted = min(job.depth - (connection.sent - connection.acked), left)
                if wanted:
                    left -= wanted
                    connection.send(wanted)
                    if connection.unsent:
                        _watch(poll, connection)
                elif connection.acked == connection.sent:
                    busy -= 1
            if left and time.perf_counter() > deadline:
                left = 0
        seconds = time.perf_counter() - started
        requests = sum(connection.acked for connection in connections)
        return {"requests": requests, "bytes": float(requests * self._batch_bytes), "seconds": seconds}


def _watch(poll: select.epoll, connection: _Connection) -> None:
    events = select.EPOLLIN | select.EPOLLOUT if connection.unsent else select.EPOLLIN
    poll.modify(connection.socket.fileno(), events)


def _ack_bytes(job: ProduceJob) -> int:
    """The size of a good acknowledgement, which is the same for every request of the job."""
    # What follows the error code: offset, append time, start offset, no record errors, no message, tags of
    # the partition and of the topic, throttle time, tags.
    return ProduceAnswer.of(job.topic).error_at + 2 + 24 + 1 + 1 + 1 + 1 + 4 + 1
