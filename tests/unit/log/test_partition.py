"""One partition's log in use: offsets, rolling, reading (L1, L3, L4)."""

from dataclasses import replace

import pytest

from everlog.log.partition import Origin
from everlog.log.settings import LogSettings
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Offset
from everlog.records.batch import whole_batches
from everlog.sim.faults import Fault, Kind, Moment, Operation
from tests.unit.log.builders import (
    NOON,
    ORDERS,
    PATH,
    SMALL,
    Machine,
    a_batch,
    records_of,
    values,
    values_of,
)

DAY_MS = 24 * 3600 * 1000


def test_offsets_are_sequential_and_stamped_into_the_batch() -> None:
    machine = Machine()

    first = machine.append(a_batch(values(3)), epoch=4)
    second = machine.append(a_batch(values(2)), epoch=4)

    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 4)
    piece = machine.log.read(Offset(0), 10_000, Offset(5))
    assert piece is not None
    assert [(b.base_offset, b.leader_epoch) for b in whole_batches(piece.read())] == [(0, 4), (3, 4)]


def test_the_bytes_on_disk_are_those_that_came_but_for_the_stamp() -> None:
    machine = Machine()
    batch = a_batch(values(3))
    sent = bytes(batch.raw)

    machine.append(batch, epoch=7)

    kept = machine.files.read(f"{PATH}/00000000000000000000.log")
    assert kept[8:12] == sent[8:12]
    assert kept[16:] == sent[16:]


def test_segments_are_named_by_their_base_offset_in_twenty_digits() -> None:
    machine = Machine()
    machine.fill(20)

    bases = [int(name[:20]) for name in machine.files.names(PATH) if name.endswith(".log")]

    assert len(bases) > 2
    assert bases[0] == 0
    for base in bases[1:]:
        piece = machine.log.read(Offset(base), 1, machine.log.end_offset)
        assert piece is not None
        assert piece.position == 0
        assert piece.file.path.endswith(f"/{base:020d}.log")


def test_a_segment_rolls_before_it_would_grow_beyond_its_size() -> None:
    machine = Machine()
    machine.fill(40)

    sizes = [machine.files.size(f"{PATH}/{n}") for n in machine.files.names(PATH) if n.endswith(".log")]

    assert max(sizes) <= SMALL.segment_bytes
    assert min(sizes[:-1]) > SMALL.segment_bytes - 200


def test_a_batch_that_fits_no_segment_is_refused() -> None:
    machine = Machine()
    with pytest.raises(Refused) as refused:
        machine.append(a_batch([bytes(2000)]))
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert machine.log.end_offset == 0


def test_a_segment_rolls_when_a_batch_is_so_much_newer_than_its_first() -> None:
    machine = Machine(replace(SMALL, segment_ms=1000))
    machine.append(a_batch(timestamp=NOON))
    machine.append(a_batch(timestamp=NOON + 1000))
    assert machine.log.segment_count == 1

    machine.append(a_batch(timestamp=NOON + 1001))

    assert machine.log.segment_count == 2


def test_a_segment_without_timestamps_rolls_by_the_brokers_clock() -> None:
    machine = Machine(replace(SMALL, segment_ms=1000))
    machine.append(a_batch(timestamp=-1))
    machine.clock.advance(1000)
    machine.append(a_batch(timestamp=-1))
    assert machine.log.segment_count == 1

    machine.clock.advance(1)
    machine.append(a_batch(timestamp=-1))

    assert machine.log.segment_count == 2


def test_the_age_of_a_segment_survives_a_restart() -> None:
    machine = Machine(replace(SMALL, segment_ms=1000))
    machine.append(a_batch(timestamp=NOON))
    machine.stop()
    machine.append(a_batch(timestamp=NOON + 1001))
    assert machine.log.segment_count == 2


def test_jitter_takes_some_of_a_segments_age_off() -> None:
    machine = Machine(replace(SMALL, segment_ms=DAY_MS, segment_jitter_ms=DAY_MS))
    machine.append(a_batch(timestamp=NOON))
    machine.clock.advance(DAY_MS - 1)
    machine.append(a_batch(timestamp=NOON + DAY_MS - 1))
    assert machine.log.segment_count == 2


def test_a_segment_rolls_when_its_index_is_full() -> None:
    machine = Machine(LogSettings(index_interval_bytes=0, segment_index_bytes=60))
    machine.fill(6)
    assert machine.log.segment_count == 2
    assert machine.files.size(f"{PATH}/00000000000000000000.index") <= 60
    assert machine.files.size(f"{PATH}/00000000000000000000.timeindex") <= 60


def test_a_segment_rolls_before_an_offset_is_too_far_from_its_base() -> None:
    machine = Machine(replace(SMALL, cleanup_compact=True))
    machine.append(a_batch(base_offset=0, leader_epoch=0), origin=Origin.REPLICA)
    far = (1 << 31) + 5

    machine.append(a_batch(base_offset=far, leader_epoch=0), origin=Origin.REPLICA)

    assert machine.log.segment_count == 2
    assert [record.offset for record in records_of(machine.log)] == [0, far]
    machine.kill()
    assert [record.offset for record in records_of(machine.log)] == [0, far]


def test_a_read_returns_whole_batches_up_to_its_limit() -> None:
    machine = Machine(LogSettings(index_interval_bytes=200))
    machine.fill(30)
    batch_bytes = machine.log.size // 30

    for count in range(1, 12):
        piece = machine.log.read(Offset(6), batch_bytes * count + batch_bytes // 2, machine.log.end_offset)
        assert piece is not None
        batches = list(whole_batches(piece.read()))
        assert [batch.base_offset for batch in batches] == [6 + 3 * at for at in range(count)]
        assert sum(batch.size for batch in batches) == piece.length


def test_a_first_batch_above_the_limit_is_returned_only_if_asked_for() -> None:
    machine = Machine()
    machine.fill(2)
    first = machine.log.read(Offset(0), 1, machine.log.end_offset, at_least_one=True)
    assert first is not None
    assert [batch.base_offset for batch in whole_batches(first.read())] == [0]
    assert machine.log.read(Offset(0), 1, machine.log.end_offset, at_least_one=False) is None


@pytest.mark.parametrize("end", range(8))
def test_nothing_at_or_above_the_end_offset_is_returned(end: int) -> None:
    machine = Machine()
    machine.fill(3, records=2)
    piece = machine.log.read(Offset(0), 10_000, Offset(end))
    batches = [] if piece is None else list(whole_batches(piece.read()))
    assert len(batches) == min(end // 2, 3)


def test_a_read_in_the_middle_of_a_batch_begins_with_that_batch() -> None:
    machine = Machine()
    machine.fill(3, records=4)
    piece = machine.log.read(Offset(6), 1, machine.log.end_offset)
    assert piece is not None
    assert next(whole_batches(piece.read())).base_offset == 4


def test_offsets_outside_the_log_are_out_of_range_and_its_end_is_not() -> None:
    machine = Machine()
    machine.fill(4)
    machine.log.move_start_to(Offset(5))

    assert machine.log.read(machine.log.end_offset, 100, machine.log.end_offset) is None
    for offset in (4, 13, -1):
        with pytest.raises(Refused) as refused:
            machine.log.read(Offset(offset), 100, machine.log.end_offset)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_every_offset_is_found_from_every_place() -> None:
    machine = Machine()
    machine.fill(40)
    for start in range(0, machine.log.end_offset, 7):
        found = records_of(machine.log, start)
        assert [record.offset for record in found] == list(range(start, machine.log.end_offset))


def test_a_gap_that_compaction_left_is_stepped_over() -> None:
    machine = Machine(replace(SMALL, cleanup_compact=True))
    for base in (0, 10, 50):
        machine.append(a_batch(values(2), base_offset=base, leader_epoch=0), origin=Origin.REPLICA)
        machine.log.roll()
    assert [record.offset for record in records_of(machine.log, 5)] == [10, 11, 50, 51]


def test_a_replicas_batch_keeps_offset_and_epoch_and_must_follow() -> None:
    machine = Machine()
    machine.append(a_batch(values(3), base_offset=0, leader_epoch=3), epoch=9, origin=Origin.REPLICA)
    assert machine.log.epochs.latest == 3

    for base, epoch in ((2, 3), (3, 2)):
        with pytest.raises(Refused):
            machine.append(a_batch(base_offset=base, leader_epoch=epoch), origin=Origin.REPLICA)
    damaged = a_batch(base_offset=3, leader_epoch=3)
    damaged.raw[-1] ^= 1
    with pytest.raises(Refused) as refused:
        machine.append(damaged, origin=Origin.REPLICA)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert machine.log.end_offset == 3


def test_a_full_disk_refuses_the_append_and_changes_nothing_and_passes() -> None:
    machine = Machine()
    machine.fill(3)
    before = values_of(machine.log)
    machine.files.faults.append(Fault(Kind.APPEND, 28, path_part=".log", after_bytes=10))

    with pytest.raises(StorageError) as refused:
        machine.fill(1)

    assert refused.value.retriable
    assert values_of(machine.log) == before
    assert machine.log.end_offset == 9
    machine.files.faults.clear()
    machine.fill(1)
    assert machine.log.end_offset == 12
    machine.kill()
    assert len(values_of(machine.log)) == 12


def test_a_roll_that_a_full_disk_stops_leaves_the_log_as_it_was() -> None:
    for kind, part in ((Kind.CREATE, ".log"), (Kind.APPEND, ".snapshot"), (Kind.APPEND, "index")):
        machine = Machine()
        machine.fill(5)
        machine.files.faults.append(Fault(kind, 28, path_part=part))
        with pytest.raises(StorageError):
            machine.log.roll()
        assert machine.log.segment_count == 1
        machine.append(a_batch())
        machine.files.faults.clear()
        machine.log.roll()
        machine.append(a_batch())
        assert machine.log.segment_count == 2
        machine.stop()
        assert [record.offset for record in records_of(machine.log)] == list(range(17))


def test_a_file_that_cannot_be_cut_back_ends_the_appends_and_not_the_reads() -> None:
    machine = Machine()
    machine.fill(2)
    machine.files.faults.append(Fault(Kind.APPEND, 5, path_part=".log", after_bytes=10, times=1))
    machine.files.faults.append(Fault(Kind.CUT_BACK, 5, path_part=".log"))
    with pytest.raises(StorageError):
        machine.fill(1)
    machine.files.faults.clear()

    assert machine.log.failure is not None
    with pytest.raises(StorageError):
        machine.fill(1)
    assert len(values_of(machine.log)) == 6

    log = machine.directory.reopen(ORDERS)
    assert log.end_offset == 6
    machine.fill(1)
    assert len(values_of(machine.log)) == 9


def test_truncation_forgets_what_lay_behind_it() -> None:
    machine = Machine()
    machine.fill(30, epoch=1)
    machine.fill(2, epoch=2)

    machine.log.truncate_to(Offset(61))

    assert machine.log.end_offset == 60
    assert machine.log.epochs.latest == 1
    assert [record.offset for record in records_of(machine.log)] == list(range(60))
    machine.fill(1, epoch=3)
    assert [record.offset for record in records_of(machine.log)] == list(range(63))


def test_what_was_cut_off_is_gone_durably_before_anything_takes_its_place() -> None:
    machine = Machine()
    machine.fill(30)
    machine.sync()
    seen: list[str] = []

    def watch(operation: Operation, moment: Moment) -> None:
        if moment is Moment.AFTER:
            if operation.kind is Kind.RENAME and operation.path.endswith(".log.deleted"):
                seen.append("segment out")
            elif operation.kind is Kind.SYNC_DIR and operation.path == PATH:
                seen.append("names durable")
            elif operation.kind in (Kind.TRUNCATE, Kind.SYNC) and operation.path.endswith(".log"):
                seen.append(operation.kind.value)

    machine.files.watch = watch
    machine.log.truncate_to(Offset(40))
    assert seen == ["segment out", "segment out", "names durable", "truncate", "sync"]
    snapshots = [int(name[:20]) for name in machine.files.names(PATH) if name.endswith(".snapshot")]
    assert snapshots == [18, 36]


def test_a_log_that_begins_again_elsewhere_is_empty_there() -> None:
    machine = Machine()
    machine.fill(10, epoch=1)
    machine.log.restart_at(Offset(1000))
    assert (machine.log.start_offset, machine.log.end_offset) == (1000, 1000)
    assert machine.log.epochs.latest == -1
    machine.fill(1, epoch=2)
    machine.stop()
    assert [record.offset for record in records_of(machine.log)] == [1000, 1001, 1002]


def test_the_start_moves_forward_only_and_not_beyond_the_end() -> None:
    machine = Machine()
    machine.fill(2)
    machine.log.move_start_to(Offset(4))
    machine.log.move_start_to(Offset(2))
    assert machine.log.start_offset == 4
    with pytest.raises(Refused) as refused:
        machine.log.move_start_to(Offset(7))
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_where_a_reader_would_go_on_is_forgotten_when_the_log_is_cut() -> None:
    machine = Machine(replace(SMALL, segment_bytes=100_000))
    machine.fill(6)
    log = machine.log
    one_batch = log.read(Offset(0), 1, log.end_offset)
    assert one_batch is not None
    assert log.read(Offset(0), 2 * one_batch.length, log.end_offset) is not None, (
        "the batch at 6 is remembered"
    )

    log.truncate_to(Offset(3))
    machine.append(a_batch(values(9, size=40, tag="new")))
    machine.append(a_batch(values(3, tag="last")))

    assert [record.value for record in records_of(log, 6)][:1] == [values(9, size=40, tag="new")[3]]
    assert [record.offset for record in records_of(log, 12)] == [12, 13, 14]
