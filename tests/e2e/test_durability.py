"""Rows L8, L10, P4, R4: what was acknowledged is there after any end of the process.

A killed process loses nothing that it handed to the page cache, so these tests are about the broker's own
state: torn files, producer state, metadata. Power loss is the business of the simulated disk.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from everlog.records.builder import NewRecord, build_batch
from tests import brokers
from tests.conformance import raw
from tests.conformance.clients import confluent, kafka_python

pytestmark = pytest.mark.e2e

_kafka: Any = import_module("confluent_kafka")
_PARTITIONS = 3


class Home:
    """A data directory and the broker that serves it, on the same port in every life."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._port = brokers.free_port()
        self.broker = self._start()

    def _start(self) -> brokers.BrokerProcess:
        flags = ["up", "--dir", str(self._path / "data"), "--port", str(self._port)]
        return brokers.start(flags, self._path / "stderr")

    def kill_and_restart(self) -> None:
        self.broker.kill()
        self.broker = self._start()

    def stop_and_restart(self) -> None:
        assert self.broker.stop() == 0, self.broker.errors
        self.broker = self._start()

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap


@pytest.fixture
def home(tmp_path: Path) -> Generator[Home]:
    home = Home(tmp_path)
    yield home
    home.broker.kill()


class Load:
    """Writes numbered records to all partitions until told to stop, and notes what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, idempotent: bool) -> None:
        self.acked: dict[tuple[int, int], bytes] = {}
        self.sent: defaultdict[int, list[bytes]] = defaultdict(list)
        self._topic = topic
        self._producer: Any = _kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": -1,
                "enable.idempotence": idempotent,
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            partition = number % _PARTITIONS
            value = b"%d" % number
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            self.sent[partition].append(value)
            number += 1
            self._producer.poll(0)
            if number % 10 == 0:
                # A few thousand a second: what counts is that some are always on their way.
                self._stop.wait(0.002)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked[message.partition(), message.offset()] = message.value()

    def wait_for_acks(self, count: int, timeout_s: float = 60.0) -> None:
        """Return once `count` more records have been acknowledged."""
        goal = len(self.acked) + count
        deadline = time.monotonic() + timeout_s
        while len(self.acked) < goal:
            assert time.monotonic() < deadline, f"{len(self.acked)} of {goal} acknowledged"
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop writing and wait until all that was written has been acknowledged."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(30) == 0


def _stored(home: Home, topic: str, ends: dict[int, int]) -> dict[tuple[int, int], bytes | None]:
    read = confluent.connect(home.bootstrap).consume(topic, ends)
    return {(record.partition, record.offset): record.value for record in read}


def _ends(home: Home, topic: str) -> dict[int, int]:
    client = confluent.connect(home.bootstrap)
    return {number: client.list_offset(topic, number, "latest") for number in range(_PARTITIONS)}


def test_a_killed_broker_has_all_that_it_acknowledged_and_no_record_twice(
    home: Home, fresh_topic: Callable[[], str]
) -> None:
    topic = fresh_topic()
    confluent.connect(home.bootstrap).create_topic(topic, _PARTITIONS, {"segment.bytes": "1048576"})
    load = Load(home.bootstrap, topic, idempotent=True)
    for _ in range(3):
        load.wait_for_acks(1_500)
        home.kill_and_restart()
    load.wait_for_acks(500)
    load.stop()

    stored = _stored(home, topic, _ends(home, topic))

    assert load.acked.items() <= stored.items()
    for partition, sent in load.sent.items():
        kept = [stored[partition, offset] for offset in range(len(sent))]
        assert kept == sent, f"partition {partition} lost, repeated or reordered records"


def test_sigterm_under_load_ends_with_0_and_keeps_what_was_acknowledged(
    home: Home, fresh_topic: Callable[[], str]
) -> None:
    topic = fresh_topic()
    confluent.connect(home.bootstrap).create_topic(topic, _PARTITIONS, {})
    load = Load(home.bootstrap, topic, idempotent=True)
    load.wait_for_acks(1_000)

    home.stop_and_restart()
    load.wait_for_acks(100)
    load.stop()

    stored = _stored(home, topic, _ends(home, topic))
    assert load.acked.items() <= stored.items()
    assert len(stored) == sum(len(sent) for sent in load.sent.values())


@pytest.mark.parametrize("ended", ["killed", "stopped"])
def test_topics_their_ids_and_their_configs_survive(
    home: Home, ended: str, fresh_topic: Callable[[], str]
) -> None:
    kept, dropped = fresh_topic(), fresh_topic()
    client = confluent.connect(home.bootstrap)
    client.create_topic(kept, 2, {"retention.ms": "7200000"})
    client.create_topic(dropped, 1, {})
    client.add_partitions(kept, 4)
    client.alter_config(kept, "segment.bytes", "2097152")
    client.delete_topic(dropped)
    before = _identity(home, kept)

    if ended == "killed":
        home.kill_and_restart()
    else:
        home.stop_and_restart()

    assert _identity(home, kept) == before
    client = confluent.connect(home.bootstrap)
    assert [partition.partition for partition in client.describe_topic(kept)] == [0, 1, 2, 3]
    configs = client.describe_config(kept)
    assert (configs["retention.ms"], configs["segment.bytes"]) == ("7200000", "2097152")
    assert dropped not in _topics(home)


def _identity(home: Home, topic: str) -> tuple[str, str]:
    admin: Any = import_module("kafka.admin").KafkaAdminClient(bootstrap_servers=home.bootstrap)
    try:
        (seen,) = admin.describe_topics([topic])
        return str(seen["topic_id"]), str(admin.describe_cluster()["cluster_id"])
    finally:
        admin.close()


def _topics(home: Home) -> list[str]:
    admin: Any = import_module("kafka.admin").KafkaAdminClient(bootstrap_servers=home.bootstrap)
    try:
        names: list[str] = admin.list_topics()
        return names
    finally:
        admin.close()


def test_a_batch_sent_again_after_a_crash_is_acknowledged_and_not_kept_twice(
    home: Home, fresh_topic: Callable[[], str]
) -> None:
    """Row P4: the acknowledgement was lost with the broker, so the producer sends the same bytes again."""
    topic = fresh_topic()
    confluent.connect(home.bootstrap).create_topic(topic, 1, {})
    with raw.connected(home.bootstrap) as connection:
        producer_id, epoch = raw.init_producer_id(connection)
        sent = [_batch(producer_id, epoch, sequence) for sequence in (0, 3, 6)]
        assert [raw.produce(connection, topic, batch) for batch in sent] == [(0, 0), (0, 3), (0, 6)]

    home.kill_and_restart()

    with raw.connected(home.bootstrap) as connection:
        assert [raw.produce(connection, topic, batch) for batch in sent] == [(0, 0), (0, 3), (0, 6)]
        assert raw.produce(connection, topic, _batch(producer_id, epoch, 9)) == (0, 9)
        out_of_order, _ = raw.produce(connection, topic, _batch(producer_id, epoch, 15))
        assert out_of_order == 45
        assert raw.init_producer_id(connection)[0] > producer_id
    assert [batch.base_offset for batch in raw.batches(home.bootstrap, topic, 0)] == [0, 3, 6, 9]


def _batch(producer_id: int, epoch: int, sequence: int) -> bytes:
    now = time.time_ns() // 1_000_000
    records = [NewRecord(None, b"%d" % (sequence + number), (), now) for number in range(3)]
    return bytes(build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def test_a_second_broker_on_the_same_directory_refuses_to_start(home: Home, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=str(tmp_path / "data")):
        brokers.start_up(tmp_path / "data", tmp_path / "second")

    assert kafka_python.connect(home.bootstrap).describe_cluster().nodes


def test_a_torn_tail_is_cut_and_writing_goes_on(
    home: Home, fresh_topic: Callable[[], str], tmp_path: Path
) -> None:
    """Row L10: half a batch at the end of a file, as a crash of the machine may leave it, is never served."""
    topic = fresh_topic()
    confluent.connect(home.bootstrap).create_topic(topic, 1, {})
    with raw.connected(home.bootstrap) as connection:
        producer_id, epoch = raw.init_producer_id(connection)
        assert raw.produce(connection, topic, _batch(producer_id, epoch, 0)) == (0, 0)
    home.broker.kill()
    segment = tmp_path / "data" / f"{topic}-0" / f"{0:020}.log"
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[:40])

    home.kill_and_restart()

    with raw.connected(home.bootstrap) as connection:
        assert raw.produce(connection, topic, _batch(producer_id, epoch, 3)) == (0, 3)
    assert [batch.base_offset for batch in raw.batches(home.bootstrap, topic, 0)] == [0, 3]
