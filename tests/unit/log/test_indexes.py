"""Index files in Kafka's formats, and searches by offset and by time (L3, L7)."""

from collections.abc import Callable
from struct import iter_unpack

import pytest

from everlog.log.offset_index import GrowingOffsetIndex, SealedOffsetIndex
from everlog.log.partition import PartitionLog
from everlog.log.segment import Segment
from everlog.log.settings import LogSettings
from everlog.log.time_index import GrowingTimeIndex, SealedTimeIndex
from everlog.log.verified import VerifiedRanges
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset, Timestamp
from everlog.records.batch import BatchView, whole_batches
from everlog.records.compression import Codec
from everlog.sim.chance import SimRandom
from tests.unit.log.builders import NOON, PATH, Machine, a_batch, records_of, values

SETTINGS = LogSettings(segment_bytes=2000, index_interval_bytes=300)


def a_stopped_machine() -> Machine:
    """Segments with timestamps that mostly rise, and sometimes fall back."""
    machine = Machine(SETTINGS)
    for at in range(60):
        late = -150 if at % 7 == 3 else 0
        machine.append(a_batch(values(2), timestamp=NOON + at * 10 + late, step_ms=5))
    machine.stop()
    return machine


def segments(machine: Machine) -> list[int]:
    return [int(name[:20]) for name in machine.files.names(PATH) if name.endswith(".log")]


def batches(machine: Machine, base: int) -> list[tuple[int, BatchView]]:
    position = 0
    found: list[tuple[int, BatchView]] = []
    for batch in whole_batches(machine.files.read(f"{PATH}/{base:020d}.log")):
        found.append((position, batch))
        position += batch.size
    return found


def test_an_index_entry_names_a_batch_by_its_last_offset_and_its_position() -> None:
    machine = a_stopped_machine()
    total = 0
    for base in segments(machine):
        by_position = dict(batches(machine, base))
        unindexed = 0
        expected: list[tuple[int, int]] = []
        for position, batch in by_position.items():
            if unindexed > SETTINGS.index_interval_bytes:
                expected.append((batch.last_offset - base, position))
                unindexed = 0
            unindexed += batch.size
        raw = machine.files.read(f"{PATH}/{base:020d}.index")
        assert list(iter_unpack(">ii", raw)) == expected
        total += len(expected)
    assert total > 10


def test_a_time_index_entry_has_the_largest_timestamp_so_far_and_the_batch_that_brought_it() -> None:
    machine = a_stopped_machine()
    for base in segments(machine):
        raw = machine.files.read(f"{PATH}/{base:020d}.timeindex")
        entries = [(timestamp, base + relative) for timestamp, relative in iter_unpack(">qi", raw)]
        assert entries == sorted(set(entries))
        largest = -1
        holders: dict[int, int] = {}
        for _, batch in batches(machine, base):
            if batch.max_timestamp > largest:
                largest = batch.max_timestamp
                holders[largest] = batch.last_offset
        assert all(holders.get(timestamp) == offset for timestamp, offset in entries)
        assert entries[-1][0] == largest


def test_the_active_segments_index_is_written_in_lots_and_never_leads_the_log() -> None:
    machine = Machine(LogSettings(index_interval_bytes=1))
    path = f"{PATH}/{0:020d}.index"
    machine.fill(500, records=1)
    assert not machine.files.exists(path) or machine.files.size(path) == 0
    machine.fill(100, records=1)
    entries = list(iter_unpack(">ii", machine.files.read(path)))
    assert len(entries) == 512
    assert entries[-1][1] < machine.log.size
    machine.kill()
    assert len(records_of(machine.log, 0, 10_000)) == 600


def test_searches_give_the_same_while_growing_and_once_sealed() -> None:
    entries = [(10 + at * 3, at * 100) for at in range(50)]
    growing = GrowingOffsetIndex(10, entries)
    sealed = SealedOffsetIndex(10, memoryview(growing.unsaved()))
    loaded = GrowingOffsetIndex.load(10, growing.unsaved())
    for offset in range(200):
        expected = next((entry for entry in reversed(entries) if entry[0] <= offset), None)
        assert growing.floor(offset) == sealed.floor(offset) == loaded.floor(offset) == expected
    for position in range(0, 6000, 37):
        expected = next((entry for entry in reversed(entries) if entry[1] <= position), None)
        assert growing.floor_position(position) == sealed.floor_position(position) == expected


def test_times_are_searched_the_same_while_growing_and_once_sealed() -> None:
    growing = GrowingTimeIndex(10)
    for at in range(40):
        growing.append(1000 + (at // 2) * 10, 10 + at)
    raw = growing.unsaved()
    sealed, loaded = SealedTimeIndex(10, memoryview(raw)), GrowingTimeIndex.load(10, raw)
    assert len(growing) == len(sealed) == 20
    for timestamp in range(990, 1210):
        assert growing.floor(timestamp) == sealed.floor(timestamp) == loaded.floor(timestamp)
    assert growing.last() == sealed.last() == (1190, 48)
    assert growing.floor(999) is None


@pytest.mark.parametrize("raw", [bytes(7), bytes(9), bytes(16), b"\0\0\0\5\0\0\0\5\0\0\0\4\0\0\0\6"])
def test_what_cannot_be_an_offset_index_is_refused(raw: bytes) -> None:
    with pytest.raises(CorruptDataError):
        SealedOffsetIndex(0, memoryview(raw))


@pytest.mark.parametrize("raw", [bytes(11), bytes(24), bytes(13)])
def test_what_cannot_be_a_time_index_is_refused(raw: bytes) -> None:
    with pytest.raises(CorruptDataError):
        SealedTimeIndex(0, memoryview(raw))


@pytest.mark.parametrize("restart", [None, "stop", "kill"])
def test_a_moment_gives_the_first_record_as_new(restart: str | None) -> None:
    machine = a_stopped_machine()
    if restart:
        getattr(machine, restart)()
    records = records_of(machine.log)
    for moment in range(NOON - 200, NOON + 700, 7):
        expected = next((record for record in records if record.timestamp >= moment), None)
        found = machine.log.offset_for_time(Timestamp(moment), machine.log.end_offset)
        assert (found and (found.offset, found.timestamp)) == (
            expected and (expected.offset, expected.timestamp)
        )


def test_a_moment_is_found_without_a_look_at_every_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(SETTINGS)
    for at in range(300):
        machine.log.roll()
        machine.append(a_batch(values(1), timestamp=NOON + at))
    log = machine.log
    really_look = Segment.largest_timestamp
    looks: list[Segment] = []

    def look(self: Segment) -> tuple[int, int]:
        looks.append(self)
        return really_look(self)

    monkeypatch.setattr(Segment, "largest_timestamp", look)
    for at in (299, 298, 150, 7):
        looks.clear()
        found = log.offset_for_time(Timestamp(NOON + at), log.end_offset)
        assert found is not None
        assert found.offset == at
    assert len(looks) < 5


class LooksAtFiles:
    """Counts the segments whose largest timestamp was not known and had to be looked for."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        really_look = Segment.largest_timestamp

        def look(segment: Segment) -> tuple[int, int]:
            self.count += not segment.knows_largest
            return really_look(segment)

        patch.setattr(Segment, "largest_timestamp", look)

    def during(self, what: Callable[[], object]) -> int:
        self.count = 0
        what()
        return self.count


def a_machine_of_many_segments(count: int = 300) -> Machine:
    machine = Machine(SETTINGS)
    for at in range(count):
        machine.log.roll()
        machine.append(a_batch(values(1), timestamp=NOON + at))
    return machine


def moment_found(log: PartitionLog, moment: int) -> int | None:
    found = log.offset_for_time(Timestamp(moment), log.end_offset)
    return None if found is None else int(found.offset)


def test_of_segments_that_were_sealed_here_no_lookup_needs_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_machine_of_many_segments().log
    looks = LooksAtFiles(monkeypatch)

    assert looks.during(lambda: moment_found(log, NOON + 299)) == 0
    assert looks.during(lambda: log.offset_of_max_timestamp(log.end_offset)) == 0
    assert (moment_found(log, NOON + 299), moment_found(log, NOON + 300)) == (299, None)


def test_after_a_restart_each_segment_is_looked_at_once_and_as_few_at_a_time_as_one_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = a_machine_of_many_segments()
    machine.stop()
    log = machine.log
    looks = LooksAtFiles(monkeypatch)
    turns: list[int] = []

    def learn(moment: int | None) -> bool:
        before = looks.count
        ended = log.learn_times(
            None if moment is None else Timestamp(moment), lambda: looks.count - before >= 7
        )
        turns.append(looks.count - before)
        return ended

    # An early moment needs the segments up to its own.
    while not learn(NOON + 20):
        pass
    assert turns == [7, 7, 7]
    assert looks.during(lambda: moment_found(log, NOON + 20)) == 0
    while not learn(None):
        pass
    assert sum(turns) == 299
    assert max(turns) == 7
    for moment in (0, 150, 298):
        assert looks.during(lambda: moment_found(log, NOON + moment)) == 0  # noqa: B023
    assert looks.during(lambda: log.offset_of_max_timestamp(log.end_offset)) == 0


def test_a_step_of_retention_costs_the_next_lookup_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = a_machine_of_many_segments()
    machine.stop()
    log = machine.log
    assert moment_found(log, NOON + 299) == 299
    looks = LooksAtFiles(monkeypatch)
    for start in (40, 41, 200):
        log.move_start_to(Offset(start))
        log.enforce_retention(NOON, log.end_offset)
        assert log.segments[0].base_offset == start
        assert looks.during(lambda: moment_found(log, NOON + 250)) == 0
        assert moment_found(log, NOON + 250) == 250
        assert moment_found(log, NOON) == start


@pytest.mark.parametrize("seed", range(12))
def test_lookups_by_time_are_those_of_a_walk_whatever_became_of_the_segments(seed: int) -> None:
    """Timestamps in no order at all, so that a segment that went has hidden later ones."""
    chance = SimRandom(f"moments {seed}")
    machine = Machine(SETTINGS)
    for _ in range(30):
        for _ in range(chance.below(8) + 1):
            if chance.below(3):
                machine.log.roll()
            machine.append(a_batch(values(chance.below(3) + 1), timestamp=NOON + chance.below(500)))
        log = machine.log
        match chance.below(8):
            case 0:
                machine.stop()
            case 1:
                machine.kill()
            case 2:
                log.truncate_to(Offset(log.start_offset + chance.below(log.end_offset - log.start_offset)))
            case 3 | 4:
                log.move_start_to(Offset(log.start_offset + chance.below(log.end_offset - log.start_offset)))
                log.enforce_retention(NOON, log.end_offset)
            case _:
                pass
        log = machine.log
        records = records_of(log)
        for moment in (NOON, *(NOON + chance.below(520) for _ in range(6))):
            expected = next((one.offset for one in records if one.timestamp >= moment), None)
            assert moment_found(log, moment) == expected
        largest = max((one.timestamp for one in records), default=None)
        newest = log.offset_of_max_timestamp(log.end_offset)
        if newest is not None:
            assert newest.timestamp >= (largest or 0)
        if largest is not None and log.start_offset == log.segments[0].base_offset:
            assert newest is not None
            assert newest[:2] == next((r.offset, r.timestamp) for r in records if r.timestamp == largest)


def test_a_moment_is_found_in_a_log_that_was_cut_and_has_grown_again() -> None:
    machine = a_stopped_machine()
    log = machine.log
    newest = log.segments[2].largest_timestamp()[0]
    assert log.offset_for_time(Timestamp(newest), log.end_offset) is not None
    # In the middle of a segment, which takes batches again and is sealed once more.
    log.truncate_to(Offset(log.segments[2].base_offset + 4))
    machine.append(a_batch(values(2), timestamp=NOON + 9_000))
    for _ in range(40):
        machine.append(a_batch(values(2), timestamp=NOON + 8_000))
    assert log.segment_count > 4

    for moment in range(NOON - 200, NOON + 9_100, 31):
        expected = next((one.offset for one in records_of(log) if one.timestamp >= moment), None)
        found = log.offset_for_time(Timestamp(moment), log.end_offset)
        assert (found and found.offset) == expected


def test_a_moment_is_searched_between_the_start_and_the_end_only() -> None:
    machine = a_stopped_machine()
    log = machine.log
    log.move_start_to(Offset(31))
    found = log.offset_for_time(Timestamp(0), log.end_offset)
    assert found is not None
    assert found.offset == 31
    assert log.offset_for_time(Timestamp(NOON + 500), Offset(60)) is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_moment_is_found_inside_a_batch(codec: Codec) -> None:
    machine = Machine()
    machine.append(a_batch(values(5), timestamp=NOON, step_ms=10, codec=codec), epoch=3)
    found = machine.log.offset_for_time(Timestamp(NOON + 11), Offset(5))
    assert found == (2, NOON + 20, 3)


def test_the_record_with_the_largest_timestamp_is_the_first_that_has_it() -> None:
    machine = Machine(SETTINGS)
    for at in (5, 90, 40, 90, 10):
        machine.append(a_batch(values(3), timestamp=NOON + at))
        machine.log.roll()
    found = machine.log.offset_of_max_timestamp(machine.log.end_offset)
    assert found is not None
    assert (found.offset, found.timestamp) == (3, NOON + 90)
    assert Machine().log.offset_of_max_timestamp(Offset(0)) is None


def test_ranges_that_touch_become_one() -> None:
    ranges = VerifiedRanges(trusted_from=1000)
    ranges.add(100, 200)
    ranges.add(300, 400)
    assert ranges.unproved_from(100, 400) == 200
    ranges.add(200, 300)
    assert ranges.unproved_from(100, 400) == 400
    assert ranges.unproved_from(50, 60) == 50
    ranges.add(400, 1000)
    assert ranges.unproved_from(150, 5000) == 5000
    ranges.cut(350)
    assert ranges.unproved_from(100, 900) == 900


def test_many_ranges_are_forgotten_rather_than_kept() -> None:
    ranges = VerifiedRanges(trusted_from=1_000_000)
    for at in range(500):
        ranges.add(at * 100, at * 100 + 50)
    assert ranges.unproved_from(0, 50) == 0
    assert ranges.unproved_from(49_900, 49_950) == 49_950
