"""The end of a transaction: EndTxn in both versions of the protocol, the abort of what was left, completion.

Version 1, as librdkafka and older clients drive it: a producer keeps its epoch over its transactions, so a
late EndTxn may meet a later transaction; nothing tells them apart. Version 2 (KIP-890): the end of each
transaction raises the epoch and the answer tells the client, so whatever is late names an epoch that is over.
"""

from dataclasses import replace
from typing import NamedTuple

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.states import AT_REST, PREPARED, TxnState
from everlog.coordinator.txn.transaction import (
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_PRODUCER,
    Transaction,
    exhausted,
)
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import ProducerId, Timestamp

EPOCH_BUMP_VERSION = 2
"""The transaction version from which each end raises the epoch."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """A producer wants its transaction committed or aborted."""

    transactional_id: str
    producer: ProducerStamp
    commit: bool
    version: int
    """The transaction version that the client speaks."""


class Ending(NamedTuple):
    """What an EndTxn comes to."""

    transaction: Transaction | None
    """As it is to be written down; None for a request that was carried out before."""
    reply: ProducerStamp
    """What the producer goes on with."""


def decide_end(
    txn: Transaction | None, command: EndTransaction, fresh: ProducerId | None, wall: Timestamp
) -> Ending:
    """Decide on one request; Refused says why not."""
    if txn is None:
        raise Refused(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"nobody has the id {command.transactional_id!r}"
        )
    if command.version >= EPOCH_BUMP_VERSION:
        return _decide_end_v2(txn, command, fresh, wall)
    check_client(txn, command.producer)
    if txn.state is TxnState.ONGOING:
        return _prepare(txn, command, fresh, wall)
    if txn.state is _completed(command):
        return Ending(None, txn.client)
    if txn.state is _preparing(command):
        raise _not_over_yet(txn)
    raise _wrong_state(txn, command)


def _decide_end_v2(
    txn: Transaction, command: EndTransaction, fresh: ProducerId | None, wall: Timestamp
) -> Ending:
    if _repeats(txn, command.producer) and txn.state not in (TxnState.ONGOING, TxnState.EMPTY):
        # The client did not hear that its transaction is over, and gets the same answer again.
        if txn.state is _completed(command):
            return Ending(None, txn.client)
        if txn.state is _preparing(command):
            raise _not_over_yet(txn)
        raise _wrong_state(txn, command)
    # An epoch that is over is never one of this transaction, even where it would fit the state.
    check_client(txn, command.producer)
    if txn.state in PREPARED:
        raise _not_over_yet(txn)
    if txn.state is TxnState.ONGOING:
        return _prepare(txn, command, fresh, wall)
    assert txn.state in AT_REST, txn
    if command.commit:
        raise _wrong_state(txn, command)
    # The client may have begun without anything reaching us. Its epoch is raised all the same, so that
    # what is still on its way is fenced.
    ending = _prepare(txn, command, fresh, wall)
    assert ending.transaction is not None
    return Ending(replace(ending.transaction, started_at=wall), ending.reply)


def _prepare(txn: Transaction, command: EndTransaction, fresh: ProducerId | None, wall: Timestamp) -> Ending:
    moved = prepared(txn, commit=command.commit, version=command.version, fresh=fresh, wall=wall)
    return Ending(moved, moved.client)


def prepared(
    txn: Transaction, *, commit: bool, version: int, fresh: ProducerId | None, wall: Timestamp
) -> Transaction:
    """The transaction with its end decided: `producer` is what markers bear, `client` what comes after."""
    client = txn.client
    if version < EPOCH_BUMP_VERSION:
        successor = client
    elif exhausted(client.epoch):
        assert fresh is not None, txn
        successor = ProducerStamp(fresh, 0)
    else:
        successor = ProducerStamp(client.producer_id, client.epoch + 1)
    moved = replace(
        txn.moved(TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT, wall),
        previous_producer_id=client.producer_id,
        client_version=version,
    )
    if successor.producer_id == txn.producer_id:
        return replace(
            moved, producer_epoch=successor.epoch, next_producer_id=NO_PRODUCER, next_producer_epoch=-1
        )
    # The client goes on with another id. Markers still have to be above the epoch of the records.
    bump = version >= EPOCH_BUMP_VERSION
    return replace(
        moved,
        producer_epoch=min(txn.producer_epoch + bump, MAX_EPOCH),
        next_producer_id=successor.producer_id,
        next_producer_epoch=successor.epoch,
    )


def completed(txn: Transaction, wall: Timestamp) -> Transaction:
    """The transaction with all its markers written."""
    assert txn.state in PREPARED, txn
    commit = txn.state is TxnState.PREPARE_COMMIT
    client = txn.client
    return replace(
        txn.moved(TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT, wall),
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        next_producer_id=NO_PRODUCER,
        next_producer_epoch=-1,
        partitions=frozenset(),
    )


def check_client(txn: Transaction, producer: ProducerStamp) -> None:
    """Refuse whoever is not the producer that has the id now."""
    client = txn.client
    if producer.producer_id != client.producer_id:
        raise Refused(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{txn.transactional_id!r} belongs to producer {client.producer_id}, found {producer}",
        )
    if producer.epoch != client.epoch:
        raise Refused(
            ErrorCode.PRODUCER_FENCED,
            f"{txn.transactional_id!r} is in epoch {client.epoch}, found {producer.epoch}",
        )


def _repeats(txn: Transaction, producer: ProducerStamp) -> bool:
    """Whether the producer is what the client had before the last end gave it another epoch, or id."""
    client = txn.client
    if client.epoch == 0:
        return producer == (txn.previous_producer_id, LAST_CLIENT_EPOCH)
    return producer == (client.producer_id, client.epoch - 1)


def _preparing(command: EndTransaction) -> TxnState:
    return TxnState.PREPARE_COMMIT if command.commit else TxnState.PREPARE_ABORT


def _completed(command: EndTransaction) -> TxnState:
    return TxnState.COMPLETE_COMMIT if command.commit else TxnState.COMPLETE_ABORT


def _not_over_yet(txn: Transaction) -> Refused:
    return Refused(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"the markers of {txn.transactional_id!r} are being written"
    )


def _wrong_state(txn: Transaction, command: EndTransaction) -> Refused:
    wanted = "committed" if command.commit else "aborted"
    return Refused(
        ErrorCode.INVALID_TXN_STATE,
        f"the transaction of {txn.transactional_id!r} is in state {txn.state.text} and cannot be {wanted}",
    )
