"""Retention by time and size: whole sealed segments only (L5)."""

from dataclasses import replace

import pytest

from everlog.log.retention import RetentionLimits, SegmentFacts, expired_count
from everlog.log.settings import LogSettings
from everlog.model.ids import Offset
from everlog.sim.faults import Crashed, Kind, Moment, Operation
from tests.unit.log.builders import NOON, PATH, ROOT, SMALL, Machine, a_batch, records_of

DAY_MS = 24 * 3600 * 1000


def segments(*timestamps: int, size: int = 100) -> list[SegmentFacts]:
    return [SegmentFacts((at + 1) * 10, size, timestamp) for at, timestamp in enumerate(timestamps)]


def limits(
    wall: int = 1000, total: int = 0, start: int = 0, high_watermark: int = 1_000_000
) -> RetentionLimits:
    return RetentionLimits(wall, total, start, high_watermark)


def test_a_segment_goes_once_its_newest_record_is_past_the_age() -> None:
    settings = LogSettings(retention_ms=100)
    assert expired_count(segments(899, 900, 950), settings, limits()) == 1
    assert expired_count(segments(900, 899), settings, limits()) == 0


def test_minus_one_keeps_segments_for_ever() -> None:
    assert expired_count(segments(0, 0), LogSettings(retention_ms=-1), limits(10**15)) == 0


def test_a_record_from_the_future_keeps_its_segment_and_those_behind_it() -> None:
    assert expired_count(segments(0, 10**15, 0), LogSettings(retention_ms=10), limits()) == 1


def test_the_oldest_go_while_what_is_left_still_has_the_size() -> None:
    settings = LogSettings(retention_ms=-1, retention_bytes=250)
    for total, gone in ((500, 2), (449, 1), (350, 1), (349, 0)):
        assert expired_count(segments(0, 0, 0, 0, 0), settings, limits(total=total)) == gone


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    settings = LogSettings(retention_ms=0)
    assert expired_count(segments(0, 0, 0), settings, limits(high_watermark=19)) == 1
    assert expired_count(segments(0, 0, 0), settings, limits(high_watermark=20)) == 2


def test_what_lies_below_the_start_goes_whatever_the_policy() -> None:
    settings = LogSettings(retention_ms=0, cleanup_delete=False, cleanup_compact=True)
    assert expired_count(segments(0, 0, 0), settings, limits(start=25)) == 2
    assert expired_count(segments(0, 0, 0), settings, limits(start=0)) == 0


def retain(machine: Machine) -> None:
    machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
    machine.directory.checkpoint()


def test_the_start_moves_to_the_first_segment_that_stays() -> None:
    machine = Machine(replace(SMALL, retention_ms=DAY_MS))
    for _ in range(20):
        machine.clock.advance(DAY_MS // 8)
        machine.fill(1)
    before = records_of(machine.log)

    retain(machine)

    start = machine.log.start_offset
    assert 0 < start < machine.log.end_offset
    assert records_of(machine.log) == [record for record in before if record.offset >= start]
    machine.kill()
    assert machine.log.start_offset == start


def test_an_active_segment_all_of_which_has_expired_is_rolled_and_goes_too() -> None:
    machine = Machine(replace(SMALL, retention_ms=DAY_MS))
    machine.fill(3)
    machine.clock.advance(DAY_MS + 1)
    retain(machine)
    assert (machine.log.start_offset, machine.log.end_offset, machine.log.segment_count) == (9, 9, 1)
    retain(machine)
    assert machine.log.segment_count == 1
    machine.stop()
    assert machine.log.end_offset == 9
    machine.fill(1)
    assert [record.offset for record in records_of(machine.log)] == [9, 10, 11]


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    machine = Machine(replace(SMALL, retention_ms=DAY_MS))
    machine.append(a_batch(timestamp=-1))
    machine.clock.advance(DAY_MS)
    retain(machine)
    assert machine.log.start_offset == 0
    machine.clock.advance(1)
    retain(machine)
    assert machine.log.start_offset == 1


def test_the_files_are_renamed_at_once_and_unlinked_after_the_delay() -> None:
    machine = Machine(replace(SMALL, retention_ms=DAY_MS, file_delete_delay_ms=500))
    machine.fill(12)
    slice_before = machine.log.read(Offset(0), 1000, machine.log.end_offset)
    machine.clock.advance(DAY_MS + 1)
    retain(machine)
    names = machine.files.names(PATH)
    assert f"{0:020d}.log.deleted" in names
    assert f"{0:020d}.log" not in names
    assert slice_before is not None
    assert slice_before.read()  # Whoever reads the segment goes on reading it.

    assert machine.directory.due_deletions(machine.clock.now()) is None
    machine.clock.advance(500)
    deletions = machine.directory.due_deletions(machine.clock.now())
    assert deletions is not None
    deletions.run()
    assert not [name for name in machine.files.names(PATH) if name.endswith(".deleted")]
    assert machine.directory.due_deletions(machine.clock.now()) is None


def test_the_start_is_durable_before_a_file_goes() -> None:
    machine = Machine(replace(SMALL, retention_ms=DAY_MS))
    machine.fill(12)
    machine.clock.advance(DAY_MS + 1)
    events: list[str] = []

    def watch(operation: Operation, moment: Moment) -> None:
        if moment is Moment.AFTER:
            if operation.kind is Kind.SYNC_DIR and operation.path == ROOT:
                events.append("start durable")
            elif operation.kind is Kind.RENAME and ".deleted" in operation.path:
                events.append("file gone")

    machine.files.watch = watch
    assert machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
    assert events == []
    machine.directory.checkpoint()
    assert events.index("start durable") < events.index("file gone")


def test_segments_that_a_crash_kept_from_going_go_at_the_next_time() -> None:
    machine = Machine(replace(SMALL, retention_ms=DAY_MS))
    machine.fill(12)
    machine.clock.advance(DAY_MS + 1)
    machine.files.watch = _crash_at_first_deleted
    machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
    with pytest.raises(Crashed):
        machine.directory.checkpoint()
    machine.lose_power()
    assert machine.log.start_offset == machine.log.end_offset == 36
    retain(machine)
    assert [name for name in machine.files.names(PATH) if name.endswith(".log")] == [f"{36:020d}.log"]


def _crash_at_first_deleted(operation: Operation, moment: Moment) -> None:
    if operation.kind is Kind.RENAME and ".deleted" in operation.path:
        raise Crashed


def test_a_clock_that_steps_back_deletes_nothing() -> None:
    machine = Machine(replace(SMALL, retention_ms=DAY_MS))
    machine.fill(12)
    machine.clock.jump(-100 * DAY_MS)
    retain(machine)
    assert machine.log.start_offset == 0
    assert machine.clock.wall() < NOON
