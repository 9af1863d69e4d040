"""Thousands of partitions on one broker: few descriptors, little memory, a quick restart (L11)."""

import os
import socket
import struct
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from everlog.records.batch import batch_at
from everlog.records.reader import read_records
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.brokers import BrokerProcess, start_up
from tests.e2e.clients import TIMEOUT_S, OneShot, create_topic, read_all

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

TOPICS = 10
PARTITIONS = 500
MAX_OPEN_FILES = 512
# Sockets, the event loop, the standard streams.
OTHER_DESCRIPTORS = 64
MORE_ROUNDS = 3
PADDING = b"x" * 2_000
"""Makes the answer to a fetch of all partitions larger than what sockets hold."""


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.process.pid}/fd"))


def a_broker(tmp_path: Path) -> tuple[BrokerProcess, float]:
    """A broker on the data, and the seconds from its start until it says that it serves."""
    began = time.monotonic()
    broker = start_up(
        tmp_path / "data", tmp_path / "stderr", "--override", f"max.open.files={MAX_OPEN_FILES}"
    )
    ready = time.monotonic() - began
    return broker, ready


def check_bounds(broker: BrokerProcess, when: str) -> None:
    print(f"{when}: {descriptors(broker)} descriptors, {broker.rss_bytes >> 20} MiB")
    assert descriptors(broker) <= MAX_OPEN_FILES + OTHER_DESCRIPTORS
    assert broker.rss_bytes < 500 << 20


def more_of(partition: int, number: int) -> bytes:
    return b"more %d, %d " % (number, partition) + PADDING


@contextmanager
def never_above_the_bounds(broker: BrokerProcess, what: str) -> Generator[None]:
    """Look at the descriptors all the while, and after it at the memory too."""
    ended = threading.Event()
    seen: list[int] = [descriptors(broker)]

    def look() -> None:
        while not ended.wait(0.005):
            seen.append(descriptors(broker))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
    print(f"{what}: at most {max(seen)} descriptors, looked at {len(seen)} times")
    assert max(seen) <= MAX_OPEN_FILES + OTHER_DESCRIPTORS
    check_bounds(broker, what)


def ask_for_everything() -> bytes:
    return encode_request(
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 30,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=f"many-{topic}",
                    partitions=[
                        FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20)
                        for n in range(PARTITIONS)
                    ],
                )
                for topic in range(TOPICS)
            ],
        ),
        api_version=12,
        correlation_id=1,
        client_id="slow",
    )


def first_answer_read_slowly(broker: BrokerProcess) -> int:
    """Fetch all partitions, reading only once the answer has begun; returns how many had data."""
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        peer.settimeout(TIMEOUT_S)
        peer.connect(broker.address)
        peer.sendall(ask_for_everything())
        peer.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL)
        check_bounds(broker, "an answer of all partitions is on its way")
        (size,) = struct.unpack(">i", _exactly(peer, 4))
        _, answer = decode_response(1, 12, memoryview(_exactly(peer, size)))
    full = 0
    for topic in cast(FetchResponse, answer).responses:
        number = int(topic.topic.removeprefix("many-"))
        for part in topic.partitions:
            records = part.records
            assert part.error_code == 0
            if not records:
                continue
            full += 1
            values: list[bytes | None] = []
            at = 0
            while at < len(records):
                batch = batch_at(memoryview(bytes(records[at:])))
                values += [record.value for record in read_records(batch)]
                at += batch.size
            first = part.partition_index
            assert values == [b"one %d" % first, *(more_of(first, n) for n in range(MORE_ROUNDS))], number
    return full


def _exactly(peer: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = peer.recv(min(size, 1 << 20))
        assert part, "the broker has closed the connection in the middle of an answer"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_everything(broker: BrokerProcess) -> None:
    """Read all partitions to their ends with one consumer."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "enable.auto.commit": False}
    )
    try:
        consumer.assign(
            [TopicPartition(f"many-{topic}", n, 0) for topic in range(TOPICS) for n in range(PARTITIONS)]
        )
        left = TOPICS * PARTITIONS * (1 + MORE_ROUNDS)
        deadline = time.monotonic() + 120
        while left:
            assert time.monotonic() < deadline, f"{left} records have not come"
            for message in consumer.consume(1_000, 1.0):
                assert message.error() is None, message.error()
                left -= 1
    finally:
        consumer.close()


def test_five_thousand_partitions_fit_one_broker_and_restart_quickly(tmp_path: Path) -> None:
    broker, _ = a_broker(tmp_path)
    try:
        for topic in range(TOPICS):
            create_topic(broker.bootstrap, f"many-{topic}", PARTITIONS)
        check_bounds(broker, "created")
        producer = OneShot(broker.bootstrap)
        for topic in range(TOPICS):
            producer.send_all(f"many-{topic}", ((n, b"one %d" % n) for n in range(PARTITIONS)))
        check_bounds(broker, "one record in each")
        # Batches behind a log's first ones go the short way, for which a log holds its descriptor.
        with never_above_the_bounds(broker, "more batches in each"):
            for number in range(MORE_ROUNDS):
                for topic in range(TOPICS):
                    producer.send_all(f"many-{topic}", ((n, more_of(n, number)) for n in range(PARTITIONS)))
        with never_above_the_bounds(broker, "all fetched by one that reads slowly"):
            assert first_answer_read_slowly(broker) == TOPICS * PARTITIONS
        with never_above_the_bounds(broker, "all read by one consumer"):
            read_everything(broker)
        stopping = time.monotonic()
        assert broker.stop(180) == 0
        stop_s = time.monotonic() - stopping
        print(f"clean stop: {stop_s:.2f} s")
        # A second or two where nothing else runs; one sync after the other takes three quarters of a minute.
        assert stop_s < 30
    finally:
        broker.kill()

    broker, clean_s = a_broker(tmp_path)
    try:
        print(f"restart after a clean stop: {clean_s:.2f} s")
        check_bounds(broker, "after a clean stop")
        assert clean_s < 5
        more = [more_of(321, number) for number in range(MORE_ROUNDS)]
        assert read_all(broker.bootstrap, "many-3", 321) == [b"one 321", *more]
        producer = OneShot(broker.bootstrap)
        for topic in range(TOPICS):
            producer.send_all(f"many-{topic}", ((n, b"two %d" % n) for n in range(PARTITIONS)))
        check_bounds(broker, "all used again")
    finally:
        broker.kill()

    broker, unclean_s = a_broker(tmp_path)
    try:
        print(f"restart after kill -9: {unclean_s:.2f} s")
        check_bounds(broker, "after kill -9")
        assert unclean_s < 30
        for topic, partition in ((0, 0), (3, 321), (TOPICS - 1, PARTITIONS - 1)):
            values = read_all(broker.bootstrap, f"many-{topic}", partition)
            more = [more_of(partition, number) for number in range(MORE_ROUNDS)]
            assert values == [b"one %d" % partition, *more, b"two %d" % partition]
        assert broker.stop(180) == 0
    finally:
        broker.kill()
