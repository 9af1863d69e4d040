"""How long a record takes to be acknowledged, and to reach a consumer that waits for it."""

import select
import time
from array import array
from uuid import UUID

from bench.loader.admin import Link
from bench.loader.batches import batch_of
from bench.loader.connecting import connect
from bench.loader.frames import (
    EMPTY_FETCH_BYTES,
    FetchFrame,
    ProduceAnswer,
    fetched_range,
    frame_size,
    int16_at,
    int64_at,
    produce_frame,
)
from bench.loader.jobs import AckLatencyJob, EndToEndJob, Outcome

_FETCH_BUFFER_BYTES = 1 << 21


class AckLatencyLoad:
    """A closed loop on one connection."""

    def __init__(self, job: AckLatencyJob) -> None:
        self._seconds = job.seconds
        self._link = Link(job.port)
        self._frame = produce_frame(job.topic, 0, batch_of(1))
        self._error_at = ProduceAnswer.of(job.topic).error_at

    def run(self) -> Outcome:
        """Return `requests` and the quantiles of `ack` in microseconds."""
        times = array("d")
        clock = time.perf_counter
        started = now = clock()
        while now < started + self._seconds:
            sent = now
            answer = self._link.ask(self._frame)
            now = clock()
            times.append(now - sent)
            if error := int16_at(answer, self._error_at):
                raise RuntimeError(f"a produce request was refused with error {error}")
        return {"requests": len(times), "seconds": now - started} | quantiles("ack", times)


class EndToEndLoad:
    """Records at a steady pace on one connection, a long-poll fetch on another.

    The pace does not wait for answers, so a slow one is not spared its followers. A time begins when a
    record is handed to the kernel: how late the loader itself wakes up is not the broker's doing.
    """

    def __init__(self, job: EndToEndJob) -> None:
        self._job = job
        batch = batch_of(1)
        self._batch_bytes = len(batch)
        self._frame = produce_frame(job.topic, 0, batch)
        answer = ProduceAnswer.of(job.topic)
        self._error_at, self._base_offset_at = answer.error_at, answer.base_offset_at
        with Link(job.port) as link:
            self._first_offset = int64_at(link.ask(self._frame), self._base_offset_at) + 1
        self._producer = connect(job.port)
        self._consumer = connect(job.port)
        self._acks = bytearray()
        self._sent = array("d")
        self._acked = array("d")
        self._arrived = array("d")

    def run(self) -> Outcome:
        """Return `requests` and the quantiles of `ack` and `e2e` in microseconds."""
        job = self._job
        total = int(job.per_second * job.seconds)
        fetch = FetchFrame(UUID(job.topic_id), 0)
        answer = memoryview(bytearray(_FETCH_BUFFER_BYTES))
        held = 0
        poll = select.epoll()
        poll.register(self._producer, select.EPOLLIN)
        poll.register(self._consumer, select.EPOLLIN)
        self._consumer.sendall(fetch.at(self._first_offset))
        clock = time.perf_counter
        begun = clock()
        while len(self._arrived) < total or len(self._acked) < total:
            due = begun + len(self._sent) / job.per_second
            now = clock()
            if len(self._sent) < total and now >= due:
                self._sent.append(now)
                self._producer.sendall(self._frame)
                continue
            if now > begun + job.seconds + 10.0:
                raise RuntimeError(f"{total - len(self._arrived)} of {total} records did not arrive")
            for fd, _ in poll.poll(due - now if len(self._sent) < total else 1.0):
                if fd == self._producer.fileno():
                    self._take_acks(clock())
                    continue
                held += self._consumer.recv_into(answer[held:])
                if held >= 4 and held == frame_size(answer):
                    self._take_records(answer[:held], clock())
                    held = 0
                    self._consumer.sendall(fetch.at(self._first_offset + len(self._arrived)))
        seconds = clock() - begun
        return (
            {"requests": total, "seconds": seconds}
            | quantiles("ack", self._acked)
            | quantiles("e2e", self._arrived)
        )

    def _take_acks(self, now: float) -> None:
        self._acks += self._producer.recv(1 << 16)
        while len(self._acks) >= 4 and len(self._acks) >= (size := frame_size(memoryview(self._acks))):
            if error := int16_at(memoryview(self._acks), self._error_at):
                raise RuntimeError(f"a produce request was refused with error {error}")
            self._acked.append(now - self._sent[len(self._acked)])
            del self._acks[:size]

    def _take_records(self, answer: memoryview, now: float) -> None:
        if len(answer) <= EMPTY_FETCH_BYTES:
            return
        start, end = fetched_range(answer)
        # Every batch is the same one, of one record.
        for _ in range((end - start) // self._batch_bytes):
            self._arrived.append(now - self._sent[len(self._arrived)])


def quantiles(name: str, seconds: "array[float]") -> Outcome:
    """The median, 99 % and 99.9 % of some times, in microseconds, as `<name>_p50` and so on."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        f"{name}_{label}": ordered[min(last, int(len(ordered) * share))] * 1e6
        for label, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
    }
