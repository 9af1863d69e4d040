"""Walks over a segment file."""

from collections.abc import Callable

import pytest

from everlog.log import scan
from everlog.model.errors import CorruptDataError
from everlog.ports.files import File
from everlog.records.batch import BatchView
from everlog.sim.disk import SimFiles
from tests.unit.log.builders import a_batch, values

Walk = Callable[[File], list[int]]


def a_file(*pieces: bytes) -> File:
    files = SimFiles()
    files.make_dir("/d")
    file = files.open("/d/log", create=True)
    for piece in pieces:
        file.append((piece,))
    return file


def stamped(base_offset: int, count: int = 2, size: int = 20) -> bytes:
    return bytes(a_batch(values(count, size), base_offset=base_offset, leader_epoch=0).raw)


def walked(file: File) -> list[int]:
    return [header.base_offset for header in scan.headers(file, 0, file.size)]


def scanned(file: File) -> list[int]:
    return [batch.base_offset for _, batch in scan.batches(file, 0, file.size)]


def test_both_walks_find_all_batches_with_their_positions() -> None:
    pieces = [stamped(base) for base in range(0, 400, 2)]
    file = a_file(*pieces)
    positions = [sum(len(piece) for piece in pieces[:at]) for at in range(200)]
    assert [header.position for header in scan.headers(file, 0, file.size)] == positions
    assert [position for position, _ in scan.batches(file, 0, file.size)] == positions
    assert walked(file) == scanned(file) == list(range(0, 400, 2))


def test_batches_of_any_size_cross_the_bounds_of_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SCAN_BYTES", 257)
    pieces = [stamped(base, 1, size) for base, size in enumerate([1, 500, 3, 186, 1000, 50, 179, 7, 900, 1])]
    assert scanned(a_file(*pieces)) == list(range(10))


@pytest.mark.parametrize("walk", [walked, scanned])
def test_offsets_that_fall_back_are_damage(walk: Walk) -> None:
    assert walk(a_file(stamped(0), stamped(9))) == [0, 9]
    for second in (0, 1):
        with pytest.raises(CorruptDataError):
            walk(a_file(stamped(0), stamped(second)))


@pytest.mark.parametrize("walk", [walked, scanned])
@pytest.mark.parametrize("length", [0, -1, 48, 2**31 - 1, 10_000])
def test_a_length_that_no_batch_here_can_have_is_damage(walk: Walk, length: int) -> None:
    raw = bytearray(stamped(0))
    raw[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptDataError):
        walk(a_file(bytes(raw), stamped(2)))


def test_a_length_above_all_bounds_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MAX_BATCH_BYTES", 150)
    assert scanned(a_file(stamped(0, 1))) == [0]
    with pytest.raises(CorruptDataError, match="bytes"):
        scanned(a_file(stamped(0, 5)))


@pytest.mark.parametrize("walk", [walked, scanned])
def test_a_tail_too_short_for_a_batch_is_damage(walk: Walk) -> None:
    for size in (1, 11, 60, len(stamped(2)) - 1):
        with pytest.raises(CorruptDataError):
            walk(a_file(stamped(0), stamped(2)[:size]))


def test_more_records_than_offsets_are_damage() -> None:
    batch = BatchView(memoryview(bytearray(stamped(0))))
    batch.count = 3
    with pytest.raises(CorruptDataError):
        scan.prove(a_file(), 0, batch)
    batch.count = 0  # Compaction leaves such batches behind.
    scan.prove(a_file(), 0, batch)
