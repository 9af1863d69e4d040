"""Files as found to a log in use (L10): every rule that a crash or a flipped bit puts to the test."""

from dataclasses import replace

import pytest

from everlog.log.partition import Origin
from everlog.model.errors import StorageError
from everlog.model.ids import Offset
from everlog.sim.aside import SimAside
from everlog.sim.faults import Kind, Moment, Operation
from tests.unit.log.builders import (
    ORDERS,
    PATH,
    ROOT,
    SMALL,
    Machine,
    Sequenced,
    a_batch,
    a_marker,
    records_of,
    values,
    values_of,
)


def log_names(machine: Machine) -> list[str]:
    return [name for name in machine.files.names(PATH) if name.endswith(".log")]


def append_bytes(machine: Machine, name: str, data: bytes) -> None:
    file = machine.files.open(f"{PATH}/{name}")
    file.append((data,))
    file.close()


def a_full_machine() -> Machine:
    """Several segments, producers, an aborted transaction, two epochs; nothing synced."""
    machine = Machine()
    for at in range(12):
        machine.append(a_batch(values(2), sender=Sequenced(9, at * 2)), epoch=1)
        machine.append(a_batch(values(2), sender=Sequenced(8, at * 2), transactional=True), epoch=1)
    machine.append(a_marker(8, commit=False), epoch=2, origin=Origin.COORDINATOR)
    machine.fill(3, epoch=2)
    assert machine.log.segment_count > 3
    return machine


def facts(machine: Machine) -> tuple[object, ...]:
    log = machine.log
    return (
        [(record.offset, record.value) for record in records_of(log)],
        log.epochs.entries,
        [(state.producer_id, state.epoch, state.window) for state in log.producers],
        log.aborted_between(Offset(0), log.end_offset),
        log.segment_count,
    )


@pytest.mark.parametrize("restart", ["stop", "kill"])
def test_everything_is_as_it_was_after_a_restart(restart: str) -> None:
    machine = a_full_machine()
    before = facts(machine)
    getattr(machine, restart)()
    assert facts(machine) == before


def test_after_a_clean_stop_nothing_is_scanned_and_hardly_anything_read() -> None:
    machine = Machine(replace(SMALL, segment_bytes=100_000))
    machine.fill(400)
    machine.stop()
    reads: list[int] = []
    file = machine.files.open(f"{PATH}/{log_names(machine)[-1]}")
    kind = type(file)
    original = kind.read

    def counted(self: object, position: int, length: int) -> bytes:
        data = original(self, position, length)  # type: ignore[arg-type]  # It is the class's own file.
        reads.append(len(data))
        return data

    kind.read = counted  # type: ignore[method-assign]  # Taken back below.
    try:
        assert machine.log.end_offset == 1200
    finally:
        kind.read = original  # type: ignore[method-assign]
    assert machine.log.report.scanned_bytes == 0
    assert sum(reads) < 20_000 < machine.log.size


def test_recovery_scans_from_the_recovery_point_on_and_not_what_lies_before() -> None:
    machine = Machine()
    machine.fill(31)
    machine.sync()
    machine.directory.checkpoint()
    machine.fill(1)
    synced = machine.log.recovery_point
    machine.kill()
    active = machine.files.size(f"{PATH}/{log_names(machine)[-1]}")
    assert machine.log.report.scanned_bytes == active < machine.log.size
    assert machine.log.recovery_point == synced


def test_a_log_that_nobody_wrote_to_since_its_sync_is_not_scanned_after_a_crash() -> None:
    machine = Machine()
    machine.fill(30)
    machine.sync()
    machine.directory.checkpoint()
    machine.kill()
    assert machine.log.report.scanned_bytes == 0
    assert len(values_of(machine.log)) == 90


@pytest.mark.parametrize("tail", [b"\xff" * 30, b"\0" * 61 + b"x", b"garbage"])
def test_a_torn_tail_is_cut_off(tail: bytes) -> None:
    machine = Machine()
    machine.fill(5)
    append_bytes(machine, log_names(machine)[-1], tail)
    machine.kill()
    assert machine.log.end_offset == 15
    assert machine.log.report.cut_bytes == len(tail)
    machine.fill(1)
    assert [record.offset for record in records_of(machine.log)] == list(range(18))


def test_a_segment_that_is_sealed_has_no_room_behind_its_end() -> None:
    machine = Machine()
    machine.files.room_bytes = 500
    machine.fill(5)
    before = log_names(machine)[-1]
    assert machine.files.size(f"{PATH}/{before}") == machine.log.segments[-1].size + 500

    machine.log.roll()

    assert machine.files.size(f"{PATH}/{before}") == machine.log.segments[-2].size


@pytest.mark.parametrize("size", [1, 61, 500])
def test_room_behind_the_end_is_given_back_without_a_word(size: int) -> None:
    machine = Machine()
    machine.fill(5)
    append_bytes(machine, log_names(machine)[-1], bytes(size))
    machine.kill()
    assert (machine.log.report.cut_bytes, machine.log.report.problem) == (0, "")
    assert machine.files.size(f"{PATH}/{log_names(machine)[-1]}") == machine.log.segments[-1].size
    machine.fill(1)
    assert [record.offset for record in records_of(machine.log)] == list(range(18))


def test_half_a_batch_is_cut_off_at_every_length() -> None:
    machine = Machine()
    machine.fill(3)
    whole = machine.files.read(f"{PATH}/{log_names(machine)[0]}")
    size = len(whole) // 3
    for cut in range(1, size):
        machine = Machine()
        machine.fill(2)
        append_bytes(machine, log_names(machine)[0], whole[2 * size : 2 * size + cut])
        machine.kill()
        assert machine.log.end_offset == 6, cut


def test_zeros_behind_the_last_batch_are_trimmed_even_after_a_clean_stop() -> None:
    machine = Machine()
    machine.fill(5)
    machine.stop()
    append_bytes(machine, log_names(machine)[-1], bytes(300))
    assert machine.log.end_offset == 15
    assert machine.files.size(f"{PATH}/{log_names(machine)[-1]}") == machine.log.size
    assert len(values_of(machine.log)) == 15


def test_the_first_bad_batch_ends_the_log_and_later_segments_go() -> None:
    machine = Machine()
    machine.fill(40)
    names = log_names(machine)
    assert len(names) > 4
    machine.files.flip_bit(f"{PATH}/{names[1]}", 200, 1)

    machine.kill()

    end = machine.log.end_offset
    assert int(names[1][:20]) < end < int(names[2][:20])
    assert log_names(machine) == names[:2]
    assert [record.offset for record in records_of(machine.log)] == list(range(end))
    leftover = [name for name in machine.files.names(PATH) if name[:20].isdigit() and int(name[:20]) > end]
    assert leftover == []


@pytest.mark.parametrize(
    "position", [0, 6, 7, 8, 10, 11, 12, 15, 16, 17, 21, 22, 24, 26, 30, 40, 50, 55, 60, 61, 80]
)
def test_a_flipped_bit_in_any_field_of_an_unsynced_batch_ends_the_log_before_it(position: int) -> None:
    machine = Machine(replace(SMALL, segment_bytes=10_000))
    machine.fill(6, epoch=4)
    size = machine.log.size // 6
    for bit in range(8):
        other = Machine(machine.settings)
        other.fill(6, epoch=4)
        other.files.flip_bit(f"{PATH}/{log_names(other)[0]}", 3 * size + position, bit)
        other.kill()
        # A raised epoch shows when the next batch falls back to the true one: it is not that which is wrong.
        assert other.log.end_offset == 9, (position, bit)
        records_of(other.log)


@pytest.mark.parametrize("number", [0, 3])
def test_a_batch_that_a_flipped_bit_moved_far_ahead_is_not_kept_there(number: int) -> None:
    machine = Machine(replace(SMALL, segment_bytes=10_000, cleanup_compact=True))
    machine.fill(6)
    size = machine.log.size // 6
    # No checksum covers the base offset, and a compacted log may have gaps.
    machine.files.flip_bit(f"{PATH}/{log_names(machine)[0]}", number * size + 5, 3)
    machine.kill()
    assert machine.log.end_offset == 3 * number
    assert [record.offset for record in records_of(machine.log)] == list(range(3 * number))


def test_an_epoch_that_a_flipped_bit_raised_is_found_below_the_recovery_point() -> None:
    machine = Machine(replace(SMALL, segment_bytes=10_000))
    machine.fill(6, epoch=4)
    machine.sync()
    machine.directory.checkpoint()
    machine.fill(1, epoch=4)
    size = machine.log.size // 7
    machine.files.flip_bit(f"{PATH}/{log_names(machine)[0]}", 3 * size + 15, 0)
    machine.kill()
    assert machine.log.end_offset == 9
    assert machine.log.report.below_recovery_point


@pytest.mark.parametrize(
    "kept", ["0\n2\n1 {start}\n2 {second}\n", "0\n1\n2 {later}\n", "0\n0\n", "junk", None]
)
@pytest.mark.parametrize("refuses_damage", [False, True])
def test_an_epoch_of_which_the_checkpoint_says_nothing_costs_no_durable_record(
    kept: str | None, refuses_damage: bool
) -> None:
    machine = Machine(replace(SMALL, refuses_damage=refuses_damage))
    while machine.log.segment_count < 4:
        machine.fill(1, epoch=1)
    second, end = machine.log.end_offset, machine.log.end_offset + 6
    machine.fill(2, epoch=2)
    assert machine.log.segment_count == 4, "the second epoch begins within the active segment"
    machine.sync()
    machine.directory.checkpoint()
    machine.fill(1, epoch=2)
    checkpoint = f"{PATH}/leader-epoch-checkpoint"
    machine.files.unlink(checkpoint)
    if kept is not None:
        # The first forms are what is left where the log began later, and that was lost again in the crash.
        start = machine.log.segments[2].base_offset
        content = kept.format(start=start, second=second, later=second + 3)
        machine.files.open(checkpoint, create=True).append((content.encode(),))

    machine.kill()

    assert machine.log.end_offset == end + 3
    assert not machine.log.report.cut_bytes
    assert machine.log.epochs.entries == [(1, 0), (2, second)]


@pytest.mark.parametrize("refuses_damage", [False, True])
def test_a_log_that_began_again_is_found_there_whatever_of_the_old_one_was_still_to_go(
    refuses_damage: bool,
) -> None:
    machine = Machine(replace(SMALL, refuses_damage=refuses_damage))
    machine.fill(60)
    machine.log.move_start_to(Offset(100))
    assert machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
    assert machine.log.removals.waiting, "their names stay until the start is durable"
    machine.log.restart_at(Offset(1000))
    machine.fill(2)
    machine.sync()

    machine.kill()

    assert (machine.log.start_offset, machine.log.end_offset) == (1000, 1006)
    assert [record.offset for record in records_of(machine.log)] == list(range(1000, 1006))


def test_recovering_twice_changes_nothing_the_second_time() -> None:
    machine = a_full_machine()
    append_bytes(machine, log_names(machine)[-1], b"torn")
    machine.kill()
    before, tree = facts(machine), machine.files.tree()
    machine.kill()
    assert facts(machine) == before
    assert machine.files.tree() == tree


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".txnindex"])
@pytest.mark.parametrize("damage", ["remove", "empty", "garbage", "odd"])
def test_what_is_derived_from_the_log_is_made_anew(suffix: str, damage: str) -> None:
    machine = a_full_machine()
    before = facts(machine)
    machine.directory.close(SimAside())
    for name in machine.files.names(PATH):
        if name.endswith(suffix):
            path = f"{PATH}/{name}"
            size = machine.files.size(path)
            if damage == "remove":
                machine.files.unlink(path)
                continue
            file = machine.files.open(path)
            file.truncate(0 if damage != "odd" else max(size - 1, 0))
            file.append((b"\x7f" * size if damage == "garbage" else b"",))
            file.close()
    if suffix == ".txnindex" and damage in ("remove", "empty"):
        # Only a scan can tell that an index without a checksum lacks entries; a crash brings one about.
        machine.files.unlink(f"{ROOT}/.kafka_cleanshutdown")
        machine.files.unlink(f"{ROOT}/recovery-point-offset-checkpoint")
    machine.kill()
    assert facts(machine)[:-1] == before[:-1]


def test_an_index_without_its_log_goes() -> None:
    machine = Machine()
    machine.fill(2)
    for suffix in (".index", ".timeindex", ".txnindex"):
        machine.files.open(f"{PATH}/{777:020d}{suffix}", create=True).close()
    machine.kill()
    assert len(values_of(machine.log)) == 6
    assert not [name for name in machine.files.names(PATH) if name.startswith(f"{777:020d}")]


def test_files_on_their_way_out_are_no_part_of_the_log() -> None:
    machine = Machine()
    machine.fill(2)
    names = [f"{50:020d}.log.deleted", f"{60:020d}.log.cleaned", "leader-epoch-checkpoint.tmp"]
    for name in names:
        machine.files.open(f"{PATH}/{name}", create=True).close()
    machine.kill()
    assert machine.log.end_offset == 6
    assert not set(names) & set(machine.files.names(PATH))


def test_a_complete_rewrite_takes_the_place_of_what_it_was_made_from() -> None:
    machine = Machine(replace(SMALL, cleanup_compact=True))
    machine.fill(30)
    names = log_names(machine)
    machine.stop()
    first = machine.files.read(f"{PATH}/{names[0]}")
    second = machine.files.read(f"{PATH}/{names[1]}")
    swap = machine.files.open(f"{PATH}/{names[0]}.swap", create=True)
    # As a cleaner would merge two segments, the older one's batches all superseded but the first.
    swap.append((first[: len(first) // 6], second))
    swap.close()
    machine.kill()

    offsets = [record.offset for record in records_of(machine.log)]

    assert offsets == [0, 1, 2, *range(int(names[1][:20]), 90)]
    assert log_names(machine) == [names[0], *names[2:]]


def test_a_rewrite_that_was_not_complete_goes() -> None:
    machine = Machine(replace(SMALL, cleanup_compact=True))
    machine.fill(30)
    names = log_names(machine)
    machine.stop()
    machine.files.open(f"{PATH}/{names[1]}.swap", create=True).close()
    machine.files.open(f"{PATH}/{names[0]}.cleaned", create=True).close()
    machine.kill()
    assert len(values_of(machine.log)) == 90
    assert not [name for name in machine.files.names(PATH) if name.endswith((".swap", ".cleaned"))]


def test_a_hole_between_segments_ends_the_log_unless_it_is_compacted_and_durable() -> None:
    machine = Machine()
    machine.fill(40)
    names = log_names(machine)
    machine.files.unlink(f"{PATH}/{names[2]}")
    machine.kill()
    assert machine.log.end_offset == int(names[2][:20])

    for durable in (False, True):
        compacted = Machine(replace(SMALL, cleanup_compact=True))
        compacted.fill(40)
        if durable:
            compacted.sync()
            compacted.directory.checkpoint()
        compacted.files.unlink(f"{PATH}/{names[2]}")
        compacted.kill()
        assert compacted.log.end_offset == (120 if durable else int(names[2][:20]))


def test_a_log_that_ends_before_its_start_begins_anew_there() -> None:
    machine = Machine()
    machine.fill(5)
    machine.log.move_start_to(Offset(12))
    machine.directory.checkpoint()
    file = machine.files.open(f"{PATH}/{log_names(machine)[0]}")
    file.truncate(0)
    file.close()
    machine.kill()
    assert (machine.log.start_offset, machine.log.end_offset) == (12, 12)
    machine.fill(1)
    assert [record.offset for record in records_of(machine.log)] == [12, 13, 14]


def test_the_recovery_point_moves_by_a_sync_and_by_nothing_else() -> None:
    machine = Machine()
    machine.fill(20)
    assert machine.log.recovery_point == 0
    plan = machine.log.sync_plan()
    assert plan is not None
    machine.fill(1)
    assert machine.log.recovery_point == 0
    plan.run()
    machine.log.synced(plan)
    assert machine.log.recovery_point == plan.end_offset == 60


def test_a_sync_of_records_that_were_cut_since_does_not_vouch_for_those_in_their_place() -> None:
    machine = Machine()
    machine.fill(5)
    plan = machine.log.sync_plan()
    assert plan is not None
    machine.log.truncate_to(Offset(6))
    machine.fill(3, epoch=1)
    plan.run()
    machine.log.synced(plan)
    assert machine.log.recovery_point <= 6


def test_a_lower_recovery_point_is_durable_before_the_log_is_cut() -> None:
    machine = Machine()
    machine.fill(30)
    machine.sync()
    machine.directory.checkpoint()
    seen: list[str] = []

    def watch(operation: Operation, moment: Moment) -> None:
        if moment is Moment.AFTER:
            if operation.kind is Kind.RENAME and "recovery-point" in operation.path:
                seen.append("checkpoint")
            elif operation.kind is Kind.SYNC_DIR and operation.path == ROOT:
                seen.append("durable")
            elif operation.kind is Kind.TRUNCATE or ".deleted" in operation.path:
                seen.append("cut")

    machine.files.watch = watch
    machine.log.truncate_to(Offset(10))
    assert seen.index("checkpoint") < seen.index("durable") < seen.index("cut")


def test_durable_records_survive_a_power_loss_whatever_else_is_lost() -> None:
    for seed in range(40):
        machine = Machine()
        machine.fill(15)
        machine.sync()
        machine.fill(15)
        machine.lose_power(seed)
        end = machine.log.end_offset
        assert end >= 45
        assert values_of(machine.log) == [f"{at}".encode().ljust(20, b".") for at in range(end)]


def test_a_log_that_cannot_be_opened_names_its_directory() -> None:
    machine = Machine()
    machine.fill(1)
    machine.kill()
    machine.files.unlink(f"{PATH}/{log_names(machine)[0]}")
    machine.files.make_dir(f"{PATH}/{0:020d}.log")
    with pytest.raises(Exception, match=f"{ORDERS}"):
        _ = machine.log


def test_a_log_that_refuses_damage_is_left_as_it_is_where_durable_records_are_damaged() -> None:
    machine = Machine(replace(SMALL, refuses_damage=True))
    machine.fill(12)
    machine.stop()
    path = sorted(name for name in machine.files.names(PATH) if name.endswith(".log"))[-1]
    machine.files.flip_bit(f"{PATH}/{path}", 70, 3)
    machine.fill(1)
    before = machine.files.read(f"{PATH}/{path}")
    machine.kill()

    with pytest.raises(StorageError, match="it is damaged behind offset"):
        _ = machine.log

    assert machine.files.read(f"{PATH}/{path}") == before


def test_a_log_that_refuses_damage_still_loses_what_was_torn() -> None:
    machine = Machine(replace(SMALL, refuses_damage=True))
    machine.fill(3)
    machine.stop()
    durable = machine.log.end_offset
    machine.fill(1)
    path = sorted(name for name in machine.files.names(PATH) if name.endswith(".log"))[-1]
    machine.files.flip_bit(f"{PATH}/{path}", len(machine.files.read(f"{PATH}/{path}")) - 1, 3)

    machine.kill()

    assert machine.log.end_offset == durable


def test_zeros_in_place_of_durable_records_are_damage_and_no_room() -> None:
    machine = Machine()
    machine.fill(5)
    machine.sync()
    machine.directory.checkpoint()
    name = f"{PATH}/{log_names(machine)[-1]}"
    size = machine.files.size(name)
    machine.fill(1)
    file = machine.files.open(name)
    file.truncate(size // 2)
    file.append([bytes(size - size // 2)])
    machine.kill()
    assert machine.log.report.cut_bytes > 0
    assert machine.log.report.below_recovery_point


def test_zeros_at_the_end_of_a_compacted_segment_that_was_durable_are_damage_too() -> None:
    machine = Machine(replace(SMALL, cleanup_compact=True))
    while machine.log.segment_count < 3:
        machine.sync()
        machine.directory.checkpoint()
        machine.fill(1)
    sealed = machine.log.segments[-2]
    assert machine.log.recovery_point == sealed.end_offset
    last = sealed.boundary_before(sealed.size - 1, 0)
    file = machine.files.open(f"{PATH}/{log_names(machine)[-2]}")
    size = file.size
    file.truncate(last)
    file.append([bytes(size - last)])
    file.close()

    machine.kill()

    assert machine.log.report.below_recovery_point
