"""Transaction: all that is kept about one transactional id, and the record that it is kept as."""

from dataclasses import replace
from itertools import groupby
from typing import Final

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.records import CoordinatorRecord, Kinds, RecordKind
from everlog.coordinator.txn.states import LEGAL_PREDECESSORS, TxnState
from everlog.model.dataclass import dataclass
from everlog.model.errors import CorruptDataError
from everlog.model.ids import NO_TIMESTAMP, Timestamp
from everlog.model.topics import TopicPartition
from everlog.wire.messages.transaction_log_record import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

TXN_RECORD: Final = 0
"""The one record type of `__transaction_state`."""
VALUE_VERSION: Final = 1
TXN_KINDS: Final[Kinds] = {TXN_RECORD: RecordKind(TransactionLogKey, TransactionLogValue, VALUE_VERSION)}

NO_PRODUCER: Final = -1
MAX_EPOCH: Final = 32_767
"""Never given to a client, so that there is always an epoch left to fence the last one with."""
LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1
NO_TIMEOUT_MS: Final = 2_147_483_647
"""The time-out of a producer with two-phase commit: somebody else decides, whenever he does (KIP-939)."""


def exhausted(epoch: int) -> bool:
    """Whether no epoch is left after this one; the producer gets another id then."""
    return epoch >= LAST_CLIENT_EPOCH


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id, the producer that has it, and its transaction."""

    transactional_id: str
    producer_id: int
    """The producer that the records of the transaction bear, and its markers."""
    producer_epoch: int
    """While markers are owed the epoch that they bear."""
    timeout_ms: int
    state: TxnState
    updated_at: Timestamp
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions that have records of the transaction, or may have."""
    started_at: Timestamp = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER
    """The id that the client had before its last answer; tells a repeated EndTxn that gave it another."""
    next_producer_id: int = NO_PRODUCER
    next_producer_epoch: int = -1
    """With the id above: what the client goes on with, where that differs from what the records bear."""
    client_version: int = 0
    """The transaction version of the client: 2 where each transaction has an epoch of its own (KIP-890)."""

    @property
    def producer(self) -> ProducerStamp:
        """Whom the records and markers of the transaction bear."""
        return ProducerStamp(self.producer_id, self.producer_epoch)

    @property
    def client(self) -> ProducerStamp:
        """The id and epoch that the rightful client has; every other one is fenced."""
        if self.next_producer_id == NO_PRODUCER:
            return self.producer
        return ProducerStamp(self.next_producer_id, max(0, self.next_producer_epoch))

    @property
    def kept(self) -> bool:
        """Whether a transaction is ongoing that its client has prepared, and left to a client after it."""
        return self.state is TxnState.ONGOING and self.next_producer_id != NO_PRODUCER

    def is_same_as(self, other: "Transaction") -> bool:
        """Whether both are one transaction at two times, and not one and the next."""
        return (self.client, self.started_at) == (other.client, other.started_at)

    def moved(self, state: TxnState, wall: Timestamp) -> "Transaction":
        """The same in another state, that must be a legal one."""
        assert self.state in LEGAL_PREDECESSORS[state], (self, state)
        # A wall clock that stepped back must not make the record older than the one before it.
        return replace(self, state=state, updated_at=Timestamp(max(wall, self.updated_at)))

    def record(self) -> CoordinatorRecord:
        """What is written down: all of it, so that the last record of an id is all that matters."""
        partitions: list[PartitionsSchema] | None = None
        if self.state is not TxnState.EMPTY:
            partitions = [
                PartitionsSchema(topic=topic, partition_ids=[one.partition for one in group])
                for topic, group in groupby(sorted(self.partitions), key=lambda one: one.topic)
            ]
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            next_producer_epoch=self.next_producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=self.updated_at,
            transaction_start_timestamp_ms=self.started_at,
            client_transaction_version=self.client_version,
        )
        return CoordinatorRecord(
            TXN_RECORD, TransactionLogKey(transactional_id=self.transactional_id), value, VALUE_VERSION
        )


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that takes an id back."""
    return CoordinatorRecord(TXN_RECORD, TransactionLogKey(transactional_id=transactional_id), None)


def read_record(record: CoordinatorRecord) -> tuple[str, Transaction | None]:
    """The id that a record is about, and what it says of it; None for a tombstone."""
    key, value = record.key, record.value
    assert isinstance(key, TransactionLogKey), record
    if value is None:
        return key.transactional_id, None
    assert isinstance(value, TransactionLogValue), record
    try:
        state = TxnState(value.transaction_status)
    except ValueError:
        raise CorruptDataError(
            f"the transactional id {key.transactional_id!r} has state {value.transaction_status}, "
            f"expected 0 to {max(TxnState)}"
        ) from None
    partitions = frozenset(
        TopicPartition(one.topic, index)
        for one in value.transaction_partitions or ()
        for index in one.partition_ids
    )
    return key.transactional_id, Transaction(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        updated_at=Timestamp(value.transaction_last_update_timestamp_ms),
        partitions=partitions,
        started_at=Timestamp(value.transaction_start_timestamp_ms),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        client_version=value.client_transaction_version,
    )
