"""The end of a transaction in both versions of the protocol: what is late, repeated or at odds (P5)."""

import pytest

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.states import TxnState
from everlog.coordinator.txn.transaction import LAST_CLIENT_EPOCH, MAX_EPOCH
from everlog.model.errors import ErrorCode, StorageError
from tests.unit.coordinator.txn.bench import ORDERS, PAYMENTS, Bench, code

V1, V2 = 0, 2
COMMIT, ABORT = True, False
NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING


def before(producer: ProducerStamp) -> ProducerStamp:
    return ProducerStamp(producer.producer_id, producer.epoch - 1)


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("commit", [COMMIT, ABORT])
def test_every_partition_gets_its_marker_and_then_the_transaction_is_over(commit: bool, version: int) -> None:
    bench = Bench()
    producer = bench.begun(ORDERS, PAYMENTS, version=version)

    after = bench.ended(producer, commit=commit, version=version).only

    assert [(one, marker.commit) for one, marker in bench.partitions.written] == [
        (ORDERS, commit),
        (PAYMENTS, commit),
    ]
    assert bench.state() is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)
    assert bench.txn().partitions == frozenset()
    assert {marker.transaction_version for _, marker in bench.partitions.written} == {version}
    raised = 1 if version == V2 else 0
    assert after == (producer.producer_id, producer.epoch + raised)
    # Markers bear the epoch that comes after, so what is still on its way from before them is fenced.
    assert {marker.producer for _, marker in bench.partitions.written} == {after}


def test_the_decision_is_in_the_log_before_the_answer_and_before_the_first_marker() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.world.journal.holds = True

    replies = bench.ended(producer)
    assert replies == []
    assert bench.partitions.written == []
    bench.world.journal.settle()

    assert replies.only.epoch == producer.epoch + 1
    assert len(bench.partitions.written) == 1


def test_no_marker_is_written_for_a_decision_that_is_lost() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.world.journal.holds = True
    replies = bench.ended(producer)

    bench.world.journal.settle(StorageError("the disk is gone"))

    assert isinstance(replies[0], StorageError)
    assert bench.partitions.written == []


def test_a_decision_that_cannot_be_written_leaves_the_transaction_open() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.world.journal.refusal = StorageError("the disk is full")

    assert isinstance(bench.ended(producer)[0], StorageError)
    assert bench.state() is TxnState.ONGOING
    bench.world.journal.refusal = None

    assert code(bench.ended(producer)) is NONE


# --- late and repeated, version 2


def test_a_repeated_end_gets_the_same_answer() -> None:
    bench = Bench()
    producer = bench.begun()
    answer = bench.ended(producer).only

    assert bench.ended(producer).only == answer
    bench.restart()
    assert bench.ended(producer).only == answer
    assert len(bench.partitions.written) == 1


def test_a_late_end_does_not_hit_the_next_transaction() -> None:
    bench = Bench()
    producer = bench.begun()
    after = bench.ended(producer).only
    bench.added(after, PAYMENTS)

    # A copy of the first EndTxn arrives late, and another that wanted the opposite.
    assert code(bench.ended(producer, commit=COMMIT)) is FENCED
    assert code(bench.ended(producer, commit=ABORT)) is FENCED
    assert bench.state() is TxnState.ONGOING


def test_in_version_1_a_late_end_hits_the_next_transaction() -> None:
    """What version 2 is for: nothing tells the two transactions apart. Kept as Kafka has it."""
    bench = Bench()
    producer = bench.begun(version=V1)
    bench.ended(producer, version=V1)
    bench.added(producer, PAYMENTS, version=V1)

    assert code(bench.ended(producer, version=V1)) is NONE
    assert bench.state() is TxnState.COMPLETE_COMMIT


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(COMMIT, COMMIT, CONCURRENT), (COMMIT, ABORT, WRONG_STATE), (ABORT, COMMIT, WRONG_STATE)],
)
@pytest.mark.parametrize("version", [V1, V2])
def test_what_was_decided_is_not_decided_again_while_markers_are_written(
    first: bool, second: bool, expected: ErrorCode, version: int
) -> None:
    bench = Bench()
    producer = bench.begun(version=version)
    bench.partitions.holds = True
    bench.ended(producer, commit=first, version=version)

    assert code(bench.ended(producer, commit=second, version=version)) is expected


def test_the_next_end_waits_until_the_markers_of_the_last_are_written() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.partitions.holds = True
    after = bench.ended(producer).only

    assert code(bench.ended(after, commit=ABORT)) is CONCURRENT
    bench.partitions.release()
    assert code(bench.ended(after, commit=ABORT)) is NONE


def after_state(bench: Bench, state: TxnState) -> ProducerStamp:
    """The client of an id that is in a state at rest, which an end has brought it to but for Empty."""
    if state is TxnState.EMPTY:
        bench.init()
        return bench.init()
    producer = bench.begun()
    return bench.ended(producer, commit=state is TxnState.COMPLETE_COMMIT).only


# Kafka's table for version 2: repeated with the epoch before, and sent anew with the current one.
@pytest.mark.parametrize(
    ("state", "commit", "is_repeated", "expected"),
    [
        (TxnState.EMPTY, ABORT, True, FENCED),
        (TxnState.EMPTY, ABORT, False, NONE),
        (TxnState.EMPTY, COMMIT, True, FENCED),
        (TxnState.EMPTY, COMMIT, False, WRONG_STATE),
        (TxnState.COMPLETE_ABORT, ABORT, True, NONE),
        (TxnState.COMPLETE_ABORT, ABORT, False, NONE),
        (TxnState.COMPLETE_ABORT, COMMIT, True, WRONG_STATE),
        (TxnState.COMPLETE_ABORT, COMMIT, False, WRONG_STATE),
        (TxnState.COMPLETE_COMMIT, ABORT, True, WRONG_STATE),
        (TxnState.COMPLETE_COMMIT, ABORT, False, NONE),
        (TxnState.COMPLETE_COMMIT, COMMIT, True, NONE),
        (TxnState.COMPLETE_COMMIT, COMMIT, False, WRONG_STATE),
    ],
)
def test_ends_of_no_transaction_in_version_2(
    state: TxnState, commit: bool, is_repeated: bool, expected: ErrorCode
) -> None:
    bench = Bench()
    client = after_state(bench, state)

    replies = bench.ended(before(client) if is_repeated else client, commit=commit)

    assert code(replies) is expected
    if expected is NONE:
        # A new abort raises the epoch once more; a repeated end answers what the client should have by now.
        assert replies.only.epoch == client.epoch + (0 if is_repeated else 1)


@pytest.mark.parametrize(
    ("state", "commit", "expected"),
    [
        (TxnState.EMPTY, ABORT, WRONG_STATE),
        (TxnState.EMPTY, COMMIT, WRONG_STATE),
        (TxnState.COMPLETE_ABORT, ABORT, NONE),
        (TxnState.COMPLETE_ABORT, COMMIT, WRONG_STATE),
        (TxnState.COMPLETE_COMMIT, ABORT, WRONG_STATE),
        (TxnState.COMPLETE_COMMIT, COMMIT, NONE),
    ],
)
def test_ends_of_no_transaction_in_version_1(state: TxnState, commit: bool, expected: ErrorCode) -> None:
    bench = Bench()
    client = after_state(bench, state)

    assert code(bench.ended(client, commit=commit, version=V1)) is expected
    assert bench.state() is state


@pytest.mark.parametrize("version", [V1, V2])
def test_only_the_producer_that_has_the_id_may_end_its_transaction(version: int) -> None:
    bench = Bench()
    producer = bench.begun(version=version)

    stranger = ProducerStamp(producer.producer_id + 1, producer.epoch)
    assert code(bench.ended(stranger, version=version)) is WRONG_ID
    later = ProducerStamp(producer.producer_id, producer.epoch + 1)
    assert code(bench.ended(later, version=version)) is FENCED
    assert code(bench.ended(producer, name="nobody", version=version)) is WRONG_ID
    assert bench.state() is TxnState.ONGOING


# --- epochs that run out


def test_the_end_of_the_last_epoch_gives_the_client_another_producer_id() -> None:
    bench = Bench()
    last = bench.init_at(LAST_CLIENT_EPOCH)
    bench.added(last)
    bench.partitions.holds = True

    answer = bench.ended(last).only
    assert answer == (1002, 0)
    assert code(bench.ended(last)) is CONCURRENT
    bench.partitions.release()

    assert [marker.producer for _, marker in bench.partitions.written] == [(last.producer_id, MAX_EPOCH)]
    assert bench.ended(last).only == answer
    assert bench.added(answer) == [None]
    # Only now is it too late for a copy of the first.
    assert code(bench.ended(last)) in (FENCED, WRONG_ID)


def test_a_coordinator_that_dies_while_the_id_changes_goes_on_with_the_new_one() -> None:
    bench = Bench()
    last = bench.init_at(LAST_CLIENT_EPOCH)
    bench.added(last)
    bench.partitions.holds = True
    answer = bench.ended(last).only

    bench.restart()

    assert [marker.producer for _, marker in bench.partitions.written] == [(last.producer_id, MAX_EPOCH)]
    assert bench.txn().producer == answer
    assert bench.ended(last).only == answer
