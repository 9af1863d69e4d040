"""A broker on a disk that is full or fails: refuses, goes on reading, and recovers by itself (O5)."""

import time
from collections.abc import Generator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from everlog.model.errors import ErrorCode
from tests.brokers import start_up
from tests.e2e.clients import OneShot, create_topic, read_all
from tests.e2e.disks import failing_calls, small_disk

pytestmark = [pytest.mark.e2e]

MIB = 1 << 20
# Not `write`: the broker answers its clients with it.
WRITES = "pwrite64,pwritev,pwritev2"
FSYNCS = "fsync,fdatasync"


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    with small_disk(tmp_path / "disk", 32 * MIB) as mounted:
        yield mounted


def a_value(n: int, size: int = 256 << 10) -> bytes:
    return (b"%08d" % n) * (size // 8)


def fill(producer: OneShot, topic: str) -> tuple[int, KafkaError]:
    """Send records until one is refused; how many were acknowledged, and why one was not."""
    for n in range(1000):
        problem = producer.send(topic, a_value(n))
        if problem is not None:
            return n, problem
    raise AssertionError("a disk of 32 MiB took 250 MiB")


@pytest.mark.parametrize("reserve", ["0", str(4 * MIB)], ids=["to the last byte", "down to the reserve"])
def test_a_full_disk_refuses_records_reads_on_and_recovers_when_there_is_room(
    disk: Path, tmp_path: Path, reserve: str
) -> None:
    filler = disk / "filler"
    filler.write_bytes(bytes(16 * MIB))
    # The sync that each acknowledgement waits for, and the checkpoints, meet the full disk too.
    flags = (
        "--override", f"disk.reserve.bytes={reserve}",
        "--override", f"log.segment.bytes={2 * MIB}",
        "--override", "log.flush.interval.messages=1",
        "--override", "log.flush.offset.checkpoint.interval.ms=500",
    )  # fmt: skip
    broker = start_up(disk / "data", tmp_path / "stderr", *flags)
    try:
        create_topic(broker.bootstrap, "filled")
        create_topic(broker.bootstrap, "other")
        producer = OneShot(broker.bootstrap)
        assert producer.send("other", b"before") is None

        acked, problem = fill(producer, "filled")

        assert acked > 20
        assert problem.code() == KafkaError.KAFKA_STORAGE_ERROR
        expected = [a_value(n) for n in range(acked)]
        assert read_all(broker.bootstrap, "filled") == expected
        assert read_all(broker.bootstrap, "other") == [b"before"]

        filler.unlink()
        refused_until = time.monotonic() + 15
        while producer.send("filled", a_value(acked)) is not None:
            assert time.monotonic() < refused_until, f"still refused with room on the disk\n{broker.errors}"
        expected.append(a_value(acked))
        assert producer.send("other", b"after") is None
        assert read_all(broker.bootstrap, "filled") == expected
        assert broker.process.poll() is None
    finally:
        broker.kill()

    again = start_up(disk / "data", tmp_path / "stderr", *flags)
    try:
        assert read_all(again.bootstrap, "filled") == expected
        assert read_all(again.bootstrap, "other") == [b"before", b"after"]
        assert again.stop() == 0
    finally:
        again.kill()


def test_a_client_that_retries_never_notices_a_disk_that_was_full_for_a_while(
    disk: Path, tmp_path: Path
) -> None:
    filler = disk / "filler"
    filler.write_bytes(bytes(16 * MIB))
    broker = start_up(disk / "data", tmp_path / "stderr", "--override", "disk.reserve.bytes=0")
    try:
        create_topic(broker.bootstrap, "filled")
        acked, _ = fill(OneShot(broker.bootstrap), "filled")
        patient = OneShot(broker.bootstrap, **{"retries": 1000, "enable.idempotence": True})

        filler.unlink()

        assert patient.send("filled", a_value(acked)) is None
        assert read_all(broker.bootstrap, "filled") == [a_value(n) for n in range(acked + 1)]
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_writes_that_fail_are_refused_and_leave_nothing_behind(tmp_path: Path) -> None:
    broker = start_up(tmp_path / "data", tmp_path / "stderr")
    try:
        create_topic(broker.bootstrap, "t")
        producer = OneShot(broker.bootstrap)
        assert producer.send("t", b"before") is None

        with failing_calls(broker.process.pid, WRITES, "EIO"):
            problem = producer.send("t", b"refused")
            assert problem is not None
            assert problem.code() == KafkaError.KAFKA_STORAGE_ERROR
            assert read_all(broker.bootstrap, "t") == [b"before"]

        assert producer.send("t", b"after") is None
        assert read_all(broker.bootstrap, "t") == [b"before", b"after"]
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_a_record_whose_fsync_failed_is_not_acknowledged_and_its_partition_comes_back(tmp_path: Path) -> None:
    """L8: with flush.messages=1 an acknowledgement means durable, so a failed fsync is a refusal."""
    broker = start_up(tmp_path / "data", tmp_path / "stderr")
    try:
        create_topic(broker.bootstrap, "t", configs={"flush.messages": "1"})
        create_topic(broker.bootstrap, "other")
        producer = OneShot(broker.bootstrap)
        assert producer.send("t", b"durable") is None
        assert producer.send("other", b"makes the files") is None

        with failing_calls(broker.process.pid, FSYNCS, "EIO"):
            problem = producer.send("t", b"in doubt")
            assert problem is not None
            assert ErrorCode(problem.code()).retriable, problem
            assert read_all(broker.bootstrap, "t")[:1] == [b"durable"]
            assert producer.send("other", b"needs no fsync") is None

        refused_until = time.monotonic() + 15
        while (problem := producer.send("t", b"later")) is not None:
            assert ErrorCode(problem.code()).retriable, problem
            assert time.monotonic() < refused_until, f"still refused by a disk that works\n{broker.errors}"
        values = read_all(broker.bootstrap, "t")
        assert (values[0], values[-1]) == (b"durable", b"later")
        assert broker.process.poll() is None
    finally:
        broker.kill()

    again = start_up(tmp_path / "data", tmp_path / "stderr")
    try:
        assert read_all(again.bootstrap, "t") == values
        assert OneShot(again.bootstrap).send("t", b"healed") is None
        assert again.stop() == 0
    finally:
        again.kill()
