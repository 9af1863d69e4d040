"""A transaction begins in a partition if its coordinator says so; markers are above their records (P5)."""

from dataclasses import replace

import pytest

from everlog.log.partition import Origin
from everlog.log.verification import Verification
from everlog.model.errors import ErrorCode, Refused
from everlog.records.batch import BatchView
from tests.unit.log.builders import SMALL, Machine, Sequenced, a_batch, a_marker

PRODUCER = 9
DAY_MS = 24 * 3600 * 1000


def a_machine() -> Machine:
    return Machine(replace(SMALL, verify_transactions=True))


def a_txn_batch(sequence: int = 0, epoch: int = 0) -> BatchView:
    return a_batch(sender=Sequenced(PRODUCER, sequence, epoch), transactional=True)


def asked(machine: Machine, batch: BatchView, *, epoch_bump: bool = False) -> Verification:
    question = machine.log.producers.begin_verification(
        batch, epoch_bump=epoch_bump, heard_at=machine.clock.wall()
    )
    assert question is not None
    return question


def begin(machine: Machine, sequence: int = 0, epoch: int = 0, *, epoch_bump: bool = False) -> int:
    """Ask, be admitted, and write."""
    asked(machine, a_txn_batch(sequence, epoch), epoch_bump=epoch_bump).answered(None)
    return machine.append(a_txn_batch(sequence, epoch)).base_offset


def end(machine: Machine, *, epoch: int = 0) -> None:
    machine.append(a_marker(PRODUCER, commit=False, epoch=epoch), origin=Origin.COORDINATOR)


def refusal(machine: Machine, batch: BatchView) -> ErrorCode:
    end_offset = machine.log.end_offset
    with pytest.raises(Refused) as refused:
        machine.append(batch)
    assert machine.log.end_offset == end_offset
    return refused.value.code


def test_a_batch_that_nobody_asked_about_is_refused() -> None:
    machine = a_machine()

    assert refusal(machine, a_txn_batch()) is ErrorCode.INVALID_TXN_STATE
    asked(machine, a_txn_batch())
    assert refusal(machine, a_txn_batch()) is ErrorCode.INVALID_TXN_STATE


def test_one_answer_is_enough_until_the_transaction_is_over() -> None:
    machine = a_machine()
    begin(machine)

    nothing = machine.log.producers.begin_verification(a_txn_batch(1), epoch_bump=False, heard_at=0)
    assert nothing is None
    machine.append(a_txn_batch(1))
    end(machine)

    assert refusal(machine, a_txn_batch(2)) is ErrorCode.INVALID_TXN_STATE


def test_a_coordinators_refusal_is_what_the_producer_gets() -> None:
    machine = a_machine()
    question = asked(machine, a_txn_batch())

    question.answered(Refused(ErrorCode.NOT_ENOUGH_REPLICAS, "not yet"))
    assert refusal(machine, a_txn_batch()) is ErrorCode.NOT_ENOUGH_REPLICAS
    asked(machine, a_txn_batch()).answered(None)

    assert machine.append(a_txn_batch()).base_offset == 0


def test_an_answer_that_comes_after_the_abort_begins_nothing() -> None:
    machine = a_machine()
    question = asked(machine, a_txn_batch())
    end(machine)

    question.answered(None)

    assert refusal(machine, a_txn_batch()) is ErrorCode.INVALID_TXN_STATE


def test_the_answer_to_an_old_question_does_not_count_for_a_new_one() -> None:
    machine = a_machine()
    old = asked(machine, a_txn_batch())
    end(machine)
    new = asked(machine, a_txn_batch())

    old.answered(None)
    assert refusal(machine, a_txn_batch()) is ErrorCode.INVALID_TXN_STATE
    new.answered(None)

    machine.append(a_txn_batch())


def test_a_question_in_the_epoch_that_a_marker_begins_is_about_the_next_transaction() -> None:
    machine = a_machine()
    begin(machine, epoch_bump=True)
    # The client has its new epoch from the answer and sends before the marker is written here.
    question = asked(machine, a_txn_batch(0, epoch=1), epoch_bump=True)
    end(machine, epoch=1)

    question.answered(None)

    machine.append(a_txn_batch(0, epoch=1))


def test_a_transaction_of_an_older_epoch_admits_no_batch_of_the_next() -> None:
    machine = a_machine()
    begin(machine)

    assert refusal(machine, a_txn_batch(0, epoch=1)) is ErrorCode.INVALID_TXN_STATE


def test_a_late_produce_after_the_abort_is_fenced_by_the_markers_epoch() -> None:
    machine = a_machine()
    begin(machine, epoch_bump=True)
    end(machine, epoch=1)

    assert refusal(machine, a_txn_batch(1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_repeated_batch_is_answered_even_after_its_transaction_is_over() -> None:
    machine = a_machine()
    begin(machine)
    end(machine)

    assert machine.append(a_txn_batch()).duplicate


def test_a_later_batch_is_not_written_before_one_that_waits() -> None:
    machine = a_machine()
    asked(machine, a_txn_batch(3))
    asked(machine, a_txn_batch(7)).answered(None)

    assert refusal(machine, a_txn_batch(7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    machine.append(a_txn_batch(3))


def test_a_new_epoch_counts_its_batches_anew() -> None:
    machine = a_machine()
    asked(machine, a_txn_batch(3))
    asked(machine, a_txn_batch(5, epoch=1)).answered(None)

    machine.append(a_txn_batch(5, epoch=1))


def test_a_producer_with_epochs_for_its_transactions_begins_at_zero() -> None:
    machine = a_machine()
    asked(machine, a_txn_batch(5), epoch_bump=True).answered(None)

    assert refusal(machine, a_txn_batch(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_questions_that_were_never_answered_are_forgotten() -> None:
    machine = a_machine()
    old = asked(machine, a_txn_batch())
    machine.clock.advance(DAY_MS)

    machine.log.producers.expire(machine.clock.wall(), DAY_MS)

    assert asked(machine, a_txn_batch()) is not old


def test_nothing_is_verified_where_the_setting_says_so() -> None:
    machine = Machine()

    assert machine.append(a_txn_batch()).base_offset == 0


# --- markers


def marker_refusal(machine: Machine, epoch: int, version: int) -> ErrorCode | None:
    try:
        machine.log.producers.check_marker_epoch(PRODUCER, epoch, version)
    except Refused as refused:
        return refused.code
    return None


def test_a_marker_of_version_2_must_be_above_the_records_that_it_ends() -> None:
    machine = a_machine()
    begin(machine, epoch=3)

    assert marker_refusal(machine, 2, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_refusal(machine, 3, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_refusal(machine, 4, 2) is None


def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    machine = a_machine()
    begin(machine, epoch_bump=True)
    end(machine, epoch=1)
    begin(machine, epoch=1, epoch_bump=True)

    assert marker_refusal(machine, 1, 2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_version_2_may_be_written_twice() -> None:
    machine = a_machine()
    begin(machine)
    end(machine, epoch=1)

    assert marker_refusal(machine, 1, 2) is None


def test_a_marker_of_version_1_has_the_epoch_of_its_records() -> None:
    machine = a_machine()
    begin(machine, epoch=3)

    assert marker_refusal(machine, 3, 0) is None


def test_a_marker_for_a_producer_that_is_not_known_is_taken() -> None:
    assert marker_refusal(a_machine(), 0, 2) is None
