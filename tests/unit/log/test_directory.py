"""All partitions of one log directory: start, stop, create, delete, checkpoint (L10, L11)."""

import pytest

from everlog.log.partition import Origin
from everlog.log.settings import LogSettings
from everlog.model.errors import StorageError
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.sim.aside import SimAside
from everlog.sim.faults import Fault, Kind, Moment, Operation
from tests.unit.log.builders import (
    ORDERS,
    PATH,
    ROOT,
    SMALL,
    TOPIC_ID,
    Machine,
    a_batch,
    records_of,
    values_of,
)

MARKER = f"{ROOT}/.kafka_cleanshutdown"


def partitions(machine: Machine, count: int) -> list[TopicPartition]:
    made = [TopicPartition("many", number) for number in range(count)]
    for partition in made:
        machine.directory.create(partition, TOPIC_ID, SMALL)
    return made


def test_a_partition_is_a_directory_that_knows_its_topics_id() -> None:
    machine = Machine()
    machine.directory.create(ORDERS, TOPIC_ID, SMALL)
    assert machine.directory.topic_id(ORDERS) == TOPIC_ID
    machine.sync()
    machine.lose_power()
    assert ORDERS in machine.directory
    assert machine.directory.topic_id(ORDERS) == TOPIC_ID
    assert machine.log.end_offset == 0


def test_a_partition_that_was_never_synced_may_forget_all_in_a_power_loss_and_nothing_later() -> None:
    known: set[bytes | None] = set()
    there: set[bool] = set()
    for seed in range(20):
        machine = Machine()
        machine.directory.create(ORDERS, TOPIC_ID, SMALL)
        machine.lose_power(seed)
        there.add(ORDERS in machine.directory)
        known.add(machine.directory.topic_id(ORDERS))
        assert machine.log.end_offset == 0
        machine.directory.set_topic_id(ORDERS, TOPIC_ID)
        assert machine.directory.topic_id(ORDERS) == TOPIC_ID
        machine.sync()
        machine.lose_power(seed)
        assert machine.directory.topic_id(ORDERS) == TOPIC_ID
    assert known == {TOPIC_ID, None}
    assert there == {True, False}


def test_names_that_are_no_partitions_are_left_alone() -> None:
    machine = Machine()
    for name in ("a-b", "a-01", "-0", "a-0-stray", "a-1-future", "meta.properties", "x"):
        machine.files.make_dir(f"{ROOT}/{name}")
    machine.kill()
    assert machine.directory.partitions == []


def test_after_a_clean_stop_partitions_are_opened_when_they_are_first_used() -> None:
    machine = Machine()
    made = partitions(machine, 5)
    machine.stop()
    assert machine.directory.clean
    assert len(machine.directory) == 5
    assert machine.directory.open_logs == []
    assert list(machine.directory.recover(lambda _: SMALL)) == []
    assert machine.directory.get(made[3], SMALL) is machine.directory.get(made[3], SMALL)
    assert len(machine.directory.open_logs) == 1
    assert machine.directory.get(TopicPartition("many", 7), SMALL) is None


def test_after_an_unclean_stop_all_are_recovered() -> None:
    machine = Machine()
    made = partitions(machine, 3)
    machine.kill()
    assert not machine.directory.clean
    assert [log.partition for log in machine.directory.recover(lambda _: SMALL)] == made


def test_one_partition_that_cannot_be_opened_does_not_stop_the_others() -> None:
    machine = Machine()
    made = partitions(machine, 3)
    machine.kill()
    machine.files.faults.append(Fault(Kind.READ, 5, path_part="many-1/"))
    machine.files.faults.append(Fault(Kind.CREATE, 5, path_part="many-1/"))
    machine.files.unlink(f"{ROOT}/{made[1]}/{0:020d}.log")
    opened = [log.partition for log in machine.directory.recover(lambda _: SMALL)]
    assert opened == [made[0], made[2]]
    assert len(machine.directory.problems) == 1
    with pytest.raises(StorageError, match="many-1"):
        machine.directory.get(made[1], SMALL)


def test_the_clean_marker_goes_durably_before_anything_is_written() -> None:
    machine = Machine()
    machine.fill(3)
    machine.directory.close(SimAside(), broker_epoch=12)
    assert machine.files.exists(MARKER)
    machine.kill()
    assert machine.directory.clean
    assert machine.directory.last_broker_epoch == 12
    machine.lose_power()
    assert not machine.directory.clean


def test_the_clean_marker_is_the_last_thing_that_a_stop_writes() -> None:
    machine = Machine()
    machine.fill(12)
    operations: list[Operation] = []
    machine.files.watch = lambda operation, moment: (
        operations.append(operation) if moment is Moment.AFTER else None
    )
    machine.directory.close(SimAside())
    written = [operation for operation in operations if operation.kind is not Kind.SYNC_DIR]
    assert ".kafka_cleanshutdown" in written[-1].path
    machine.lose_power()
    assert machine.directory.clean
    assert machine.log.report.scanned_bytes == 0
    assert len(values_of(machine.log)) == 36


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_damaged_marker_is_none(content: bytes) -> None:
    machine = Machine()
    machine.fill(1)
    machine.directory.close(SimAside())
    machine.files.unlink(MARKER)
    file = machine.files.open(MARKER, create=True)
    file.append((content,))
    machine.kill()
    assert not machine.directory.clean
    assert len(machine.directory.problems) == 1
    assert not machine.files.exists(MARKER)


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"],
)
def test_a_damaged_checkpoint_falls_back_to_what_is_safe(name: str) -> None:
    machine = Machine()
    machine.fill(12)
    machine.log.move_start_to(Offset(20))
    machine.stop()
    machine.directory.close(SimAside())
    machine.files.flip_bit(f"{ROOT}/{name}", 0, 3)
    machine.kill()
    assert not machine.directory.clean
    assert f"{name} line 1" in machine.directory.problems[0]
    assert [record.offset for record in records_of(machine.log, 20)] == list(range(20, 36))


def test_checkpoints_keep_what_is_known_of_partitions_that_are_not_open() -> None:
    machine = Machine()
    machine.fill(3)
    machine.directory.high_watermarks[ORDERS] = Offset(9)
    machine.stop()
    assert machine.directory.open_logs == []
    machine.directory.checkpoint()
    machine.stop()
    assert machine.directory.high_watermarks == {ORDERS: 9}
    assert machine.log.recovery_point == 9


def test_a_stop_that_leaves_partitions_unrecovered_is_not_clean() -> None:
    machine = Machine()
    partitions(machine, 2)
    machine.kill()
    machine.directory.get(TopicPartition("many", 0), SMALL)
    machine.directory.close(SimAside())
    assert not machine.files.exists(MARKER)


def test_a_deleted_partition_is_gone_at_once_and_its_files_after_a_while() -> None:
    machine = Machine()
    machine.fill(12)
    log = machine.log
    slice_before = log.read(Offset(0), 1000, Offset(36))
    machine.directory.delete(ORDERS)

    assert ORDERS not in machine.directory
    assert not machine.files.exists(PATH)
    names = [name for name in machine.files.names(ROOT) if name.endswith("-delete")]
    assert len(names) == 1
    assert names[0].startswith("orders-0.")
    assert slice_before is not None
    assert slice_before.read()
    with pytest.raises(StorageError):
        log.append(a_batch(), log.epochs.latest, machine.clock.wall(), Origin.CLIENT)

    assert machine.directory.due_deletions(machine.clock.now()) is None
    machine.clock.advance(60_000)
    deletions = machine.directory.due_deletions(machine.clock.now())
    assert deletions is not None
    deletions.run()
    assert not [name for name in machine.files.names(ROOT) if name.endswith("-delete")]


def test_a_partition_may_be_made_again_under_its_old_name() -> None:
    machine = Machine()
    machine.fill(12)
    machine.sync()
    machine.directory.checkpoint()
    machine.directory.delete(ORDERS)
    assert machine.log.end_offset == 0
    machine.fill(1)
    machine.kill()
    assert [record.offset for record in records_of(machine.log)] == [0, 1, 2]


def test_what_a_crash_left_of_a_deletion_goes_at_the_next_start() -> None:
    machine = Machine()
    machine.fill(1)
    machine.directory.delete(ORDERS)
    machine.lose_power()
    assert ORDERS not in machine.directory
    deletions = machine.directory.due_deletions(machine.clock.now())
    assert deletions is not None
    deletions.run()
    assert machine.files.names(ROOT) == []


def test_the_longest_topic_name_can_be_deleted() -> None:
    machine = Machine()
    longest = TopicPartition("x" * 249, 123_456)
    machine.directory.create(longest, TOPIC_ID, SMALL)
    machine.directory.delete(longest)
    assert max(len(name) for name in machine.files.names(ROOT)) == 255


def test_a_full_disk_refuses_a_new_partition_and_takes_it_later() -> None:
    machine = Machine()
    machine.files.quota_bytes = 0
    with pytest.raises(StorageError):
        machine.directory.create(ORDERS, TOPIC_ID, LogSettings())
    machine.files.quota_bytes = None
    assert machine.log.end_offset == 0


def test_retention_leaves_a_log_without_a_known_high_watermark_alone() -> None:
    machine = Machine()
    machine.fill(12)
    machine.log.move_start_to(Offset(30))
    assert not machine.directory.enforce_retention(machine.clock.wall(), {})
    assert machine.directory.enforce_retention(machine.clock.wall(), {ORDERS: Offset(36)})
