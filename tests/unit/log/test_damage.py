"""Bits that flip at rest are found before a byte reaches a client."""

from dataclasses import replace

import pytest

from everlog.model.errors import CorruptDataError, Refused
from everlog.model.ids import Offset, Timestamp
from everlog.records.batch import batch_at
from everlog.records.reader import Record, read_records
from tests.unit.log.builders import NOON, PATH, SMALL, Machine, a_batch, records_of, values


def a_stopped_machine() -> Machine:
    """Three segments and a bit, stopped cleanly and started again; nothing is read yet."""
    machine = Machine()
    for at in range(25):
        machine.clock.advance(10)
        machine.append(
            a_batch(values(3, tag=f"{at}/"), timestamp=machine.clock.wall(), step_ms=1), epoch=at // 10
        )
    machine.stop()
    return machine


def segments(machine: Machine) -> list[str]:
    return [f"{PATH}/{name}" for name in machine.files.names(PATH) if name.endswith(".log")]


REFERENCE = a_stopped_machine()
RECORDS = records_of(REFERENCE.log)
BATCH_BYTES = REFERENCE.log.size // 25


@pytest.mark.parametrize("segment", [0, 1, -1])
@pytest.mark.parametrize("batch", [0, -1])
def test_a_flipped_bit_in_a_log_never_reaches_a_reader(segment: int, batch: int) -> None:
    for position in range(BATCH_BYTES):
        machine = a_stopped_machine()
        path = segments(machine)[segment]
        start = 0 if batch == 0 else machine.files.size(path) - BATCH_BYTES
        machine.files.flip_bit(path, start + position, position % 8)
        found: list[Record] = []
        damaged = 0
        for offset in range(0, 75, 3):
            try:
                piece = machine.log.read(Offset(offset), BATCH_BYTES, machine.log.end_offset)
                found += [] if piece is None else read_records(batch_at(piece.read()))
            except (CorruptDataError, Refused):
                damaged += 1
        assert damaged or machine.log.report.below_recovery_point, position
        assert [record for record in found if record not in RECORDS] == []


@pytest.mark.parametrize("position", [0, 1, 6, 7, 12, 14, 15])
def test_fields_outside_the_checksum_are_proved_by_what_lies_around_them(position: int) -> None:
    for bit in range(8):
        for batch in (0, 3, 5):
            machine = a_stopped_machine()
            machine.files.flip_bit(segments(machine)[0], batch * BATCH_BYTES + position, bit)
            with pytest.raises(CorruptDataError):
                machine.log.read(Offset(batch * 3), BATCH_BYTES, machine.log.end_offset)


def test_a_batch_that_was_proved_is_not_proved_again() -> None:
    machine = a_stopped_machine()
    assert records_of(machine.log) == RECORDS
    # No checksum is looked at any more, which is what makes the second read as fast as sendfile.
    machine.files.flip_bit(segments(machine)[0], BATCH_BYTES - 1, 0)
    assert machine.log.read(Offset(0), 10_000, machine.log.end_offset) is not None


def test_what_this_process_appended_needs_no_proof() -> None:
    machine = Machine()
    machine.fill(3)
    machine.files.flip_bit(segments(machine)[0], machine.log.size - 1, 0)
    assert machine.log.read(Offset(0), 10_000, machine.log.end_offset) is not None


def test_the_batches_around_a_damaged_one_are_still_read() -> None:
    machine = a_stopped_machine()
    machine.files.flip_bit(segments(machine)[0], 2 * BATCH_BYTES + 100, 0)
    first = machine.log.read(Offset(0), 2 * BATCH_BYTES, machine.log.end_offset)
    assert first is not None
    assert first.length == 2 * BATCH_BYTES
    later = machine.log.read(Offset(9), BATCH_BYTES, machine.log.end_offset)
    assert later is not None


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_flipped_bit_in_an_index_costs_time_and_no_answer(suffix: str) -> None:
    size = REFERENCE.files.size(segments(REFERENCE)[0].replace(".log", suffix))
    assert size > 0
    for position in range(size):
        machine = a_stopped_machine()
        machine.files.flip_bit(segments(machine)[0].replace(".log", suffix), position, position % 8)
        for start in range(0, 40, 5):
            piece = machine.log.read(Offset(start), 2 * BATCH_BYTES, machine.log.end_offset)
            assert piece is not None
        assert records_of(machine.log) == RECORDS
        for record in RECORDS[:30:4]:
            found = machine.log.offset_for_time(Timestamp(record.timestamp), machine.log.end_offset)
            assert found is not None
            assert found.offset == record.offset


def test_a_mended_index_is_on_disk_for_the_next_start() -> None:
    machine = a_stopped_machine()
    path = segments(machine)[0].replace(".log", ".index")
    before = machine.files.read(path)
    machine.files.unlink(path)
    records_of(machine.log)
    assert machine.files.read(path) == before


def test_a_full_disk_does_not_keep_a_reader_from_a_log_whose_index_is_lost() -> None:
    machine = a_stopped_machine()
    machine.files.unlink(segments(machine)[0].replace(".log", ".index"))
    machine.files.quota_bytes = 0
    assert records_of(machine.log) == RECORDS


@pytest.mark.parametrize(
    "content",
    [b"", b"0\n", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0 0", b"0\n1\nx 0\n", b"0\n2\n0 9\n1 3\n", b"\xff\n"],
)
def test_epochs_are_made_anew_from_the_log_where_their_checkpoint_is_damaged(content: bytes) -> None:
    machine = a_stopped_machine()
    path = f"{PATH}/leader-epoch-checkpoint"
    machine.files.unlink(path)
    file = machine.files.open(path, create=True)
    file.append((content,))
    file.close()
    assert machine.log.epochs.entries == [(0, 0), (1, 30), (2, 60)]
    assert records_of(machine.log) == RECORDS


def test_an_epoch_checkpoint_that_disagrees_with_a_batch_stops_the_read() -> None:
    machine = a_stopped_machine()
    path = f"{PATH}/leader-epoch-checkpoint"
    raw = machine.files.read(path)
    machine.files.flip_bit(path, raw.index(b"1 30") + 2, 0)
    with pytest.raises(CorruptDataError):
        records_of(machine.log)


def test_retention_does_not_believe_a_time_index_that_lies() -> None:
    settings = replace(SMALL, retention_ms=10_000_000)
    machine = Machine(settings)
    machine.fill(12)
    machine.stop()
    path = segments(machine)[0].replace(".log", ".timeindex")
    last_entry = machine.files.size(path) - 12
    machine.files.flip_bit(path, last_entry + 4, 7)
    machine.files.flip_bit(path, last_entry + 3, 0)
    machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
    assert machine.log.start_offset == 0
    assert machine.clock.wall() == NOON
