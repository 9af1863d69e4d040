"""Durability where it is asked for: flush.messages, flush.ms, and what a failed sync means (L8)."""

from dataclasses import replace

import pytest

from everlog.model.errors import StorageError
from everlog.model.ids import Offset
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.faults import Crashed, Fault, Kind, Moment, Operation
from everlog.sim.platter import Loss
from tests.unit.log.builders import ORDERS, PATH, ROOT, SMALL, Machine, a_batch, records_of, values, values_of


def test_by_default_no_append_waits_for_the_disk() -> None:
    machine = Machine()
    assert not machine.append(a_batch()).wait_for_sync
    assert machine.log.sync_due_at is None


def test_flush_messages_of_one_makes_every_append_wait() -> None:
    machine = Machine(replace(SMALL, flush_messages=1))
    for _ in range(3):
        assert machine.append(a_batch()).wait_for_sync
        assert machine.log.sync_due_at == machine.clock.now()
        machine.sync()
        assert machine.log.sync_due_at is None


def test_the_append_that_reaches_flush_messages_waits_and_those_before_do_not() -> None:
    machine = Machine(replace(SMALL, flush_messages=5))
    assert not machine.append(a_batch(values(2))).wait_for_sync
    assert not machine.append(a_batch(values(2))).wait_for_sync
    assert machine.append(a_batch(values(2))).wait_for_sync
    machine.sync()
    assert not machine.append(a_batch(values(2))).wait_for_sync


def test_with_flush_ms_all_appends_share_the_sync_that_the_first_one_set() -> None:
    machine = Machine(replace(SMALL, flush_ms=100))
    assert machine.append(a_batch()).wait_for_sync
    due = machine.log.sync_due_at
    assert due == machine.clock.now() + 100
    machine.clock.advance(60)
    assert machine.append(a_batch()).wait_for_sync
    assert machine.log.sync_due_at == due
    machine.sync()
    assert machine.log.recovery_point == 2


def test_flush_ms_of_zero_is_at_once() -> None:
    machine = Machine(replace(SMALL, flush_ms=0))
    assert machine.append(a_batch()).wait_for_sync
    assert machine.log.sync_due_at == machine.clock.now()


def test_flush_settings_may_change_while_the_log_is_open() -> None:
    machine = Machine()
    assert not machine.append(a_batch()).wait_for_sync
    machine.log.reconfigure(replace(SMALL, flush_messages=1))
    assert machine.append(a_batch()).wait_for_sync


def test_nothing_written_is_nothing_to_sync() -> None:
    machine = Machine()
    machine.append(a_batch())
    assert machine.log.sync_plan() is not None
    assert machine.log.sync_plan() is None


def test_a_sync_covers_data_first_then_what_is_derived_then_names() -> None:
    machine = Machine()
    machine.fill(20, epoch=3)
    assert machine.log.sealed_unsynced
    synced: list[str] = []

    def watch(operation: Operation, moment: Moment) -> None:
        if moment is Moment.AFTER and operation.kind in (Kind.SYNC, Kind.SYNC_DIR):
            synced.append(operation.path.rpartition(".")[2] if operation.kind is Kind.SYNC else "directory")

    machine.files.watch = watch
    machine.sync()

    kinds = [kind for at, kind in enumerate(synced) if at == 0 or synced[at - 1] != kind]
    assert kinds[0] == "log"
    assert synced.count("log") == machine.log.segment_count
    assert synced.index("index") > max(at for at, kind in enumerate(synced) if kind == "log")
    assert {"index", "timeindex", "snapshot", "tmp", "directory"} <= set(synced)
    assert synced[-1] == "directory"
    assert not machine.log.sealed_unsynced


def test_after_a_failed_sync_nothing_is_appended_and_everything_is_read() -> None:
    machine = Machine()
    machine.fill(3)
    machine.files.faults.append(Fault(Kind.SYNC, 5, path_part=".log"))
    plan = machine.log.sync_plan()
    assert plan is not None
    with pytest.raises(OSError, match=r"\[Errno 5\]") as failed:
        plan.run()
    machine.log.sync_failed(failed.value)
    machine.files.faults.clear()

    with pytest.raises(StorageError):
        machine.append(a_batch())
    assert len(values_of(machine.log)) == 9
    assert machine.log.recovery_point == 0

    again = machine.directory.reopen(ORDERS)
    assert again.failure is None
    machine.append(a_batch())
    machine.sync()
    assert machine.log.recovery_point == 10


def test_what_a_failed_sync_was_about_is_written_again_and_a_crash_meanwhile_takes_nothing_durable() -> None:
    def failed() -> Machine:
        machine = Machine()
        machine.fill(4)
        machine.sync()
        machine.fill(20, epoch=3)
        machine.files.faults.append(Fault(Kind.SYNC, 5, path_part=".log"))
        plan = machine.log.sync_plan()
        assert plan is not None
        with pytest.raises(OSError, match=r"\[Errno 5\]") as problem:
            plan.run()
        machine.log.sync_failed(problem.value)
        machine.files.faults.clear()
        return machine

    whole = failed()
    written = values_of(whole.log)
    begun = whole.files.operations
    assert whole.log.rewrite_plan().run() is None
    ended = whole.files.operations
    whole.log.rewritten()
    whole.append(a_batch(), epoch=3)
    whole.sync()
    assert whole.log.recovery_point == whole.log.end_offset
    whole.files = whole.files.after_crash(SimRandom("power"), Loss.ALL)
    whole.kill()
    assert values_of(whole.log)[: len(written)] == written

    for number in range(begun, ended):
        machine = failed()
        machine.directory.checkpoint()
        machine.files.crash_at(machine.files.operations + number - begun, Moment.BEFORE)
        with pytest.raises(Crashed):
            machine.log.rewrite_plan().run()
        machine.lose_power(number)
        found = values_of(machine.log)
        assert len(found) >= 12, number
        assert found == written[: len(found)], number


def test_a_log_cannot_be_cut_while_it_is_written_anew() -> None:
    machine = Machine()
    machine.fill(3)
    machine.log.sync_failed(OSError(5, "Input/output error"))
    plan = machine.log.rewrite_plan()
    with pytest.raises(StorageError, match="anew"):
        machine.log.truncate_to(Offset(1))
    plan.run()
    machine.log.rewritten()
    machine.log.truncate_to(Offset(3))
    assert machine.log.end_offset == 3


def test_a_log_whose_sync_failed_is_not_closed_cleanly() -> None:
    machine = Machine()
    machine.fill(3)
    machine.files.faults.append(Fault(Kind.SYNC, 5, path_part=".log", times=1))
    machine.directory.close(SimAside())
    assert machine.directory.problems
    assert ".kafka_cleanshutdown" not in machine.files.names(ROOT)
    machine.kill()
    assert not machine.directory.clean
    assert len(records_of(machine.log)) == 9


def test_a_plan_outlives_the_removal_of_a_segment_it_covers() -> None:
    machine = Machine(replace(SMALL, file_delete_delay_ms=0))
    machine.fill(20)
    plan = machine.log.sync_plan()
    assert plan is not None
    machine.log.move_start_to(machine.log.end_offset)
    machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
    machine.directory.checkpoint()
    deletions = machine.directory.due_deletions(machine.clock.now())
    assert deletions is not None
    deletions.run()
    assert len([name for name in machine.files.names(PATH) if name.endswith(".log")]) == 1
    plan.run()
    machine.log.synced(plan)
    assert machine.log.recovery_point == 60
