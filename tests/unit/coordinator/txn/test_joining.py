"""Partitions of a transaction: added, verified, and waited for (P5, KIP-890)."""

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.states import TxnState
from everlog.model.errors import ErrorCode, Refused
from tests.unit.coordinator.txn.bench import ORDERS, PAYMENTS, Bench, code


def test_the_first_partition_begins_the_transaction_and_the_others_join_it() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)
    started_at = bench.txn().started_at
    bench.world.clock.advance(500)
    bench.added(producer, PAYMENTS)

    assert bench.state() is TxnState.ONGOING
    assert bench.txn().partitions == {ORDERS, PAYMENTS}
    assert bench.txn().started_at == started_at


def test_a_partition_that_is_there_already_is_not_written_down_again() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS, PAYMENTS)
    written = bench.world.journal.record_count

    assert bench.added(producer, ORDERS) == [None]

    assert bench.world.journal.record_count == written


def test_partitions_are_known_after_a_restart() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)

    bench.restart()

    assert bench.shard.verify("t", producer, [ORDERS, PAYMENTS]) == {
        ORDERS: ErrorCode.NONE,
        PAYMENTS: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_nobody_is_verified_but_the_producer_that_has_the_id() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)

    def verified(name: str, stamp: ProducerStamp) -> ErrorCode:
        try:
            return bench.shard.verify(name, stamp, [ORDERS])[ORDERS]
        except Refused as refusal:
            return refusal.code

    producer_id, epoch = producer
    assert verified("t", producer) is ErrorCode.NONE
    assert verified("nobody", producer) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert verified("t", ProducerStamp(producer_id + 1, epoch)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert verified("t", ProducerStamp(producer_id, epoch - 1)) is ErrorCode.PRODUCER_FENCED
    bench.partitions.holds = True
    after = bench.ended(producer).only
    assert verified("t", producer) is ErrorCode.PRODUCER_FENCED
    assert verified("t", after) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.partitions.release()
    assert verified("t", after) is ErrorCode.TRANSACTION_ABORTABLE


def test_no_partition_joins_while_markers_are_written() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.partitions.holds = True
    after = bench.ended(producer).only

    assert code(bench.added(after)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_who_has_patience_is_let_in_when_the_markers_are_written_in_the_order_of_coming() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.partitions.holds = True
    after = bench.ended(producer).only
    first = bench.added(after, ORDERS, patience_ms=100)
    second = bench.added(after, PAYMENTS)
    assert first == second == []

    bench.partitions.release()

    assert first == second == [None]
    assert bench.txn().partitions == {ORDERS, PAYMENTS}


def test_patience_ends_with_an_answer_to_try_again() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.partitions.holds = True
    after = bench.ended(producer).only
    replies = bench.added(after, patience_ms=100)

    bench.pass_time(99)
    assert replies == []
    bench.pass_time(1)

    assert code(replies) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_zombie_is_told_at_once_and_does_not_wait() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.partitions.holds = True
    bench.ended(producer)

    assert code(bench.added(producer, patience_ms=100)) is ErrorCode.PRODUCER_FENCED


def test_whoever_waits_is_sent_on_when_the_coordinator_closes() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.partitions.holds = True
    after = bench.ended(producer).only
    replies = bench.added(after, patience_ms=100)

    bench.shard.close()

    assert code(replies) is ErrorCode.NOT_COORDINATOR
