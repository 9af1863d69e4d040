"""Transactions over crashes at every step of the disk: committed in all places or in none (P5, C6, C13).

A history is played once while copies of the disk are taken around each operation: what a process leaves that
is killed there. A node is started on each copy, goes on, and is asked what can be read. With `flush.messages`
at 1 the machine may lose power too, and what was not synced with it.
"""

from dataclasses import dataclass, field

import pytest

from everlog.model.errors import ErrorCode
from everlog.model.ids import Offset
from everlog.records.batch import whole_batches
from everlog.records.reader import read_records
from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Kind, Moment, Operation
from everlog.sim.platter import Loss
from tests.unit.broker.simulated import SimulatedNode
from tests.unit.broker.transactional import (
    NONE,
    SMALL,
    V1,
    V2,
    TxnProducer,
    a_node,
    committed,
    fetched_offset,
)

MINUTE_MS = 60_000
NEVER = (1 << 63) - 1


@dataclass
class Played:
    """A history, and the disk as it was around each of its operations."""

    copies: list[tuple[str, int, SimFiles]] = field(default_factory=list[tuple[str, int, SimFiles]])
    """What the disk was doing, how many transactions had been answered as committed, and the disk."""
    answered: int = 0


def history(producer: TxnProducer, played: Played) -> None:
    """Three transactions over two partitions and a group's offset: committed, aborted, committed."""
    for at, commit in enumerate((True, False, True)):
        producer.write(b"%d" % at, 0)
        producer.write(b"%d" % at, 1)
        assert producer.commit_offset(at + 1) is NONE
        assert producer.end(commit=commit) is NONE
        played.answered = at + 1


def play(version: int, loss: Loss, flush_messages: int = NEVER) -> Played:
    node = a_node(log_flush_interval_messages=str(flush_messages))
    producer = TxnProducer(node, version=version)
    producer.init()
    played = Played()

    def watch(operation: Operation, moment: Moment) -> None:
        if operation.kind is Kind.READ or moment is Moment.BEFORE:
            return  # Before an operation is behind the one before it.
        copy = node.files.after_crash(SimRandom(f"{operation.number} {moment}"), loss)
        played.copies.append((f"{moment.value} {operation}", played.answered, copy))

    node.files.watch = watch
    history(producer, played)
    node.files.watch = None
    return played


def restarted(files: SimFiles, flush_messages: int = NEVER) -> SimulatedNode:
    """A node on what a crash has left, with all of it read."""
    node = SimulatedNode(files, log_flush_interval_messages=str(flush_messages), **SMALL)
    node.pass_time(1000)
    node.aside.run_all()
    return node


def state(node: SimulatedNode) -> tuple[list[bytes], list[bytes], tuple[ErrorCode, int]]:
    return committed(node, partition=0), committed(node, partition=1), fetched_offset(node)


# What may be read in the end, by how many of the transactions are over. The second was aborted.
OUTCOMES: dict[int, tuple[list[bytes], tuple[ErrorCode, int]]] = {
    0: ([], (NONE, -1)),
    1: ([b"0"], (NONE, 1)),
    2: ([b"0"], (NONE, 1)),
    3: ([b"0", b"2"], (NONE, 3)),
}


def check(node: SimulatedNode, answered: int, where: str) -> None:
    """After time has aborted what was left open, all places agree, and nothing answered for is lost."""
    node.pass_time(2 * MINUTE_MS)
    node.aside.run_all()
    for partition in (0, 1):
        replica = node.replica("orders", partition)
        assert replica.last_stable_offset == replica.high_watermark, where
    one, two, offset = state(node)
    assert one == two, where
    # The transaction under way may have been committed, if its answer was on its way.
    allowed = [OUTCOMES[over] for over in (answered, min(answered + 1, 3))]
    assert (one, offset) in allowed, where


def go_on(node: SimulatedNode, version: int, where: str) -> None:
    """A producer takes the id over, and its transaction is read after all of the past."""
    before = committed(node, partition=0)
    producer = TxnProducer(node, version=version)
    assert producer.init().error_code == NONE, where
    producer.write(b"after", 0)
    producer.write(b"after", 1)
    assert producer.end() is NONE, where
    assert committed(node, partition=0) == [*before, b"after"], where
    assert committed(node, partition=1) == [*before, b"after"], where


@pytest.mark.parametrize("version", [V1, V2])
def test_a_process_that_is_killed_at_any_operation_of_the_disk_tears_no_transaction(version: int) -> None:
    played = play(version, Loss.NONE)
    assert len(played.copies) > 40

    for where, answered, files in played.copies:
        node = restarted(files)
        check(node, answered, where)
        go_on(node, version, where)


@pytest.mark.parametrize("loss", [Loss.ALL, Loss.SOME])
@pytest.mark.parametrize("version", [V1, V2])
def test_a_loss_of_power_at_any_operation_tears_no_transaction_that_is_synced(
    version: int, loss: Loss
) -> None:
    played = play(version, loss, flush_messages=1)

    for where, answered, files in played.copies:
        node = restarted(files, flush_messages=1)
        check(node, answered, where)
        go_on(node, version, where)


@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_is_killed_behind_its_decision_carries_it_out_after_the_restart(
    commit: bool,
) -> None:
    node = a_node()
    producer = TxnProducer(node)
    producer.init()
    producer.write(b"x", 0)
    producer.write(b"x", 1)
    producer.commit_offset(7)
    found: list[SimFiles] = []

    def watch(operation: Operation, moment: Moment) -> None:
        # The first marker is about to be written: the decision is in the log, and nothing else is.
        is_marker = operation.kind is Kind.APPEND and "/orders-" in operation.path
        if is_marker and moment is Moment.BEFORE and not found:
            found.append(node.files.after_crash(SimRandom(1), Loss.NONE))

    node.files.watch = watch
    producer.end(commit=commit)

    again = restarted(found[0])

    expected = [b"x"] if commit else []
    assert state(again) == (expected, expected, (NONE, 7 if commit else -1))
    shards = again.broker.coordinators.txns
    assert [txn.state.text for _, shard in shards.serving() for txn in shard] == [
        "CompleteCommit" if commit else "CompleteAbort"
    ]


def test_a_producer_whose_answer_was_lost_in_the_crash_gets_it_from_the_next_coordinator() -> None:
    node = a_node()
    producer = TxnProducer(node)
    producer.init()
    producer.write(b"x")
    before = producer.stamp
    producer.end()
    answer = producer.stamp

    node.start()
    node.pass_time(1000)
    producer.reconnect(node)

    assert producer.end(stamp=before) is NONE
    assert producer.stamp == answer
    assert committed(node) == [b"x"]


def test_an_open_transaction_goes_on_after_a_restart() -> None:
    node = a_node()
    producer = TxnProducer(node)
    producer.init()
    producer.write(b"before", 0)

    node.start()
    node.pass_time(1000)
    producer.reconnect(node)
    producer.write(b"behind", 0)
    producer.write(b"other", 1)
    assert producer.end() is NONE

    assert committed(node) == [b"before", b"behind"]
    assert committed(node, partition=1) == [b"other"]


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_aborted_records_stay_hidden_over_rolls_and_restarts(stop: str) -> None:
    node = a_node()
    producer = TxnProducer(node)
    producer.init()
    for at, commit in enumerate((True, False, False, True)):
        producer.write(b"%d a" % at)
        node.replica("orders").opened().roll()
        producer.write(b"%d b" % at)
        producer.end(commit=commit)
    expected = [b"0 a", b"0 b", b"3 a", b"3 b"]
    assert _all_committed(node) == expected

    if stop == "clean":
        node.node.close()
    node.start()
    node.pass_time(1000)

    assert _all_committed(node) == expected
    assert node.replica("orders").opened().segment_count > 4


def _all_committed(node: SimulatedNode) -> list[bytes]:
    """All committed records of a log with several segments, read from its start."""
    log = node.replica("orders").opened()
    found: list[bytes] = []
    offset = log.start_offset
    end = log.last_stable_offset(log.end_offset)
    while (piece := log.read(offset, 1 << 20, end)) is not None:
        for batch in whole_batches(piece.read()):
            aborted = log.aborted_between(Offset(batch.base_offset), Offset(batch.next_offset))
            hidden = any(
                one.producer_id == batch.producer_id
                and one.first_offset <= batch.base_offset < one.last_offset
                for one in aborted
            )
            if not batch.is_control and not hidden:
                found += [record.value or b"" for record in read_records(batch)]
            offset = Offset(batch.next_offset)
    return found
