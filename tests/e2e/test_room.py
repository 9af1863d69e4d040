"""Room behind the end of a log that grows fast: no reader sees it, no start or stop leaves it (L3, L10)."""

from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.cli.log_checks import check_segment
from tests import brokers
from tests.e2e.program import everlog

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not lanes_are_built(), reason="the kernels are not built, or EVERLOG_PURE_PYTHON is set"
    ),
]

_kafka: Any = import_module("confluent_kafka")
_VALUE = b"v" * 1000
_ROOM_BYTES = 256 << 10
_PLENTY = 4000
"""Records that take several times what a log must grow by to get room."""


class _Home:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.port = brokers.free_port()
        self.log = path / "data" / "orders-0" / f"{0:020d}.log"
        self.broker = self.start()

    def start(self) -> brokers.BrokerProcess:
        flags = ["up", "--dir", str(self._path / "data"), "--port", str(self.port)]
        self.broker = brokers.start(flags, self._path / "stderr")
        return self.broker

    def produce(self, count: int) -> None:
        producer = _kafka.Producer(
            {"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5, "batch.size": 32768}
        )
        failed: list[Any] = []

        def on_delivery(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(error)

        for number in range(count):
            producer.produce("orders", _VALUE, key=b"%d" % number, on_delivery=on_delivery)
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not failed

    def consumed(self) -> list[bytes]:
        consumer = _kafka.Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "g", "enable.partition.eof": True}
        )
        consumer.assign([_kafka.TopicPartition("orders", 0, 0)])
        keys: list[bytes] = []
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                assert message.error().code() == _kafka.KafkaError._PARTITION_EOF
                break
            keys.append(message.key())
        consumer.close()
        return keys

    def with_room(self) -> int:
        """Produce until the log has room behind its end; returns how many records it holds."""
        self.produce(_PLENTY - 1)
        self.produce(1)  # Many requests that came together need no room; one does.
        size = self.log.stat().st_size
        segment, findings = check_segment(str(self.log), lambda _: None, records=True)
        assert findings == []
        assert segment.room_at is not None, "the log has no room, so nothing is tested"
        assert size % _ROOM_BYTES == 0
        assert 0 < size - segment.room_at <= _ROOM_BYTES
        return segment.end_offset


@pytest.fixture
def home(tmp_path: Path) -> Generator[_Home]:
    home = _Home(tmp_path)
    yield home
    home.broker.kill()


def test_a_killed_broker_finds_every_record_before_the_room_and_says_nothing_of_it(home: _Home) -> None:
    assert home.with_room() == _PLENTY
    home.broker.kill()
    left = home.log.stat().st_size

    home.start()

    assert home.log.stat().st_size < left
    home.produce(10)
    assert home.consumed() == [b"%d" % number for number in (*range(_PLENTY - 1), 0, *range(10))]
    assert "cut off" not in home.broker.errors


def test_a_stopped_broker_leaves_no_room(home: _Home) -> None:
    home.with_room()

    assert home.broker.stop() == 0

    segment, _ = check_segment(str(home.log), lambda _: None, records=True)
    assert segment.room_at is None
    assert segment.end_offset == _PLENTY


def test_the_files_of_a_running_broker_are_found_whole(home: _Home) -> None:
    home.with_room()

    ran = everlog("log", "verify", str(home.log.parent), "--json")

    assert ran.code == 0, ran.err
    partition = ran.json["partitions"][0]
    assert partition["records"] == _PLENTY
    assert partition["bytes"] < home.log.stat().st_size
