"""What is compacted and what is not: how far a round may go, and when it is due (L6)."""

from dataclasses import replace

import pytest

from everlog.log.compaction import first_dirty_offset
from everlog.log.settings import FOREVER
from everlog.model.ids import Offset
from everlog.sim.chance import SimRandom
from everlog.sim.platter import Loss
from tests.unit.log.builders import ORDERS, Sequenced
from tests.unit.log.compacting import COMPACT, Compacted

HOUR_MS = 3_600_000


def three_segments(machine: Compacted) -> list[int]:
    """Three sealed segments of two batches each and an active one; returns where segments begin."""
    bases: list[int] = []
    for _ in range(3):
        bases.append(machine.log.end_offset)
        machine.put((b"a", b"1"), (b"b", b"1"))
        machine.put((b"a", b"2"), (b"c", b"1"))
        machine.log.roll()
        machine.clock.advance(HOUR_MS)
    bases.append(machine.log.end_offset)
    machine.put((b"a", b"3"))
    machine.sync()
    return bases


def test_all_sealed_segments_are_dirty_at_first() -> None:
    machine = Compacted()
    bases = three_segments(machine)
    part = machine.dirty()

    assert (part.start_offset, part.end_offset) == (0, bases[3])
    assert (part.clean_bytes, part.ratio) == (0, 1.0)
    assert part.dirty_bytes == sum(segment.size for segment in machine.log.segments[:3])


def test_the_active_segment_is_never_dirty() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.sync()

    assert machine.dirty().dirty_bytes == 0


def test_a_segment_that_reaches_beyond_the_last_stable_offset_is_left_out() -> None:
    machine = Compacted()
    bases = three_segments(machine)

    assert machine.dirty(stable=bases[3] - 1).end_offset == bases[2]
    assert machine.dirty(stable=bases[3]).end_offset == bases[3]
    assert machine.dirty(stable=bases[1] - 1).dirty_bytes == 0


def test_an_open_transaction_stops_compaction_before_its_segment() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.log.roll()
    machine.put((b"a", b"2"), sender=Sequenced(7, 0), transactional=True)
    machine.seal()
    assert machine.dirty().end_offset == 1

    machine.end_txn(7, commit=True)
    machine.sync()
    assert machine.dirty().end_offset == 2


def test_what_a_crash_may_take_back_is_left_out() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.seal()
    machine.put((b"a", b"2"))
    machine.log.roll()

    assert machine.dirty().end_offset == 1
    machine.sync()
    assert machine.dirty().end_offset == 2


def test_records_younger_than_the_lag_keep_their_segment_from_compaction() -> None:
    machine = Compacted(replace(COMPACT, min_compaction_lag_ms=HOUR_MS + HOUR_MS // 2))
    bases = three_segments(machine)

    assert machine.dirty().end_offset == bases[2], "the third is an hour old"
    machine.clock.advance(HOUR_MS)
    assert machine.dirty().end_offset == bases[3]


def test_a_log_is_due_when_its_dirty_share_is_above_the_ratio() -> None:
    machine = Compacted(replace(COMPACT, min_cleanable_dirty_ratio=0.5))
    bases = three_segments(machine)
    assert machine.dirty().is_due(machine.settings)

    machine.directory.clean_ends[ORDERS] = Offset(bases[2])
    part = machine.dirty()
    assert part.start_offset == bases[2]
    assert part.ratio == pytest.approx(1 / 3)
    assert not part.is_due(machine.settings)
    assert part.is_due(replace(machine.settings, min_cleanable_dirty_ratio=0.3))


def test_a_log_with_nothing_dirty_is_not_due_even_at_ratio_zero() -> None:
    machine = Compacted(replace(COMPACT, min_cleanable_dirty_ratio=0.0))
    machine.put((b"a", b"1"))
    machine.sync()

    assert not machine.dirty().is_due(machine.settings)


def test_a_record_that_waits_too_long_makes_its_log_due() -> None:
    settings = replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5 * HOUR_MS)
    machine = Compacted(settings)
    bases = three_segments(machine)
    assert not machine.dirty().overdue

    machine.clock.advance(2 * HOUR_MS + 1)
    assert machine.dirty().overdue
    assert machine.dirty().is_due(settings)
    machine.directory.clean_ends[ORDERS] = Offset(bases[1])
    assert not machine.dirty().overdue, "the first segment is clean"


def test_no_lag_is_asked_for_unless_set() -> None:
    assert COMPACT.max_compaction_lag_ms == FOREVER
    machine = Compacted()
    three_segments(machine)
    machine.clock.advance(10_000 * HOUR_MS)

    assert not machine.dirty().overdue


def test_a_checkpoint_beyond_the_end_or_before_the_start_means_the_whole_log() -> None:
    machine = Compacted()
    bases = three_segments(machine)
    log = machine.log
    log.move_start_to(Offset(bases[1]))

    assert first_dirty_offset(log, None) == bases[1]
    assert first_dirty_offset(log, Offset(bases[1] - 1)) == bases[1]
    assert first_dirty_offset(log, Offset(log.end_offset + 1)) == bases[1]
    assert first_dirty_offset(log, Offset(bases[2])) == bases[2]


def test_a_log_that_is_cut_counts_as_dirty_from_there_on() -> None:
    machine = Compacted()
    bases = three_segments(machine)
    machine.seal_and_clean()
    assert machine.directory.clean_ends[ORDERS] > bases[1]
    machine.directory.checkpoint()

    machine.log.truncate_to(Offset(bases[1]))
    machine.kill()
    assert machine.directory.clean_ends[ORDERS] <= bases[1]


def test_the_checkpoint_has_kafkas_format_and_survives_restarts() -> None:
    machine = Compacted()
    three_segments(machine)
    machine.seal_and_clean()
    end = machine.directory.clean_ends[ORDERS]
    machine.stop()

    assert machine.directory.clean_ends == {ORDERS: end}
    assert machine.files.read("/logs/cleaner-offset-checkpoint") == b"0\n1\norders 0 %d\n" % end
    machine.directory.delete(ORDERS)
    machine.directory.checkpoint()
    assert machine.files.read("/logs/cleaner-offset-checkpoint") == b"0\n0\n"


def test_a_damaged_checkpoint_means_that_nothing_was_compacted() -> None:
    machine = Compacted()
    three_segments(machine)
    machine.seal_and_clean()
    machine.stop()
    expected = machine.pairs()
    machine.stop()
    machine.files.flip_bit("/logs/cleaner-offset-checkpoint", 0, 3)
    machine.kill()

    assert machine.directory.clean_ends == {}
    assert machine.directory.problems
    assert machine.pairs() == expected


def test_a_bit_that_flips_in_what_was_compacted_takes_no_key_its_value() -> None:
    """Where the offset is too high, records stay that newer ones have taken the place of, and no more."""
    machine = Compacted()
    three_segments(machine)
    machine.seal_and_clean()
    for number in range(4):
        machine.put((b"a", b"%d" % number), (b"d", b"%d" % number))
        machine.put((b"b", None) if number == 2 else (b"b", b"x"))
        machine.log.roll()
    expected = machine.contents()
    machine.stop()
    path = "/logs/cleaner-offset-checkpoint"

    for position in range(len(machine.files.read(path))):
        for bit in range(8):
            damaged = Compacted()
            damaged.files = machine.files.after_crash(SimRandom(0), Loss.NONE)
            damaged.files.flip_bit(path, position, bit)
            damaged.kill()
            damaged.seal_and_clean()
            found = damaged.contents()
            assert {key: value for key, value in found.items() if value is not None} == {
                key: value for key, value in expected.items() if value is not None
            }, (position, bit)
