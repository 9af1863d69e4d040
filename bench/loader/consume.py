"""Fetch as fast as the broker answers, into one buffer that is used again and again."""

import select
import time
from uuid import UUID

from bench.loader.admin import Link
from bench.loader.batches import HEADER, check_batches
from bench.loader.connecting import connect
from bench.loader.frames import EMPTY_FETCH_BYTES, FetchFrame, fetched_range, frame_size
from bench.loader.jobs import ConsumeJob, Outcome

_PARTITION_BYTES = 1 << 20
_BUFFER_BYTES = 4 << 20
_LENGTH_OVERHEAD = 12


class _Connection:
    """One reader: where it is in the log, and the answer it is receiving."""

    def __init__(self, job: ConsumeJob) -> None:
        self.socket = connect(job.port)
        self.answers = 0
        self._frame = FetchFrame(UUID(job.topic_id), 0, max_bytes=_PARTITION_BYTES)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._held = 0
        self._size = 0
        self._first_offset = job.first_offset
        self._until_offset = job.until_offset
        self._offset = job.first_offset

    def ask(self) -> None:
        """Ask for what comes next."""
        self._held = self._size = 0
        self.socket.sendall(self._frame.at(self._offset))

    def receive(self) -> int | None:
        """Take in what has arrived; the bytes of records in the answer that this completes, else None."""
        count = self.socket.recv_into(self._buffer[self._held : self._size or _BUFFER_BYTES])
        if not count:
            raise ConnectionError("the broker closed the connection")
        self._held += count
        if not self._size and self._held >= 4:
            self._size = frame_size(self._buffer)
        if self._held != self._size:
            return None
        self.answers += 1
        if self._size <= EMPTY_FETCH_BYTES:
            return 0
        start, end = fetched_range(self._buffer[: self._size])
        self._offset = _offset_after(self._buffer[start:end], self._offset)
        if self._until_offset is not None and self._offset >= self._until_offset:
            self._offset = self._first_offset
        return end - start


class ConsumeLoad:
    """A consume job, connected and ready to run; one answer has been checked to its last bit."""

    def __init__(self, job: ConsumeJob) -> None:
        self._job = job
        with Link(job.port) as link:
            answer = link.ask(FetchFrame(UUID(job.topic_id), 0).at(job.first_offset))
            start, end = fetched_range(answer)
            check_batches(answer[start:end], job.first_offset)
        self._connections = [_Connection(job) for _ in range(job.connections)]

    def run(self) -> Outcome:
        """Fetch until the job's end; return `bytes` of records, `answers`, `seconds` until the last came."""
        job, connections = self._job, self._connections
        by_fd = {connection.socket.fileno(): connection for connection in connections}
        poll = select.epoll()
        for fd in by_fd:
            poll.register(fd, select.EPOLLIN)
        started = last = time.perf_counter()
        deadline = started + job.max_s
        for connection in connections:
            connection.ask()
        left = job.max_bytes
        while (now := time.perf_counter()) < deadline and left > 0:
            for fd, _ in poll.poll(deadline - now):
                connection = by_fd[fd]
                count = connection.receive()
                if count is None:
                    continue
                if count:
                    last = time.perf_counter()
                    left -= count
                connection.ask()
        return {
            "bytes": float(job.max_bytes - left),
            "answers": float(sum(connection.answers for connection in connections)),
            "seconds": last - started,
        }


def _offset_after(records: memoryview, offset: int) -> int:
    """The offset after the last whole batch in `records`, found by stepping over the headers."""
    position = 0
    while len(records) - position >= HEADER.size:
        fields = HEADER.unpack_from(records, position)
        position += fields[1] + _LENGTH_OVERHEAD
        if position > len(records):
            break
        offset = fields[0] + fields[6] + 1
    return offset
