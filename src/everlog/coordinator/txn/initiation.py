"""InitProducerId with a transactional id: who gets it, in which epoch, and who is fenced by that.

Each answer raises the epoch, so whoever had the id before can do nothing more with it. A client that names
the id and epoch it has is compared with what is known first (KIP-360): it is either the rightful one, or one
that repeats a request whose answer it did not get, or a zombie.
"""

from dataclasses import replace
from typing import NamedTuple

from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.ending import EPOCH_BUMP_VERSION, prepared
from everlog.coordinator.txn.states import AT_REST, PREPARED, TxnState
from everlog.coordinator.txn.transaction import Transaction, exhausted
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_TIMESTAMP, ProducerId, Timestamp

NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """A producer asks for its transactional id."""

    transactional_id: str
    timeout_ms: int
    """`NO_TIMEOUT_MS` where the client has two-phase commit."""
    expected: ProducerStamp | None = None
    """The id and epoch that the client has, if it says so."""
    keep_prepared: bool = False
    """Whether an ongoing transaction is to be kept for this client to end (KIP-939)."""


class Initiated(NamedTuple):
    """What the producer is to go on with."""

    producer: ProducerStamp
    kept: ProducerStamp | None = None
    """The producer of the transaction that was kept, if there is one."""


class Initiation(NamedTuple):
    """What an InitProducerId comes to."""

    transaction: Transaction
    """As it is to be written down."""
    reply: Initiated | None
    """None where an ongoing transaction must be aborted first: the client asks again."""
    last_epoch: int
    """The epoch that this very client had before; it may repeat its request with it."""


def needs_producer_id(txn: Transaction | None) -> bool:
    """Whether a decision on this id may need a producer id that nobody has had."""
    return txn is None or exhausted(txn.client.epoch)


def decide_init(
    txn: Transaction | None,
    command: InitProducerId,
    last_epoch: int,
    fresh: ProducerId | None,
    wall: Timestamp,
) -> Initiation:
    """Decide on one request; `last_epoch` is what the client that has the id had before, -1 if unknown."""
    if txn is None:
        assert fresh is not None
        made = Transaction(
            command.transactional_id,
            fresh,
            0,
            command.timeout_ms,
            TxnState.EMPTY,
            wall,
            previous_producer_id=fresh,
        )
        return Initiation(made, Initiated(made.producer), NO_EPOCH)
    expected, client = command.expected, txn.client
    is_current = expected is None or expected == client
    is_repeated = expected is not None and _repeats(expected, txn, last_epoch)
    # Another client's request leaves the old one nothing that it could repeat.
    repeatable_epoch = NO_EPOCH if expected is None else expected.epoch
    if not is_current and not is_repeated:
        raise Refused(
            ErrorCode.PRODUCER_FENCED,
            f"{txn.transactional_id!r} belongs to producer {client.producer_id} in epoch {client.epoch}, "
            f"found {expected}",
        )
    if txn.state in PREPARED:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, _busy(txn))
    if txn.state is TxnState.ONGOING:
        if not is_current:
            # A late copy of a request that was answered: it must not end what was begun since.
            raise Refused(ErrorCode.PRODUCER_FENCED, _busy(txn))
        if command.keep_prepared:
            return _keep(txn, command, fresh, wall)
        aborted = prepared(txn, commit=False, version=EPOCH_BUMP_VERSION, fresh=fresh, wall=wall)
        return Initiation(aborted, None, repeatable_epoch)
    assert txn.state in AT_REST, txn
    successor = client if is_repeated else _successor(client, fresh)
    moved = replace(
        txn.moved(TxnState.EMPTY, wall),
        producer_id=successor.producer_id,
        producer_epoch=successor.epoch,
        previous_producer_id=txn.producer_id,
        timeout_ms=command.timeout_ms,
        partitions=frozenset(),
        started_at=NO_TIMESTAMP,
    )
    return Initiation(moved, Initiated(successor), repeatable_epoch)


def _keep(txn: Transaction, command: InitProducerId, fresh: ProducerId | None, wall: Timestamp) -> Initiation:
    """Leave the transaction as it is, and let this client alone end it."""
    successor = _successor(txn.client, fresh)
    moved = replace(
        txn.moved(TxnState.ONGOING, wall),
        next_producer_id=successor.producer_id,
        next_producer_epoch=successor.epoch,
        timeout_ms=command.timeout_ms,
    )
    return Initiation(moved, Initiated(successor, txn.producer), NO_EPOCH)


def _successor(client: ProducerStamp, fresh: ProducerId | None) -> ProducerStamp:
    if not exhausted(client.epoch):
        return ProducerStamp(client.producer_id, client.epoch + 1)
    assert fresh is not None, client
    return ProducerStamp(fresh, 0)


def _repeats(expected: ProducerStamp, txn: Transaction, last_epoch: int) -> bool:
    """Whether the client asks again for what it was given, having missed the answer."""
    if expected.epoch != last_epoch:
        return False
    if expected.producer_id == txn.client.producer_id:
        return True
    return expected.producer_id == txn.previous_producer_id and exhausted(expected.epoch)


def _busy(txn: Transaction) -> str:
    return f"the transaction of {txn.transactional_id!r} is in state {txn.state.text}"
