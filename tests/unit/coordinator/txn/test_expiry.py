"""Transactions that are open for too long, and ids that nobody uses (P5)."""

import pytest

from everlog.coordinator.txn.states import TxnState
from everlog.coordinator.txn.transaction import LAST_CLIENT_EPOCH
from everlog.model.errors import ErrorCode, StorageError
from tests.unit.coordinator.txn.bench import MINUTE_MS, ORDERS, PAYMENTS, Bench, code

DAY_MS = 24 * 60 * MINUTE_MS


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS, PAYMENTS)

    bench.pass_time(MINUTE_MS)
    assert bench.state() is TxnState.ONGOING
    bench.pass_time(1)

    assert bench.state() is TxnState.COMPLETE_ABORT
    assert [(one, marker.commit) for one, marker in bench.partitions.written] == [
        (ORDERS, False),
        (PAYMENTS, False),
    ]
    assert {marker.producer.epoch for _, marker in bench.partitions.written} == {producer.epoch + 1}
    assert code(bench.added(producer)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.ended(producer, version=0)) is ErrorCode.PRODUCER_FENCED
    assert code(bench.ended(producer, commit=True)) is ErrorCode.INVALID_TXN_STATE


def test_a_client_whose_transaction_timed_out_may_abort_it_and_go_on() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.pass_time(MINUTE_MS + 1)

    after = bench.ended(producer, commit=False).only

    assert after == (producer.producer_id, producer.epoch + 1)
    assert bench.added(after) == [None]


def test_adding_partitions_does_not_put_the_timeout_off() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)
    bench.pass_time(MINUTE_MS - 1)
    bench.added(producer, PAYMENTS)

    bench.pass_time(2)

    assert bench.state() is TxnState.COMPLETE_ABORT


def test_a_transaction_that_ended_in_time_is_left_alone_and_so_is_the_next() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.pass_time(MINUTE_MS // 2)
    after = bench.ended(producer).only
    bench.added(after)

    bench.pass_time(MINUTE_MS - 1)

    assert bench.state() is TxnState.ONGOING


def test_a_restart_does_not_put_the_timeout_off() -> None:
    bench = Bench()
    bench.begun()
    bench.pass_time(MINUTE_MS // 2)
    bench.restart()

    bench.pass_time(MINUTE_MS // 2 - 1)
    assert bench.state() is TxnState.ONGOING
    bench.pass_time(2)

    assert bench.state() is TxnState.COMPLETE_ABORT


def test_a_commit_that_waits_for_a_restart_does_not_get_ahead_of_a_timeout_that_passed_meanwhile() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.world.clock.advance(MINUTE_MS + 1)
    bench.restart()

    late = bench.ended(producer, commit=True)

    assert code(late) is ErrorCode.INVALID_TXN_STATE
    assert bench.state() is TxnState.COMPLETE_ABORT


@pytest.mark.parametrize("jump_ms", [DAY_MS, -DAY_MS])
def test_a_wall_clock_that_jumps_changes_nothing(jump_ms: int) -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)
    bench.pass_time(MINUTE_MS // 2)
    bench.world.clock.jump(jump_ms)
    bench.added(producer, PAYMENTS)

    bench.pass_time(MINUTE_MS // 2)
    assert bench.state() is TxnState.ONGOING
    bench.pass_time(1)

    assert bench.state() is TxnState.COMPLETE_ABORT


def test_a_timeout_that_cannot_be_written_down_is_tried_again() -> None:
    bench = Bench()
    bench.begun()
    bench.world.journal.refusal = StorageError("the disk is full")
    bench.pass_time(MINUTE_MS + 1)
    assert bench.state() is TxnState.ONGOING

    bench.world.journal.refusal = None
    bench.pass_time(10_000)

    assert bench.state() is TxnState.COMPLETE_ABORT


def test_a_timeout_in_the_last_epoch_gives_the_id_another_producer() -> None:
    bench = Bench()
    last = bench.init_at(LAST_CLIENT_EPOCH)
    bench.added(last)

    bench.pass_time(MINUTE_MS + 1)

    assert bench.txn().producer == (1002, 0)


def test_a_timeout_that_waits_for_a_producer_id_does_not_hit_the_next_transaction() -> None:
    bench = Bench()
    last = bench.init_at(LAST_CLIENT_EPOCH)
    bench.added(last, version=0)
    bench.ids = []
    bench.pass_time(MINUTE_MS + 1)
    (timed_out,) = bench.ids

    # Meanwhile the client, which keeps its epoch in version 1, ends its transaction and begins another.
    bench.ids = None
    assert code(bench.ended(last, version=0)) is ErrorCode.NONE
    bench.added(last, PAYMENTS, version=0)
    timed_out()

    assert bench.state() is TxnState.ONGOING
    assert [marker.commit for _, marker in bench.partitions.written] == [True]


# --- ids that nobody uses


def test_an_id_that_is_silent_for_long_enough_is_forgotten() -> None:
    bench = Bench(transactional_id_expiration_ms=str(DAY_MS))
    bench.init()

    bench.pass_time(DAY_MS - 1)
    assert bench.shard.get("t") is not None
    bench.pass_time(61 * MINUTE_MS)

    assert bench.shard.get("t") is None
    bench.restart()
    assert bench.shard.get("t") is None
    assert bench.init() == (1002, 0)


def test_an_id_with_a_transaction_under_way_does_not_expire() -> None:
    bench = Bench(transactional_id_expiration_ms="1")
    producer = bench.begun()
    bench.partitions.away = {ORDERS}
    bench.ended(producer)

    bench.pass_time(DAY_MS)

    assert bench.state() is TxnState.PREPARE_COMMIT


def test_more_ids_than_fit_into_one_batch_expire_all() -> None:
    bench = Bench(transactional_id_expiration_ms="1000")
    for at in range(1500):
        bench.init(f"t{at}")

    bench.pass_time(61 * MINUTE_MS)

    assert list(bench.shard) == []
    assert max(len(batch.records) for batch in bench.world.journal.batches) <= 1000
