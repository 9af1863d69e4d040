"""Batches exchanged, byte for byte, with the record codecs of kafka-python and aiokafka (P3, L1).

The other side builds and we read; we build and the other side reads. Neither shares a line with ours.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaReader
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonReader
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec, decompress
from everlog.records.control import ControlType, Producer, build_control_batch, build_marker
from everlog.records.reader import Record, read_records
from everlog.records.skim import skim
from tests.unit.records.sections import NOON

# The two libraries are typed loosely or not at all.
Build = Callable[[int, Sequence[NewRecord]], bytes]
Foreign = tuple[Any, ...]

RECORDS = [
    NewRecord(b"key", b"value", [("trace", b"\x00\x01"), ("none", None)], NOON),
    NewRecord(None, b"x" * 3_000, (), NOON + 3),
    NewRecord(b"tombstone", None, (), NOON - 4),
    NewRecord(b"", b"", [("größe", b"")], NOON + 2),
    *(NewRecord(b"%d" % i, b"some text that is not the same %d " % i * 20, (), NOON + i) for i in range(300)),
]
SIMPLE = [NewRecord(b"key-%d" % i, b"value-%d" % i, (), NOON + i) for i in range(50)]
KAFKA_PYTHON_CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]


def by(builder_type: Any) -> Build:
    def build(codec: int, records: Sequence[NewRecord]) -> bytes:
        builder = builder_type(2, codec, True, 77, 5, 1_000, 1 << 24)
        for offset, record in enumerate(records):
            headers = [(name, content) for name, content in record.headers]
            assert builder.append(offset, record.timestamp, record.key, record.value, headers) is not None
        return bytes(builder.build())

    return build


def ours(codec: int, records: Sequence[NewRecord]) -> bytes:
    return bytes(
        build_batch(
            records,
            codec=Codec(codec),
            producer_id=77,
            producer_epoch=5,
            base_sequence=1_000,
            transactional=True,
            leader_epoch=0,
        )
    )


def expected(records: Sequence[NewRecord]) -> list[Record]:
    return [
        Record(offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for offset, record in enumerate(records)
    ]


def read_by(reader_type: Any, raw: bytes) -> list[Record]:
    reader = reader_type(raw)
    assert reader.validate_crc()
    return [
        Record(found.offset, found.timestamp, found.key, found.value, tuple(tuple(h) for h in found.headers))
        for found in reader
    ]


CASES = [
    *(
        pytest.param(KafkaPythonBuilder, KafkaPythonReader, c, id=f"kafka-python-{c.name}")
        for c in KAFKA_PYTHON_CODECS
    ),
    *(pytest.param(AiokafkaBuilder, AiokafkaReader, c, id=f"aiokafka-{c.name}") for c in Codec),
]


@pytest.mark.parametrize(("builder", "reader", "codec"), CASES)
def test_we_read_what_the_other_builds(builder: Any, reader: Any, codec: Codec) -> None:
    batch = batch_at(bytearray(by(builder)(codec, RECORDS)))

    assert batch.checksum_holds()
    assert batch.codec == codec
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 5, 1_000)
    assert read_records(batch) == expected(RECORDS)
    section = decompress(batch.codec, batch.records, 1 << 24)
    found = skim(section, batch.count, batch.base_timestamp)
    assert (found.max_timestamp, found.null_keys) == (batch.max_timestamp, True) == (NOON + 299, True)


@pytest.mark.parametrize(("builder", "reader", "codec"), CASES)
def test_the_other_reads_what_we_build(builder: Any, reader: Any, codec: Codec) -> None:
    assert read_by(reader, ours(codec, RECORDS)) == expected(RECORDS)


@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder], ids=["kafka-python", "aiokafka"])
def test_uncompressed_batches_are_the_same_bytes(builder: Any) -> None:
    theirs = bytearray(by(builder)(Codec.NONE, SIMPLE))
    batch_at(theirs).stamp(0, 0)  # They differ on the leader epoch, which is the broker's to set.

    assert theirs == ours(Codec.NONE, SIMPLE)


def test_kafka_python_tells_our_markers_apart() -> None:
    markers: dict[ControlType, Foreign] = {}
    for kind in (ControlType.COMMIT, ControlType.ABORT):
        reader: Any = KafkaPythonReader(
            bytes(build_marker(kind, Producer(5, 1), coordinator_epoch=2, timestamp=NOON))
        )
        (record,) = list(reader)
        markers[kind] = (reader.is_control_batch, reader.is_transactional, record.commit, record.abort)

    assert markers == {
        ControlType.COMMIT: (True, True, True, False),
        ControlType.ABORT: (True, True, False, True),
    }


def test_aiokafka_takes_our_leader_change_for_a_control_batch() -> None:
    reader: Any = AiokafkaReader(
        bytes(build_control_batch(ControlType.LEADER_CHANGE, b"\x00\x00", timestamp=NOON))
    )

    assert reader.is_control_batch
    assert not reader.is_transactional


GOLDEN = {
    # Written by kafka-python 3.0.12, lz4 with the content's size in the frame.
    "kafka-python-lz4": (
        "00000000000000000000007500000000020fa6ee4e0013000000020000018bcfe568000000018bcfe5680200"
        "0000000000004d0005000003e80000000304224d1868407b000000000000007e2d000000ff00500000000c67"
        "6f6c64656e306162630300029f0202680231500002022900142f040429000d50020268023100000000"
    ),
    # Written by aiokafka 0.14.0, lz4 with a checksum to each block.
    "aiokafka-lz4": (
        "000000000000000000000071ffffffff0270d076980013000000020000018bcfe568000000018bcfe5680200"
        "0000000000004d0005000003e80000000304224d187040ad2d000000ff00500000000c676f6c64656e306162"
        "630300029f0202680231500002022900142f040429000d5002026802317a6f553500000000"
    ),
    # Written by aiokafka 0.14.0, snappy in xerial's framing.
    "aiokafka-snappy": (
        "00000000000000000000006dffffffff0211a26a700012000000020000018bcfe568000000018bcfe5680200"
        "0000000000004d0005000003e80000000382534e41505059000000000100000001000000287b38500000000c"
        "676f6c64656e30616263520300240202680231500002020c962900040404922900"
    ),
}
GOLDEN_RECORDS = [
    NewRecord(b"golden", b"abcabcabcabcabcabcabcabc", [("h", b"1")], NOON + i) for i in range(3)
]


@pytest.mark.parametrize("name", GOLDEN)
def test_batches_kept_from_other_clients_are_still_read(name: str) -> None:
    batch = batch_at(bytearray.fromhex(GOLDEN[name]))

    assert batch.checksum_holds()
    assert read_records(batch) == expected(GOLDEN_RECORDS)
