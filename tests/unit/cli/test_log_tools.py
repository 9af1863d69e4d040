"""What `log dump` and `log verify` say about files, whole and damaged (L3, L10)."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.cli.log_checks import Finding, Segment, check_partition
from everlog.cli.log_files import (
    Damage,
    FileKind,
    Room,
    base_offset_of,
    batches_in,
    kind_of,
    offset_entries,
    producer_snapshot,
    time_entries,
)
from everlog.model.errors import ConfigError
from everlog.records.builder import NewRecord, build_batch
from everlog.records.crc import crc32c


def a_batch(base_offset: int, count: int = 2, timestamp: int = 1000) -> bytes:
    records = [NewRecord(b"k", b"value", (), timestamp)] * count
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=0))


BATCHES = [a_batch(0, timestamp=1000), a_batch(2, timestamp=3000), a_batch(4, timestamp=2000)]
SIZE = len(BATCHES[0])


def offset_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">II", *entry) for entry in entries)


def time_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qI", *entry) for entry in entries)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A sealed segment of three batches with right indexes, and an active one."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"".join(BATCHES))
    (directory / f"{0:020d}.index").write_bytes(offset_index((3, SIZE), (5, 2 * SIZE)))
    (directory / f"{0:020d}.timeindex").write_bytes(time_index((1000, 1), (3000, 3)))
    (directory / f"{6:020d}.log").write_bytes(a_batch(6))
    return directory


def check(directory: Path) -> tuple[list[Segment], list[Finding]]:
    return check_partition(str(directory), lambda _bytes: None, records=True)


def test_a_whole_partition_has_no_findings(partition: Path) -> None:
    segments, findings = check(partition)

    assert findings == []
    assert [(segment.base_offset, segment.end_offset, segment.records) for segment in segments] == [
        (0, 6, 6),
        (6, 8, 2),
    ]


def test_room_behind_the_last_batch_is_no_damage(partition: Path) -> None:
    path = partition / f"{6:020d}.log"
    path.write_bytes(path.read_bytes() + bytes(5000))

    segments, findings = check(partition)

    assert findings == []
    assert (segments[-1].size_bytes, segments[-1].room_at) == (SIZE, SIZE)
    assert list(batches_in(memoryview(path.read_bytes())))[1:] == [Room(SIZE, 5000)]


def leave_room_in_a_sealed_segment(partition: Path) -> None:
    path = partition / f"{0:020d}.log"
    path.write_bytes(path.read_bytes() + bytes(100))


def flip_last_byte_of_first_batch(partition: Path) -> None:
    path = partition / f"{0:020d}.log"
    raw = bytearray(path.read_bytes())
    raw[SIZE - 1] ^= 1
    path.write_bytes(raw)


def tear_the_tail(partition: Path) -> None:
    path = partition / f"{6:020d}.log"
    path.write_bytes(path.read_bytes()[:-5])


def repeat_offsets(partition: Path) -> None:
    (partition / f"{6:020d}.log").write_bytes(a_batch(6) + a_batch(7))


def overlap_segments(partition: Path) -> None:
    (partition / f"{5:020d}.log").write_bytes(b"")


def zero_a_length(partition: Path) -> None:
    path = partition / f"{0:020d}.log"
    raw = bytearray(path.read_bytes())
    raw[SIZE + 8 : SIZE + 12] = bytes(4)
    path.write_bytes(raw)


def point_between_batches(partition: Path) -> None:
    (partition / f"{0:020d}.index").write_bytes(offset_index((3, SIZE + 1)))


def point_to_a_later_batch(partition: Path) -> None:
    (partition / f"{0:020d}.index").write_bytes(offset_index((1, SIZE)))


def put_entries_out_of_order(partition: Path) -> None:
    (partition / f"{0:020d}.index").write_bytes(offset_index((5, 2 * SIZE), (3, SIZE)))


def cut_an_entry(partition: Path) -> None:
    (partition / f"{0:020d}.index").write_bytes(offset_index((3, SIZE))[:-1])


def remove_an_index(partition: Path) -> None:
    (partition / f"{0:020d}.timeindex").unlink()


def understate_a_time(partition: Path) -> None:
    (partition / f"{0:020d}.timeindex").write_bytes(time_index((1000, 1), (2000, 3)))


def point_times_beyond_the_end(partition: Path) -> None:
    (partition / f"{0:020d}.timeindex").write_bytes(time_index((3000, 77)))


def damage_a_snapshot(partition: Path) -> None:
    (partition / f"{6:020d}.snapshot").write_bytes(bytes(10))


@pytest.mark.parametrize(
    ("damage", "file", "words"),
    [
        (flip_last_byte_of_first_batch, f"{0:020d}.log", "checksum"),
        (leave_room_in_a_sealed_segment, f"{0:020d}.log", "only the last segment"),
        (tear_the_tail, f"{6:020d}.log", "torn tail"),
        (repeat_offsets, f"{6:020d}.log", "begins at offset 7, expected 8"),
        (overlap_segments, f"{5:020d}.log", "ends at offset 6"),
        (zero_a_length, f"{0:020d}.log", "not a batch"),
        (point_between_batches, f"{0:020d}.index", "no batch begins"),
        (point_to_a_later_batch, f"{0:020d}.index", "the batch begins with offset 2"),
        (put_entries_out_of_order, f"{0:020d}.index", "expected both to rise"),
        (cut_an_entry, f"{0:020d}.index", "multiple of 8"),
        (remove_an_index, f"{0:020d}.timeindex", "missing"),
        (understate_a_time, f"{0:020d}.timeindex", "expected 3000"),
        (point_times_beyond_the_end, f"{0:020d}.timeindex", "behind the segment's end"),
        (damage_a_snapshot, f"{6:020d}.snapshot", "version is 0"),
    ],
)
def test_each_kind_of_damage_is_found_and_named(
    partition: Path, damage: Callable[[Path], None], file: str, words: str
) -> None:
    damage(partition)

    _, findings = check(partition)

    assert any(finding.path.endswith(file) and words in finding.problem for finding in findings), findings


def test_a_batch_that_ends_behind_the_last_offset_is_a_finding(partition: Path) -> None:
    """Offsets lie outside of the checksum, so rot may bring any."""
    path = partition / f"{6:020d}.log"
    path.write_bytes(struct.pack(">q", 2**63 - 1) + a_batch(6)[8:])

    _, findings = check(partition)

    assert [(finding.path, finding.position) for finding in findings] == [(str(path), 0)]
    assert "ends behind offset 9223372036854775807" in findings[0].problem


def test_the_walk_goes_on_behind_a_batch_with_a_wrong_checksum() -> None:
    raw = bytearray(b"".join(BATCHES))
    raw[SIZE - 1] ^= 1

    found = list(batches_in(memoryview(raw)))

    assert [entry[0] for entry in found if isinstance(entry, tuple)] == [0, SIZE, 2 * SIZE]
    assert [entry.position for entry in found if isinstance(entry, Damage)] == [0]


def test_zeros_that_kafka_writes_ahead_are_no_entries() -> None:
    ahead = bytes(120)

    assert offset_entries(memoryview(offset_index((3, 80)) + ahead), 10) == [(13, 80)]
    assert offset_entries(memoryview(ahead), 10) == []
    assert time_entries(memoryview(time_index((1000, 1)) + ahead), 10) == [(1000, 11)]
    assert time_entries(memoryview(ahead), 10) == []


def test_a_snapshot_is_read_as_kafka_writes_it() -> None:
    entry = struct.pack(">qhiqiqiq", 7, 1, 41, 99, 4, 1000, 0, -1)
    body = struct.pack(">i", 1) + entry
    raw = struct.pack(">hI", 1, crc32c(body)) + body

    snapshot = producer_snapshot(memoryview(raw))

    assert snapshot.problem is None
    assert (snapshot.entries[0].producer_id, snapshot.entries[0].last_sequence) == (7, 41)
    assert producer_snapshot(memoryview(raw[:-1])).problem is not None
    assert producer_snapshot(memoryview(b"")).problem is not None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{5:020d}.log", FileKind.SEGMENT),
        (f"{5:020d}.log.deleted", FileKind.SEGMENT),
        (f"{5:020d}.index", FileKind.OFFSET_INDEX),
        (f"{5:020d}.timeindex", FileKind.TIME_INDEX),
        (f"{5:020d}.txnindex", FileKind.TXN_INDEX),
        (f"{5:020d}.snapshot", FileKind.PRODUCER_SNAPSHOT),
        (f"{5:020d}-{1:010d}.checkpoint", FileKind.SEGMENT),
        ("leader-epoch-checkpoint", FileKind.TEXT),
        ("meta.properties", FileKind.TEXT),
    ],
)
def test_files_are_known_by_their_names(name: str, kind: FileKind) -> None:
    assert kind_of(f"/data/{name}") is kind
    assert base_offset_of(name) == (5 if name.startswith("0") else 0)


def test_a_file_of_nobody_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a file of a log"):
        kind_of("notes.txt")
