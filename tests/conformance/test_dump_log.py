"""Row L3: Apache Kafka's own `kafka-dump-log` reads our files and finds nothing wrong with them."""

import random
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from everlog.metadata.records import encode_record
from everlog.model.ids import Offset, Uuid
from everlog.peers.address import Address
from everlog.raft.messages import Endpoint, ReplicaKey, SnapshotId
from everlog.raft.snapshots import file_name, snapshot_batches
from everlog.raft.voters import VoterSet
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec
from everlog.wire.messages.topic_record import TopicRecord
from tests import apache_kafka, brokers
from tests.conformance import checks, raw
from tests.conformance.clients import confluent

pytestmark = pytest.mark.conformance

_TOOL = "org.apache.kafka.tools.DumpLogSegments"
_COMPLAINT = re.compile(r"mismatch|out of order|isvalid: false|non-consecutive|error|exception|corrupt", re.I)
_BATCHES = 240
_RECORDS_A_BATCH = 15


@pytest.fixture(scope="module", autouse=True)
def _kafka_is_there() -> None:
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(f"kafka-dump-log: {jars.reason}")


@pytest.fixture(scope="module", params=["stopped", "killed and recovered"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """The log directory of a broker that wrote several segments with every codec, and has ended."""
    home = tmp_path_factory.mktemp("dump")
    broker = brokers.start_up(home / "data", home / "stderr")
    try:
        confluent.connect(broker.bootstrap).create_topic("orders", 2, {"segment.bytes": "1048576"})
        _fill(broker.bootstrap)
        _pay(broker.bootstrap)
        if request.param == "killed and recovered":
            broker.kill()
            broker = brokers.start_up(home / "data", home / "stderr")
            assert (
                raw.batches(broker.bootstrap, "orders", 0)[-1].last_offset + 1 == _BATCHES * _RECORDS_A_BATCH
            )
        assert broker.stop() == 0
        yield home / "data"
    finally:
        broker.kill()


def _fill(bootstrap: str) -> None:
    chance = random.Random(11)
    now = checks.now_ms()
    with raw.connected(bootstrap) as connection:
        producer_id, epoch = raw.init_producer_id(connection)
        for number in range(_BATCHES):
            records = [
                NewRecord(
                    b"key-%d" % number,
                    chance.randbytes(1000),
                    (("n", b"%d" % each),),
                    now + 50 * number + each,
                )
                for each in range(_RECORDS_A_BATCH)
            ]
            batch = build_batch(
                records,
                codec=Codec(number % 5),
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=number * _RECORDS_A_BATCH,
            )
            assert raw.produce(connection, "orders", bytes(batch)) == (0, number * _RECORDS_A_BATCH)


def _pay(bootstrap: str) -> None:
    """Write two transactions, of which the second is aborted."""
    confluent.connect(bootstrap).create_topic("payments", 1, {})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "cashier"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(3):
            producer.produce("payments", b"%d" % number, partition=0)
        producer.flush(30)
        end(30)


def _dump(files: list[Path], *flags: str) -> str:
    done = apache_kafka.run_tool(_TOOL, *flags, "--files", ",".join(map(str, files)))
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    for file in files:
        # It says this of every segment whose first offset is not 0, Kafka's own included.
        said = said.replace(
            f"Non-consecutive offsets in {file}\n  -1 is followed by {int(file.stem.partition('-')[0])}\n", ""
        )
    complaints = [line[:300] for line in said.splitlines() if _COMPLAINT.search(line)]
    assert not complaints, complaints[:10]
    return said


def _of(data: Path, suffix: str) -> list[Path]:
    return sorted((data / "orders-0").glob(f"*{suffix}"))


def test_every_batch_and_record_of_the_segments_is_read(data: Path) -> None:
    segments = _of(data, ".log")
    assert len(segments) > 2

    said = _dump(segments, "--deep-iteration")

    assert said.count("isvalid: true") == _BATCHES
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", said, re.M)]
    assert offsets == list(range(_BATCHES * _RECORDS_A_BATCH))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in said


def test_offset_indexes_point_at_the_batches(data: Path) -> None:
    indexes = _of(data, ".index")
    said = _dump(indexes)
    entries = [int(found) for found in re.findall(r"^offset: (\d+) position: \d+", said, re.M)]

    assert len(entries) > 100
    assert entries == sorted(entries)
    _dump(indexes, "--verify-index-only")
    assert _dump(indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)


def test_time_indexes_agree_with_the_records(data: Path) -> None:
    indexes = _of(data, ".timeindex")
    said = _dump(indexes)

    assert len(re.findall(r"^timestamp: \d+ offset: \d+", said, re.M)) > 100
    _dump(indexes, "--verify-index-only")
    assert _dump(indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)


def test_markers_of_transactions_and_the_index_of_aborted_ones_are_read(data: Path) -> None:
    said = _dump(sorted((data / "payments-0").glob("*.log")), "--deep-iteration")
    assert said.count("isTransactional: true") == 4, "two batches of records, and a marker behind each"
    assert re.findall(r"endTxnMarker: (\w+)", said) == ["COMMIT", "ABORT"]

    said = _dump(sorted((data / "payments-0").glob("*.txnindex")))
    assert re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", said) == [
        ("4", "7", "8")
    ], said


def test_producer_snapshots_hold_the_last_batch(data: Path) -> None:
    snapshots = _of(data, ".snapshot")
    assert snapshots

    said = _dump(snapshots)

    assert re.search(r"producerId: \d+ producerEpoch: 0", said), said
    assert f"lastSequence: {_BATCHES * _RECORDS_A_BATCH - 1}" in said


def test_the_metadata_log_holds_records_that_kafka_knows(data: Path) -> None:
    segment = sorted((data / "__cluster_metadata-0").glob("*.log"))

    said = _dump(segment, "--cluster-metadata-decoder")

    for kind in (
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
    ):
        assert f'"type":"{kind}"' in said, said[-3000:]
    assert '"name":"orders"' in said


def test_a_broken_file_does_not_go_unnoticed_by_this_test(data: Path, tmp_path: Path) -> None:
    """The tool must be able to complain, or its silence would mean nothing."""
    segment = tmp_path / _of(data, ".log")[0].name
    content = bytearray(_of(data, ".log")[0].read_bytes())
    content[5000] ^= 1
    segment.write_bytes(content)

    with pytest.raises(AssertionError):
        _dump([segment], "--deep-iteration")


def test_a_snapshot_of_the_metadata_log_is_one_that_kafka_knows(tmp_path: Path) -> None:
    snapshot = SnapshotId(Offset(152), 2)
    at = Endpoint("CONTROLLER", Address("127.0.0.1", 9093))
    voters = VoterSet([ReplicaKey(3, Uuid(bytes(range(16))))], endpoints={3: (at,)})
    topic = encode_record(TopicRecord(name="orders", topic_id=Uuid(bytes(range(1, 17)))))
    file = tmp_path / file_name(snapshot)
    file.write_bytes(b"".join(snapshot_batches(snapshot, [topic], 1_700_000_000_000, voters)))

    said = _dump([file], "--cluster-metadata-decoder")

    assert "Snapshot end offset: 152, epoch: 2" in said
    for word in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", '"type":"TOPIC_RECORD"', "SnapshotFooter"):
        assert word in said, said[-3000:]
