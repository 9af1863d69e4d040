"""Transactions through a whole broker, in both versions of the protocol (P5, C6)."""

from dataclasses import replace

import pytest

from everlog.coordinator.machine import Decision, ProducerStamp
from everlog.coordinator.txn.states import TxnState
from everlog.model.errors import ErrorCode
from everlog.sim.faults import Fault, Kind
from everlog.wire.codec import encode_request
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from everlog.wire.messages.produce import ProduceResponse
from tests.unit.broker.simulated import SimulatedNode, a_batch, produced
from tests.unit.broker.transactional import (
    NONE,
    V1,
    V2,
    TxnProducer,
    a_node,
    committed,
    fetched_offset,
    only,
)

both_versions = pytest.mark.parametrize("version", [V1, V2])


def a_producer(node: SimulatedNode, name: str = "t", version: int = V2) -> TxnProducer:
    producer = TxnProducer(node, name, version)
    assert producer.init().error_code == NONE
    return producer


def stable(node: SimulatedNode, partition: int = 0) -> tuple[int, int]:
    """Where readers of committed records stop, and where the log ends."""
    replica = node.replica("orders", partition)
    return replica.last_stable_offset, replica.high_watermark


@both_versions
def test_what_is_committed_is_read_in_all_partitions_and_what_is_aborted_in_none(version: int) -> None:
    node = a_node()
    producer = a_producer(node, version=version)
    for value, commit in ((b"one", True), (b"two", False), (b"three", True)):
        producer.write(value, 0)
        producer.write(value, 1)
        last_stable, end = stable(node)
        assert last_stable < end
        assert producer.end(commit=commit) is NONE

    assert committed(node, partition=0) == committed(node, partition=1) == [b"one", b"three"]
    assert stable(node) == (6, 6)


@both_versions
def test_nothing_of_an_open_transaction_is_read_by_readers_of_committed_records(version: int) -> None:
    node = a_node()
    producer = a_producer(node, version=version)
    producer.write(b"open")
    produced(node.client(), "orders", a_batch(b"behind"))

    assert committed(node) == []
    assert producer.end() is NONE

    assert committed(node) == [b"open", b"behind"]


# --- verification before the first write


def test_a_write_to_a_partition_that_was_not_added_is_refused() -> None:
    node = a_node()
    producer = a_producer(node, version=V1)
    producer.add(0)

    assert producer.send(b"x", 1, version=9) is ErrorCode.INVALID_TXN_STATE
    assert producer.send(b"x", 1, version=11) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.send(b"x", 0) is NONE
    assert stable(node, 1) == (0, 0)


def test_a_late_write_after_the_abort_does_not_begin_a_transaction_that_hangs() -> None:
    node = a_node()
    producer = a_producer(node, version=V1)
    producer.write(b"first")
    late = producer.request(b"late")
    producer.end(commit=False)

    answer = only(producer.client.call(late, 9, ProduceResponse))

    assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    assert stable(node) == (2, 2)


def test_a_late_write_of_an_epoch_that_is_over_is_refused() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"first")
    late = producer.request(b"late")
    producer.end(commit=False)

    answer = only(producer.client.call(late, 12, ProduceResponse))

    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable(node) == (2, 2)


def test_a_late_write_to_a_partition_that_the_transaction_never_reached_is_refused() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"first", 0)
    late = producer.request(b"late", 1)
    producer.end()

    # No marker went there, so it is the coordinator that knows better.
    answer = only(producer.client.call(late, 12, ProduceResponse))

    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable(node, 1) == (0, 0)


@both_versions
def test_a_batch_outside_the_transaction_of_its_producer_is_refused(version: int) -> None:
    node = a_node()
    producer = a_producer(node, version=version)
    producer.write(b"in")

    assert producer.send(b"out", transactional=False) is ErrorCode.INVALID_TXN_STATE


def test_a_transactional_batch_needs_a_transactional_id() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"in")
    nameless = producer.request(b"out")
    nameless.transactional_id = None

    answer = only(producer.client.call(nameless, 12, ProduceResponse))

    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_producer_that_nobody_knows_writes_nothing() -> None:
    node = a_node()
    producer = TxnProducer(node)
    producer.stamp = ProducerStamp(4711, 0)

    assert producer.send(b"x") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.send(b"x", version=9) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stable(node) == (0, 0)


def test_where_verification_is_switched_off_version_1_writes_as_before() -> None:
    node = a_node(transaction_partition_verification_enable="false")
    producer = a_producer(node, version=V1)

    assert producer.send(b"x", 1) is NONE


def test_writes_that_wait_for_the_coordinators_disk_are_appended_in_their_order() -> None:
    node = a_node(log_flush_interval_messages="1")
    producer = a_producer(node)

    for sequence in range(3):
        producer.client.ask(producer.request(b"%d" % sequence, sequence=sequence), 12)
    assert stable(node) == (0, 0)
    node.aside.run_all()

    assert [only(producer.client.take(ProduceResponse)).base_offset for _ in range(3)] == [0, 1, 2]
    assert producer.end() is NONE
    assert committed(node) == [b"0", b"1", b"2"]


def test_a_write_that_waits_is_kept_apart_from_the_buffer_that_it_came_in() -> None:
    node = a_node(log_flush_interval_messages="1")
    producer = a_producer(node)
    frame = bytearray(encode_request(producer.request(b"kept"), 12, 0, "test"))

    producer.client.session.receive(memoryview(frame)[4:])
    frame[:] = bytes(len(frame))
    node.aside.run_all()
    producer.reconnect(node)
    producer.end()

    assert committed(node) == [b"kept"]


def test_a_disk_that_takes_no_decision_lets_the_producer_try_again() -> None:
    node = a_node()
    producer = a_producer(node)
    node.files.faults = [Fault(Kind.APPEND, 28, "__transaction_state")]

    assert producer.send(b"x") is ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.send(b"x", version=9) is ErrorCode.INVALID_TXN_STATE
    node.files.faults = []

    assert producer.send(b"x") is NONE


# --- fencing


@both_versions
def test_a_zombie_can_neither_write_nor_commit(version: int) -> None:
    node = a_node()
    zombie = a_producer(node, version=version)
    zombie.write(b"zombie")

    successor = a_producer(node, version=version)

    assert zombie.send(b"more") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert zombie.end() is ErrorCode.PRODUCER_FENCED
    assert zombie.add() is ErrorCode.PRODUCER_FENCED
    assert zombie.commit_offset(7) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    successor.write(b"new")
    assert successor.end() is NONE
    assert committed(node) == [b"new"]


def test_clients_from_before_the_code_are_told_of_their_fencing_as_a_wrong_epoch() -> None:
    node = a_node()
    zombie = a_producer(node, version=V1)
    a_producer(node)

    assert zombie.end(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert zombie.add(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    again = zombie.init(version=3, expected=zombie.stamp)
    assert again.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_that_is_not_allowed_is_refused(timeout_ms: int) -> None:
    answer = TxnProducer(a_node()).init(timeout_ms=timeout_ms)

    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_a_transaction_that_is_left_open_is_aborted_in_time() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"left", 0)
    producer.write(b"left", 1)
    produced(node.client(), "orders", a_batch(b"behind"))

    node.pass_time(60_002)

    assert stable(node) == (3, 3)
    assert committed(node) == [b"behind"]
    assert producer.send(b"more") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(commit=False) is NONE
    producer.write(b"again")
    assert producer.end() is NONE
    assert committed(node) == [b"behind", b"again"]


# --- late and repeated


def test_a_repeated_end_is_answered_as_the_first() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"x")
    before = producer.stamp

    answers: list[ProducerStamp] = []
    for _ in range(2):
        producer.end(stamp=before)
        answers.append(producer.stamp)

    assert answers[0] == answers[1] == (before.producer_id, before.epoch + 1)
    assert stable(node) == (2, 2)


def test_a_late_end_leaves_the_next_transaction_alone() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"first")
    before = producer.stamp
    producer.end()
    producer.write(b"second")

    assert producer.end(stamp=before, commit=False) is ErrorCode.PRODUCER_FENCED
    assert producer.end() is NONE

    assert committed(node) == [b"first", b"second"]


def test_epochs_that_run_out_go_on_with_another_producer_id() -> None:
    node = a_node()
    producer = a_producer(node)
    shard = node.broker.coordinators.txn_shard("t")
    known = shard.get("t")
    assert known is not None
    worn = replace(known, producer_epoch=32_766).record()
    shard.machine.run(lambda: Decision((worn,), None), lambda _reply: None)
    producer.stamp = first = ProducerStamp(producer.stamp.producer_id, 32_766)
    producer.write(b"last epoch")

    assert producer.end() is NONE

    assert producer.stamp.producer_id != first.producer_id
    assert producer.stamp.epoch == 0
    producer.write(b"new id")
    assert producer.end() is NONE
    assert committed(node) == [b"last epoch", b"new id"]


# --- deleted partitions


@both_versions
def test_a_topic_that_is_deleted_in_the_middle_does_not_hang_the_others(version: int) -> None:
    node = a_node(topics=("orders", "doomed"))
    producer = a_producer(node, version=version)
    producer.write(b"kept")
    producer.write(b"lost", topic="doomed")
    node.client().call(DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=1000), 5, DeleteTopicsResponse)

    assert producer.end() is NONE

    assert committed(node) == [b"kept"]
    producer.write(b"next")
    assert producer.end() is NONE


def test_a_topic_that_is_deleted_while_its_marker_cannot_be_written_sets_the_transaction_free() -> None:
    node = a_node(topics=("orders", "doomed"))
    producer = a_producer(node)
    producer.write(b"kept")
    producer.write(b"lost", topic="doomed")
    node.files.faults = [Fault(Kind.APPEND, 5, "doomed-0")]
    assert producer.end() is NONE
    assert committed(node) == [b"kept"]
    node.files.faults = []
    doomed = node.replica("doomed").opened()

    node.client().call(DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=1000), 5, DeleteTopicsResponse)

    assert doomed.end_offset == 1
    txn = node.broker.coordinators.txn_shard("t").get("t")
    assert txn is not None
    assert txn.state is TxnState.COMPLETE_COMMIT


def test_a_marker_that_the_disk_refuses_is_written_later() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"a", 0)
    producer.write(b"b", 1)
    node.files.faults = [Fault(Kind.APPEND, 5, "orders-0")]

    assert producer.end() is NONE
    assert (committed(node, partition=0), committed(node, partition=1)) == ([], [b"b"])
    # The next transaction waits for it: its records would be taken for part of this one.
    producer.client.ask(producer.request(b"next", 1), 12)
    node.pass_time(150)
    assert only(producer.client.take(ProduceResponse)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    node.files.faults = []
    node.pass_time(2000)

    assert committed(node, partition=0) == [b"a"]
    producer.write(b"next", 1)
    assert producer.end() is NONE


def test_a_write_right_behind_the_end_waits_for_the_markers_instead_of_failing() -> None:
    node = a_node(log_flush_interval_messages="1")
    producer = a_producer(node)
    producer.write(b"first")
    after = ProducerStamp(producer.stamp.producer_id, producer.stamp.epoch + 1)
    request = producer.request(b"second", stamp=after, sequence=0)
    producer.client.ask(
        EndTxnRequest(
            transactional_id="t",
            producer_id=producer.stamp.producer_id,
            producer_epoch=producer.stamp.epoch,
            committed=True,
        ),
        5,
    )
    producer.client.ask(request, 12)
    node.aside.run_all()

    assert producer.client.take(EndTxnResponse).error_code == NONE
    assert only(producer.client.take(ProduceResponse)).error_code == NONE


# --- offsets in the transaction


@both_versions
def test_offsets_count_when_the_transaction_is_committed_and_are_unstable_until_then(version: int) -> None:
    node = a_node()
    producer = a_producer(node, version=version)
    producer.write(b"x")
    assert producer.commit_offset(5) is NONE

    assert fetched_offset(node) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert fetched_offset(node, stable=False) == (NONE, -1)
    assert producer.end() is NONE

    assert fetched_offset(node) == (NONE, 5)


@both_versions
def test_offsets_of_an_aborted_transaction_never_count(version: int) -> None:
    node = a_node()
    producer = a_producer(node, version=version)
    producer.commit_offset(5)
    producer.end()
    producer.commit_offset(9)
    assert producer.end(commit=False) is NONE

    assert fetched_offset(node) == (NONE, 5)


def test_offsets_are_not_taken_into_a_transaction_that_has_not_the_group() -> None:
    node = a_node()
    producer = a_producer(node, version=V1)
    producer.add(0)

    assert producer.commit_offset(5, version=3) is ErrorCode.INVALID_TXN_STATE
    assert producer.commit_offset(5, version=4) is ErrorCode.TRANSACTION_ABORTABLE
    assert fetched_offset(node) == (NONE, -1)


def test_offsets_of_a_transaction_that_times_out_are_dropped_and_stable_again() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.commit_offset(5)

    node.pass_time(60_002)

    assert fetched_offset(node) == (NONE, -1)
