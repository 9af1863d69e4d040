"""The states of a transaction and their order, and the record that keeps them (P5)."""

from dataclasses import replace

import pytest

from everlog.coordinator.records import CoordinatorRecord, decode_record, encode_body, encode_key
from everlog.coordinator.txn.states import LEGAL_PREDECESSORS, TxnState
from everlog.coordinator.txn.transaction import (
    TXN_KINDS,
    TXN_RECORD,
    Transaction,
    read_record,
    tombstone,
)
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Timestamp
from everlog.wire.messages.transaction_log_record import TransactionLogKey, TransactionLogValue
from tests.unit.coordinator.txn.bench import ORDERS, PAYMENTS

NOON = Timestamp(1_700_000_000_000)
ONGOING = Transaction(
    "t",
    9,
    4,
    60_000,
    TxnState.ONGOING,
    NOON,
    frozenset({PAYMENTS, ORDERS}),
    NOON,
    previous_producer_id=8,
    next_producer_id=10,
    next_producer_epoch=3,
    client_version=2,
)

# Kafka's table: a state, and those that may come before it.
LEGAL = {0: {0, 4, 5}, 1: {0, 1, 4, 5}, 2: {1}, 3: {0, 1, 4, 5, 7}, 4: {2}, 5: {3}, 6: {0, 4, 5}, 7: {1}}


def test_the_legal_steps_are_those_of_kafka() -> None:
    assert {int(state): set(map(int, before)) for state, before in LEGAL_PREDECESSORS.items()} == LEGAL


@pytest.mark.parametrize("before", TxnState)
@pytest.mark.parametrize("after", TxnState)
def test_no_other_step_can_be_taken(before: TxnState, after: TxnState) -> None:
    txn = replace(ONGOING, state=before)

    if before in LEGAL[after]:
        assert txn.moved(after, NOON).state is after
    else:
        with pytest.raises(AssertionError):
            txn.moved(after, NOON)


def kept(record: CoordinatorRecord) -> CoordinatorRecord:
    """The record as it is read from the log."""
    read = decode_record(TXN_KINDS, encode_key(record), encode_body(record))
    assert read is not None
    return read


@pytest.mark.parametrize("state", TxnState)
def test_all_of_a_transaction_is_kept(state: TxnState) -> None:
    txn = replace(ONGOING, state=state)
    if state is TxnState.EMPTY:
        txn = replace(txn, partitions=frozenset())

    assert read_record(kept(txn.record())) == ("t", txn)


def test_the_bytes_are_those_of_kafkas_version_1() -> None:
    txn = replace(ONGOING, partitions=frozenset({ORDERS}), next_producer_id=-1, next_producer_epoch=-1)
    value = encode_body(txn.record())
    assert value is not None

    assert encode_key(txn.record()) == bytes.fromhex("00000001") + b"t"
    assert value == (
        bytes.fromhex("0001000000000000000900040000ea60010207")
        + b"orders"
        + bytes.fromhex("020000000000")
        + NOON.to_bytes(8, "big") * 2
        # Two tags: 0 the previous producer id, 2 the client's version.
        + bytes.fromhex("020008000000000000000802020002")
    )


def test_an_id_without_a_transaction_has_no_partitions_at_all() -> None:
    value = replace(ONGOING, state=TxnState.EMPTY, partitions=frozenset()).record().value

    assert isinstance(value, TransactionLogValue)
    assert value.transaction_partitions is None


def test_a_tombstone_takes_the_id_back() -> None:
    assert read_record(kept(tombstone("t"))) == ("t", None)


def test_a_record_of_version_0_is_read_as_kafka_before_3_0_wrote_it() -> None:
    value = TransactionLogValue(
        producer_id=9,
        producer_epoch=4,
        transaction_timeout_ms=1,
        transaction_status=0,
        transaction_partitions=None,
    )
    record = CoordinatorRecord(TXN_RECORD, TransactionLogKey(transactional_id="t"), value, 0)

    _, txn = read_record(kept(record))

    assert txn is not None
    assert txn.client == txn.producer == (9, 4)
    assert txn.client_version == 0


def test_a_state_that_does_not_exist_is_found_out() -> None:
    value = TransactionLogValue(transaction_status=8)
    with pytest.raises(CorruptDataError, match="'t' has state 8, expected 0 to 7"):
        read_record(CoordinatorRecord(TXN_RECORD, TransactionLogKey(transactional_id="t"), value, 1))


def test_a_clock_that_steps_back_does_not_make_a_record_older_than_the_one_before() -> None:
    assert ONGOING.moved(TxnState.PREPARE_COMMIT, Timestamp(NOON - 5)).updated_at == NOON
