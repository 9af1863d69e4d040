"""Thousands of partitions on one broker: few descriptors, little memory, a quick restart (L11)."""

import os
import time
from pathlib import Path

import pytest

from tests.brokers import BrokerProcess, start_up
from tests.e2e.clients import OneShot, create_topic, read_all

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

TOPICS = 10
PARTITIONS = 500
MAX_OPEN_FILES = 512
# Sockets, the event loop, the standard streams.
OTHER_DESCRIPTORS = 64


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
        assert read_all(broker.bootstrap, "many-3", 321) == [b"one 321"]
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
            assert values == [b"one %d" % partition, b"two %d" % partition]
        assert broker.stop(180) == 0
    finally:
        broker.kill()
