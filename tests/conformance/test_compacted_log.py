"""Row L6: Kafka's own tools and clients read a log that we have compacted, and find nothing wrong with it."""

import random
import re
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec
from tests import apache_kafka, brokers
from tests.conformance import checks, raw
from tests.conformance.clients import confluent, kafka_python

pytestmark = pytest.mark.conformance

_TOOL = "org.apache.kafka.tools.DumpLogSegments"
_COMPLAINT = re.compile(r"mismatch|out of order|isvalid: false|error|exception|corrupt", re.I)
_KEYS = 40
_BATCHES = 400
_RECORDS_A_BATCH = 10
_LIMIT_S = 60.0


class Log:
    """A topic that was compacted, and what it must hold."""

    def __init__(self, data: Path, bootstrap: str, stop: Callable[[], int]) -> None:
        self.data = data
        self.bootstrap = bootstrap
        self.stop = stop
        self.expected: dict[bytes, bytes | None] = {}

    def fill(self) -> None:
        """Write every key many times, with every codec, as a producer with sequence numbers."""
        now, chance = checks.now_ms(), random.Random(3)
        with raw.connected(self.bootstrap) as connection:
            producer_id, epoch = raw.init_producer_id(connection)
            for number in range(_BATCHES):
                records: list[NewRecord] = []
                for each in range(_RECORDS_A_BATCH):
                    index = number * _RECORDS_A_BATCH + each
                    key = b"key-%d" % (index * 7 % _KEYS) if each else b"once-%d" % number
                    value = None if key == b"key-3" else chance.randbytes(900)
                    records.append(NewRecord(key, value, (("n", b"1"),), now + number))
                    self.expected[key] = value
                batch = build_batch(
                    records,
                    codec=Codec(number % 5),
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    base_sequence=number * _RECORDS_A_BATCH,
                )
                assert raw.produce(connection, "changes", bytes(batch))[0] == 0

    def wait(self, errors: Path) -> None:
        """Until the broker says that it has compacted the log."""
        deadline = time.monotonic() + _LIMIT_S
        while "changes-0 is compacted" not in errors.read_text():
            assert time.monotonic() < deadline, errors.read_text()[-2000:]
            time.sleep(0.05)

    def segments(self, suffix: str) -> list[Path]:
        """The files of one kind."""
        return sorted((self.data / "changes-0").glob(f"*{suffix}"))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Generator[Log]:
    home = tmp_path_factory.mktemp("compacted")
    errors = home / "stderr"
    broker = brokers.start_up(home / "data", errors, "--override", "log.cleaner.backoff.ms=200")
    try:
        configs = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
        confluent.connect(broker.bootstrap).create_topic(
            "changes", 1, {**configs, "cleanup.policy": "compact"}
        )
        made = Log(home / "data", broker.bootstrap, broker.stop)
        made.fill()
        made.wait(errors)
        yield made
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def stopped(log: Log) -> Log:
    """The same with its broker stopped: a running one may clean again while a tool reads."""
    log.stop()
    return log


def test_clients_see_the_last_value_of_every_key(log: Log) -> None:
    end = {0: _BATCHES * _RECORDS_A_BATCH}
    for library in (confluent, kafka_python):
        client = library.connect(log.bootstrap)
        try:
            read = client.consume("changes", end)
        finally:
            client.close()
        offsets = [record.offset for record in read]
        assert offsets == sorted(set(offsets))
        assert len(offsets) < _BATCHES * _RECORDS_A_BATCH
        assert {record.key: record.value for record in read} == log.expected


def test_kafkas_own_tool_reads_the_compacted_segments(stopped: Log) -> None:
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(f"kafka-dump-log: {jars.reason}")
    logs = stopped.segments(".log")

    said = _dump(logs, "--deep-iteration")
    assert "isvalid: true" in said
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", said), "the tombstones' batches have a horizon"
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", said, re.M)]
    assert offsets == sorted(set(offsets))
    assert 0 < len(offsets) < _BATCHES * _RECORDS_A_BATCH


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_kafkas_own_tool_finds_the_indexes_right(stopped: Log, suffix: str) -> None:
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(f"kafka-dump-log: {jars.reason}")
    # That of the last segment may be empty.
    indexes = stopped.segments(suffix)[: len(stopped.segments(".log")) - 1]

    _dump(indexes, "--verify-index-only")
    assert _dump(indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)


def _dump(files: list[Path], *flags: str) -> str:
    done = apache_kafka.run_tool(_TOOL, *flags, "--files", ",".join(map(str, files)))
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    complaints = [line[:300] for line in said.splitlines() if _COMPLAINT.search(line)]
    assert not complaints, complaints[:10]
    return said
