"""What is done to a machine before and while it crashes. Each history is a sequence of ordinary work."""

from collections.abc import Callable

from everlog.model.topics import TopicPartition
from everlog.sim.chance import SimRandom
from tests.crash.machine import Machine

A = TopicPartition("a", 0)
B = TopicPartition("b-2", 1)

History = Callable[[Machine], None]


def appends_and_rolls(machine: Machine) -> None:
    """Batches of one and more records, with and without producers, over several segments."""
    machine.create(A)
    for n in range(14):
        machine.append(A, n % 3 + 1, producer=7 if n % 2 else -1)
    machine.sync(A)
    for n in range(10):
        machine.append(A, n % 4 + 1, producer=7 + n % 2)
    machine.checkpoint()
    machine.log(A).roll()
    machine.append(A, 2)
    machine.sync(A)
    machine.checkpoint()
    for _ in range(6):
        machine.append(A, 3, producer=9)


def group_commits(machine: Machine) -> None:
    """A sync after every other batch, as `flush.messages` asks for, with the work going on meanwhile."""
    machine.create(A)
    log = machine.log(A)
    for n in range(12):
        machine.append(A, 2, producer=1)
        plan = log.sync_plan()
        assert plan is not None
        # The loop appends, and may roll, while the sync runs beside it.
        machine.append(A, n % 3 + 1)
        plan.run()
        machine.ghosts[A].synced_end = int(plan.end_offset)
        log.synced(plan)
        if n % 4 == 3:
            machine.checkpoint()


def retention(machine: Machine) -> None:
    """Old segments go, by time, in two partitions; the logs go on."""
    machine.create(A)
    machine.create(B)
    for n in range(16):
        machine.append(A, 2, producer=3)
        machine.append(B, n % 3 + 1)
    machine.sync(A)
    machine.checkpoint()
    machine.clock.advance(machine.settings.retention_ms - 1000)
    for _ in range(8):
        machine.append(A, 1, producer=4)
    machine.clock.advance(10_000)
    machine.retain({A: machine.oldest_kept(A), B: int(machine.log(B).end_offset)})
    machine.append(B, 2)
    machine.sync(B)
    machine.remove_due()
    machine.append(A, 1, producer=3)
    machine.clock.advance(machine.settings.retention_ms * 2)
    machine.retain({A: int(machine.log(A).end_offset), B: int(machine.log(B).end_offset)})
    machine.remove_due()
    machine.append(A, 1, producer=3)
    machine.sync(A)


def retention_during_a_checkpoint(machine: Machine) -> None:
    """More segments expire while the checkpoint that lets the first ones go is being written."""
    machine.create(A)
    for _ in range(24):
        machine.append(A, 2)
        machine.clock.advance(1000)
    machine.sync(A)
    machine.checkpoint()
    ghost, log = machine.ghosts[A], machine.log(A)
    machine.clock.advance(machine.settings.retention_ms - 18_000)
    ghost.start_at_most = machine.oldest_kept(A)
    machine.directory.enforce_retention(machine.clock.wall(), {A: log.end_offset})
    plan = machine.directory.checkpoint_plan()
    written_start = int(log.start_offset)
    machine.clock.advance(9_000)
    ghost.start_at_most = machine.oldest_kept(A)
    machine.directory.enforce_retention(machine.clock.wall(), {A: log.end_offset})
    assert log.start_offset > written_start > 0
    plan.run()
    ghost.start_at_least = written_start
    machine.directory.checkpointed(plan)
    machine.checkpoint()
    machine.remove_due()
    machine.append(A, 1)


def deleted_records(machine: Machine) -> None:
    """The start moves by request, into the middle of a batch and over segments, then up to the end."""
    machine.create(A)
    for _ in range(16):
        machine.append(A, 3, producer=5)
    machine.sync(A)
    machine.checkpoint()
    machine.delete_records(A, 4)
    machine.checkpoint()
    machine.delete_records(A, 31)
    machine.retain({A: 31})
    machine.append(A, 2, producer=5)
    machine.remove_due()
    machine.delete_records(A, int(machine.log(A).end_offset))
    machine.checkpoint()
    machine.append(A, 2, producer=5)
    machine.sync(A)


def truncations(machine: Machine) -> None:
    """A follower's log is cut, in a segment and over several, and filled with another leader's records."""
    machine.create(A)
    for _ in range(8):
        machine.append(A, 2, producer=5)
    machine.epoch = 1
    for _ in range(8):
        machine.append(A, 2, producer=6)
    machine.sync(A)
    machine.checkpoint()
    machine.truncate(A, 28)
    machine.epoch = 2
    for _ in range(3):
        machine.append(A, 1)
    machine.sync(A)
    machine.checkpoint()
    machine.append(A, 1)
    machine.truncate(A, 6)
    machine.epoch = 4
    for _ in range(10):
        machine.append(A, 3)
    machine.sync(A)
    machine.truncate(A, 0)
    machine.epoch = 5
    machine.append(A, 1)
    machine.sync(A)
    machine.checkpoint()


def transactions(machine: Machine) -> None:
    """Transactions that commit and abort, one over a roll, one open when the machine stops."""
    machine.create(A)
    for round_number in range(4):
        for n in range(3):
            machine.append(A, 2, producer=11, transactional=True)
            machine.append(A, 1, producer=12, transactional=True)
            machine.append(A, 1, producer=-1 if n else 13)
        machine.end_txn(A, 11, commit=round_number % 2 == 0)
        machine.append(A, 1)
        machine.end_txn(A, 12, commit=round_number % 2 == 1)
        if round_number == 1:
            machine.sync(A)
            machine.checkpoint()
    machine.append(A, 1, producer=11, transactional=True)
    machine.sync(A)
    machine.append(A, 1, producer=12, transactional=True)


def clean_stops(machine: Machine) -> None:
    """Stops in good order, and starts after them that write, read only, or do nothing at all."""
    machine.create(A)
    machine.create(B)
    for _ in range(9):
        machine.append(A, 2, producer=5)
        machine.append(B, 1)
    machine.stop()
    machine.start()
    machine.append(A, 2, producer=5)
    machine.append(A, 2, producer=5)
    machine.stop()
    machine.start()
    machine.stop()
    machine.start()
    machine.append(B, 2)
    machine.sync(B)
    machine.checkpoint()
    machine.append(A, 1)


def stops_of_logs_without_records(machine: Machine) -> None:
    """Logs that get their first record after one stop, or two; until then a stop leaves their files alone."""
    machine.create(A)
    machine.create(B)
    machine.stop()
    machine.start()
    machine.append(A, 1, producer=5)
    machine.sync(A)
    machine.checkpoint()
    machine.append(A, 1, producer=5)
    machine.stop()
    machine.start()
    machine.append(B, 2)
    machine.epoch = 1
    machine.append(A, 1, producer=5)
    machine.append(A, 1)
    machine.stop()
    machine.start()
    machine.truncate(A, 0)
    machine.stop()
    machine.start()
    machine.epoch = 2
    machine.append(A, 2, producer=6)
    machine.stop()


def deleted_topics(machine: Machine) -> None:
    """A topic is deleted and another of the same name takes its place, which inherits nothing."""
    machine.create(A)
    machine.create(B)
    for _ in range(16):
        machine.append(A, 2, producer=5)
    machine.append(B, 1)
    machine.sync(A)
    machine.delete_records(A, 20)
    machine.checkpoint()
    machine.delete(A)
    machine.create(A)
    for _ in range(12):
        machine.append(A, 2)
    machine.sync(B)
    machine.remove_due()
    machine.append(A, 2)
    machine.sync(A)
    machine.checkpoint()
    machine.delete(A)
    machine.remove_due()


def go_ahead(machine: Machine, partition: TopicPartition, *counts: int, producer: int = -1) -> None:
    """Append batches through the log's lane; once more where the first ones have ended a segment."""
    for _ in range(2):
        machine.append_in_lane(partition, *counts, producer=producer)
        if machine.behind(partition):
            return
    raise AssertionError(f"{partition} knows all that was appended")


def appends_in_lanes(machine: Machine) -> None:
    """Batches that only a lane knows of when they are synced, when a checkpoint is written, at a roll."""
    machine.create(A)
    machine.create(B)
    machine.append(A, 1, producer=7)
    machine.append(B, 1)
    for n in range(3):
        go_ahead(machine, A, 2, 1, 3, producer=7)
        go_ahead(machine, A, n + 1)
        go_ahead(machine, B, 1, 1)
        machine.sync(A)
    machine.checkpoint()
    go_ahead(machine, A, 2, producer=7)
    machine.log(A).roll()
    machine.append(A, 1, producer=7)
    # More than the segment has room for: some go on in the next one.
    go_ahead(machine, A, *[2] * 12, producer=7)
    go_ahead(machine, B, 3, 2)
    machine.sync(B)
    for _ in range(3):
        # Nothing but what the lane has is there to be synced.
        go_ahead(machine, A, 1)
        machine.sync(A)
    machine.checkpoint()
    go_ahead(machine, A, 2, 2, producer=7)


def cuts_and_stops_with_lanes_ahead(machine: Machine) -> None:
    """Logs are cut, expire, begin an epoch and stop while batches are known to their lanes alone."""
    machine.create(A)
    machine.create(B)
    machine.append(A, 2, producer=5)
    machine.append(B, 1)
    go_ahead(machine, A, 2, 2, 2, 2, producer=5)
    go_ahead(machine, B, 1, 2)
    machine.truncate(A, 6)
    machine.epoch = 1
    machine.append(A, 1, producer=6)
    go_ahead(machine, A, 1, 1, producer=6)
    machine.sync(A)
    go_ahead(machine, A, 2, producer=6)
    machine.stop()
    machine.start()
    machine.append(A, 1)
    go_ahead(machine, A, 3, 3, producer=6)
    machine.delete_records(A, machine.ghosts[A].end - 4)
    machine.checkpoint()
    machine.append(B, 1, producer=8)
    machine.clock.advance(machine.settings.retention_ms * 2)
    go_ahead(machine, B, 2, 1, producer=8)
    machine.expire()
    go_ahead(machine, B, 1, producer=8)
    machine.clock.advance(machine.settings.retention_ms * 3)
    machine.expire()
    machine.append(A, 1)
    go_ahead(machine, A, 1, 2)
    machine.delete(B)
    machine.sync(A)
    go_ahead(machine, A, 2)


def random_work(machine: Machine, seed: int, steps: int) -> None:
    """Whatever chance brings, in any order."""
    chance = SimRandom(f"work {seed}")
    machine.create(A)
    machine.create(B)
    for _ in range(steps):
        partition = chance.pick((A, B))
        log, ghost = machine.log(partition), machine.ghosts[partition]
        match chance.below(20):
            case 0 | 1:
                machine.sync(partition)
            case 2:
                machine.checkpoint()
            case 3:
                log.roll()
            case 4 if log.end_offset > log.start_offset:
                machine.delete_records(
                    partition, log.start_offset + chance.below(log.end_offset - log.start_offset + 1)
                )
            case 5 if ghost.batches:
                machine.truncate(partition, machine.batch_start(partition, chance))
                machine.epoch += 1
            case 6:
                machine.stop()
                machine.start()
            case 7:
                machine.delete(partition)
                machine.create(partition)
            case 8:
                machine.clock.advance(machine.settings.retention_ms // 3)
                machine.expire()
            case 9:
                machine.epoch += 1
            case 10 | 11 | 12 | 13:
                counts = [chance.below(3) + 1 for _ in range(chance.below(3) + 1)]
                machine.append_in_lane(partition, *counts, producer=chance.pick((-1, 1, 2)))
            case _:
                machine.append(partition, chance.below(4) + 1, producer=chance.pick((-1, 1, 2)))


SCRIPTED: dict[str, History] = {
    history.__name__: history
    for history in (
        appends_and_rolls,
        group_commits,
        retention,
        retention_during_a_checkpoint,
        deleted_records,
        truncations,
        transactions,
        clean_stops,
        stops_of_logs_without_records,
        deleted_topics,
        appends_in_lanes,
        cuts_and_stops_with_lanes_ahead,
    )
}
