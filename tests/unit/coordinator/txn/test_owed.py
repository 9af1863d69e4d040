"""Markers until every partition has one: retries, deletions, coordinators that die (P5)."""

import pytest

from everlog.coordinator.txn.states import TxnState
from everlog.metadata.delta import Changes
from everlog.model.errors import ErrorCode, StorageError
from tests.unit.coordinator.txn.bench import ORDERS, PAYMENTS, Bench, code


def test_a_partition_that_is_away_keeps_no_other_from_its_marker_and_is_asked_again() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS, PAYMENTS)
    bench.partitions.away = {ORDERS}

    bench.ended(producer)
    assert [one for one, _ in bench.partitions.written] == [PAYMENTS]
    assert bench.state() is TxnState.PREPARE_COMMIT
    bench.pass_time(2500)
    bench.partitions.away = set()
    bench.pass_time(1000)

    assert [one for one, _ in bench.partitions.written] == [PAYMENTS, ORDERS]
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_a_partition_that_is_away_holds_up_no_other_transaction() -> None:
    bench = Bench()
    stuck, free = bench.begun(ORDERS), bench.begun(PAYMENTS, name="u")
    bench.partitions.away = {ORDERS}
    bench.ended(stuck)

    bench.ended(free, name="u")

    assert bench.txn("u").state is TxnState.COMPLETE_COMMIT


def test_another_image_of_the_cluster_is_a_reason_to_ask_again_at_once() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)
    bench.partitions.away = {ORDERS}
    bench.ended(producer)

    bench.partitions.away = set()
    bench.shard.image_changed(Changes())

    assert bench.state() is TxnState.COMPLETE_COMMIT


@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_dies_between_decision_and_markers_leaves_one_that_writes_them(
    commit: bool,
) -> None:
    bench = Bench()
    producer = bench.begun(ORDERS, PAYMENTS)
    bench.partitions.holds = True
    after = bench.ended(producer, commit=commit).only
    assert bench.partitions.written == []

    bench.restart()

    assert [(one, marker.commit) for one, marker in bench.partitions.written] == [
        (ORDERS, commit),
        (PAYMENTS, commit),
    ]
    # The markers are those of the later coordinator, so an earlier one is told apart from it.
    assert {marker.coordinator_epoch for _, marker in bench.partitions.written} == {1}
    assert bench.txn().producer == after


def test_a_coordinator_that_dies_between_markers_and_their_record_writes_the_same_markers_again() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)
    bench.partitions.holds = True
    bench.ended(producer)
    bench.world.journal.refusal = StorageError("the disk is full")
    bench.partitions.release()
    assert bench.state() is TxnState.PREPARE_COMMIT

    bench.world.journal.refusal = None
    bench.restart()

    first, second = (marker for _, marker in bench.partitions.written)
    assert (first.producer, first.commit) == (second.producer, second.commit)
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_markers_are_not_written_again_where_only_their_record_is_missing() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)
    bench.partitions.holds = True
    bench.ended(producer)
    bench.world.journal.refusal = StorageError("the disk is full")
    bench.partitions.release()
    bench.pass_time(1500)

    bench.world.journal.refusal = None
    bench.pass_time(1000)

    assert len(bench.partitions.written) == 1
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_a_coordinator_that_was_replaced_ends_nothing() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)
    bench.partitions.fenced = True

    bench.ended(producer)

    assert bench.state() is TxnState.PREPARE_COMMIT


def test_a_closed_shard_does_not_go_on_with_its_markers() -> None:
    bench = Bench()
    producer = bench.begun(ORDERS)
    bench.partitions.holds = True
    bench.ended(producer)
    written = bench.world.journal.record_count

    bench.shard.close()
    bench.partitions.release()

    assert bench.world.journal.record_count == written
    assert code(bench.ended(producer)) is ErrorCode.NOT_COORDINATOR


def test_a_transaction_without_partitions_is_over_at_once() -> None:
    bench = Bench()
    producer = bench.init()

    assert code(bench.ended(producer, commit=False)) is ErrorCode.NONE
    assert bench.partitions.written == []
    assert bench.state() is TxnState.COMPLETE_ABORT
