"""Partitions of a transaction: adding them, and telling a leader whether one was added (KIP-890)."""

from collections.abc import Iterable
from dataclasses import replace

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.ending import check_client
from everlog.coordinator.txn.states import PREPARED, TxnState
from everlog.coordinator.txn.transaction import Transaction
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Timestamp
from everlog.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """A producer is about to write to these partitions in its transaction."""

    transactional_id: str
    producer: ProducerStamp
    partitions: frozenset[TopicPartition]
    version: int
    """The transaction version that the client speaks."""


def decide_add(txn: Transaction | None, command: AddPartitions, wall: Timestamp) -> Transaction | None:
    """The transaction with the partitions, to be written down; None if it has them all already."""
    txn = _of_producer(txn, command.transactional_id, command.producer)
    if txn.kept:
        raise Refused(
            ErrorCode.INVALID_TXN_STATE,
            f"{txn.transactional_id!r} has a prepared transaction, which must be ended before another begins",
        )
    if txn.state is TxnState.ONGOING:
        if command.partitions <= txn.partitions:
            return None
        started_at = txn.started_at
    else:
        started_at = wall
    return replace(
        txn.moved(TxnState.ONGOING, wall),
        partitions=txn.partitions | command.partitions,
        started_at=started_at,
        previous_producer_id=txn.producer_id,
        client_version=command.version,
    )


def verified(
    txn: Transaction | None,
    transactional_id: str,
    producer: ProducerStamp,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """For each partition whether the producer's transaction has it; Refused if there is none to have it."""
    txn = _of_producer(txn, transactional_id, producer)
    return {
        partition: ErrorCode.NONE if partition in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _of_producer(txn: Transaction | None, transactional_id: str, producer: ProducerStamp) -> Transaction:
    if txn is None:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"nobody has the id {transactional_id!r}")
    check_client(txn, producer)
    if txn.state in PREPARED:
        raise Refused(
            ErrorCode.CONCURRENT_TRANSACTIONS, f"the markers of {transactional_id!r} are being written"
        )
    return txn
