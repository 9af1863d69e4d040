"""L1: a broker without what pip could not compile: with asyncio's own loop, and without kernels."""

from collections.abc import Generator
from pathlib import Path
from typing import Literal

import pytest

from everlog import Consumer, ConsumerRecord, Producer
from tests import brokers
from tests.brokers import BrokerProcess
from tests.e2e.clients import OneShot, create_topic, read_all

pytestmark = pytest.mark.e2e

CODECS: tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...] = (
    "none",
    "gzip",
    "snappy",
    "lz4",
    "zstd",
)
RECORDS = 300
LARGE = 900_000


@pytest.fixture(params=["no-uvloop", "no-kernels", "neither"])
def without_uvloop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Processes that begin now lack one or both; whether it is uvloop."""
    if request.param != "no-kernels":
        (tmp_path / "absent").mkdir()
        (tmp_path / "absent" / "uvloop.py").write_text('raise ImportError("there is no uvloop")\n')
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "absent"))
    if request.param != "no-uvloop":
        monkeypatch.setenv("EVERLOG_PURE_PYTHON", "1")
    return bool(request.param != "no-kernels")


@pytest.fixture
def broker(without_uvloop: bool, tmp_path: Path) -> Generator[BrokerProcess]:
    process = brokers.start_up(tmp_path / "data", tmp_path / "errors")
    try:
        yield process
    finally:
        process.stop()


def test_all_codecs_and_large_requests_from_both_kinds_of_client(
    broker: BrokerProcess, without_uvloop: bool, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, "t", len(CODECS))
    values = [f"{number:05}".encode() * 7 for number in range(RECORDS)] + [b"x" * LARGE]
    for partition, codec in enumerate(CODECS):
        OneShot(broker.bootstrap, **{"compression.type": codec}).send_all(
            "t", [(partition, value) for value in values]
        )
        with Producer(broker.bootstrap, compression_type=codec) as producer:
            for value in values:
                producer.send("t", value, partition=partition)
    loaded = Path(f"/proc/{broker.process.pid}/maps").read_text()
    assert ("uvloop/" in loaded) is not without_uvloop

    broker.kill()
    again = brokers.start_up(tmp_path / "data", tmp_path / "errors")
    try:
        for partition in range(len(CODECS)):
            assert sorted(read_all(again.bootstrap, "t", partition)) == sorted(values * 2)
        with Consumer(again.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            seen = [record.value for record in _all_of(consumer, 2 * len(values) * len(CODECS))]
        assert sorted(value for value in seen if value) == sorted(values * 2 * len(CODECS))
    finally:
        assert again.stop() == 0


def test_transactions_hold(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "t", 1)
    with Producer(broker.bootstrap, transactional_id="t") as producer:
        producer.init_transactions()
        for number, ends in enumerate([producer.commit_transaction, producer.abort_transaction] * 3):
            producer.begin_transaction()
            producer.send("t", b"%d" % number, partition=0)
            ends()

    assert read_all(broker.bootstrap, "t") == [b"0", b"2", b"4"]


def _all_of(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    for _ in range(200):
        found += consumer.poll(0.5)
        if len(found) >= count:
            break
    return found
