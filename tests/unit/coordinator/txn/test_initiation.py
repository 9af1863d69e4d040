"""Who has a transactional id: fencing, KIP-360, epochs that run out, two-phase commit (P5)."""

import pytest

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.states import TxnState
from everlog.coordinator.txn.transaction import LAST_CLIENT_EPOCH, MAX_EPOCH, NO_TIMEOUT_MS
from everlog.model.errors import ErrorCode
from tests.unit.coordinator.txn.bench import MINUTE_MS, ORDERS, PAYMENTS, Bench, code


def test_a_new_id_begins_in_epoch_0_and_every_request_raises_it() -> None:
    bench = Bench()

    assert bench.init() == (1001, 0)
    assert bench.init() == (1001, 1)
    assert bench.init("other") == (1002, 0)


def test_whoever_had_the_id_before_is_fenced() -> None:
    bench = Bench()
    zombie = bench.begun()
    bench.init()

    assert code(bench.added(zombie)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.ended(zombie)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.ended(zombie, version=0)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.asked(expected=zombie)) is ErrorCode.PRODUCER_FENCED


def test_an_ongoing_transaction_is_aborted_before_the_id_is_given_away() -> None:
    bench = Bench()
    zombie = bench.begun(ORDERS, PAYMENTS)
    bench.partitions.holds = True

    assert code(bench.asked()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert code(bench.asked()) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.partitions.release()
    taken = bench.asked().only.producer

    assert [(one, marker.commit) for one, marker in bench.partitions.written] == [
        (ORDERS, False),
        (PAYMENTS, False),
    ]
    # The markers are above what the zombie may still send, and the new producer is above them.
    assert {marker.producer.epoch for _, marker in bench.partitions.written} == {zombie.epoch + 1}
    assert taken == (zombie.producer_id, zombie.epoch + 2)


def test_a_client_that_names_what_it_has_is_compared_before_it_gets_the_next_epoch() -> None:
    bench = Bench()
    first = bench.init()

    assert bench.asked(expected=first).only.producer == (first.producer_id, 1)
    # It did not get the answer, and asks again with what it knows: the same answer.
    assert bench.asked(expected=first).only.producer == (first.producer_id, 1)
    assert bench.asked(expected=ProducerStamp(first.producer_id, 1)).only.producer.epoch == 2
    assert code(bench.asked(expected=first)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.asked(expected=ProducerStamp(4711, 2))) is ErrorCode.PRODUCER_FENCED


def test_another_client_takes_away_the_right_to_ask_again() -> None:
    bench = Bench()
    zombie = bench.init()
    bench.asked(expected=zombie)
    bench.init()

    assert code(bench.asked(expected=zombie)) is ErrorCode.PRODUCER_FENCED


def test_a_late_copy_of_a_request_does_not_abort_what_was_begun_since() -> None:
    bench = Bench()
    first = bench.init()
    second = bench.asked(expected=first).only.producer
    bench.added(second)

    assert code(bench.asked(expected=first)) is ErrorCode.PRODUCER_FENCED
    assert bench.state() is TxnState.ONGOING


def test_a_client_that_recovers_in_the_middle_of_its_transaction_gets_the_epoch_behind_the_abort() -> None:
    bench = Bench()
    producer = bench.begun()

    assert code(bench.asked(expected=producer)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.asked(expected=producer).only.producer == (producer.producer_id, producer.epoch + 1)


def test_an_id_whose_epochs_have_run_out_is_given_another_producer_id() -> None:
    bench = Bench()
    bench.init_at(LAST_CLIENT_EPOCH)

    assert bench.init() == (1002, 0)


def test_a_client_may_repeat_the_request_that_gave_it_another_producer_id() -> None:
    bench = Bench()
    last = bench.init_at(LAST_CLIENT_EPOCH)

    assert bench.asked(expected=last).only.producer == (1002, 0)
    assert bench.asked(expected=last).only.producer == (1002, 0)
    assert code(bench.asked(expected=ProducerStamp(last.producer_id, 7))) is ErrorCode.PRODUCER_FENCED


def test_the_last_epoch_is_kept_to_fence_the_one_before_it() -> None:
    bench = Bench()
    last = bench.init_at(LAST_CLIENT_EPOCH)
    bench.added(last)

    assert code(bench.asked()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [marker.producer for _, marker in bench.partitions.written] == [(last.producer_id, MAX_EPOCH)]
    assert bench.init().producer_id != last.producer_id


def test_the_timeout_is_the_one_last_asked_for() -> None:
    bench = Bench()
    bench.init(timeout_ms=1000)
    bench.init(timeout_ms=2000)

    assert bench.txn().timeout_ms == 2000


def test_what_was_given_is_known_after_a_restart() -> None:
    bench = Bench()
    bench.init()
    last = bench.init()
    before = bench.txn()

    bench.restart()

    assert bench.txn() == before
    assert bench.init() == (last.producer_id, last.epoch + 1)


# --- two-phase commit (KIP-939)


def a_prepared(bench: Bench) -> ProducerStamp:
    producer = bench.asked(timeout_ms=NO_TIMEOUT_MS).only.producer
    assert bench.added(producer, ORDERS, PAYMENTS) == [None]
    return producer


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_is_kept_and_ended_by_the_producer_that_recovers_it(commit: bool) -> None:
    bench = Bench()
    crashed = a_prepared(bench)
    bench.restart()

    reply = bench.asked(timeout_ms=NO_TIMEOUT_MS, keep=True).only
    assert reply.kept == crashed
    assert reply.producer == (crashed.producer_id, crashed.epoch + 1)
    assert bench.partitions.written == []
    bench.restart()
    after = bench.ended(reply.producer, commit=commit).only

    assert after == (crashed.producer_id, crashed.epoch + 2)
    assert [(one, marker.commit) for one, marker in bench.partitions.written] == [
        (ORDERS, commit),
        (PAYMENTS, commit),
    ]
    assert all(marker.producer.epoch > crashed.epoch for _, marker in bench.partitions.written)
    assert bench.added(after) == [None]


def test_a_recovered_producer_may_be_lost_too_and_is_fenced_by_the_next() -> None:
    bench = Bench()
    crashed = a_prepared(bench)
    first = bench.asked(timeout_ms=NO_TIMEOUT_MS, keep=True).only
    second = bench.asked(timeout_ms=NO_TIMEOUT_MS, keep=True).only

    assert first.kept == second.kept == crashed
    assert code(bench.ended(first.producer)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.ended(crashed)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.added(crashed)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.ended(second.producer)) is ErrorCode.NONE


def test_a_recovered_producer_must_end_the_prepared_transaction_first() -> None:
    bench = Bench()
    a_prepared(bench)
    recovered = bench.asked(timeout_ms=NO_TIMEOUT_MS, keep=True).only.producer

    assert code(bench.added(recovered)) is ErrorCode.INVALID_TXN_STATE


def test_a_prepared_transaction_is_aborted_by_a_producer_that_does_not_want_it() -> None:
    bench = Bench()
    a_prepared(bench)

    assert code(bench.asked()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [marker.commit for _, marker in bench.partitions.written] == [False, False]


def test_a_prepared_transaction_survives_the_end_of_its_epochs() -> None:
    bench = Bench()
    last = bench.init_at(LAST_CLIENT_EPOCH)
    bench.added(last, ORDERS)
    recovered = bench.asked(timeout_ms=NO_TIMEOUT_MS, keep=True).only
    assert recovered.kept == last
    assert recovered.producer == (1002, 0)

    after = bench.ended(recovered.producer).only

    assert after == (1002, 1)
    assert [marker.producer for _, marker in bench.partitions.written] == [(last.producer_id, MAX_EPOCH)]
    assert bench.txn().producer == after
    assert bench.ended(recovered.producer).only == after


def test_a_transaction_in_two_phases_has_no_timeout() -> None:
    bench = Bench()
    a_prepared(bench)

    bench.pass_time(30 * 24 * 60 * MINUTE_MS)

    assert bench.state() is TxnState.ONGOING


def test_keeping_finds_nothing_where_nothing_is_ongoing() -> None:
    bench = Bench()
    producer = bench.init()

    reply = bench.asked(keep=True).only

    assert reply.kept is None
    assert reply.producer.epoch == producer.epoch + 1
