"""ListTransactions: which of a shard's transactions somebody asks for."""

from collections.abc import Iterable, Iterator

from everlog.coordinator.group.regex import Pattern
from everlog.coordinator.txn.states import TxnState
from everlog.coordinator.txn.transaction import Transaction
from everlog.model.dataclass import dataclass
from everlog.model.ids import Timestamp


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """Which transactions are asked for; whatever is not given lets all pass."""

    states: frozenset[TxnState] | None = None
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    pattern: Pattern | None = None
    """What the whole of an id has to match."""


def listed(txns: Iterable[Transaction], wanted: TransactionFilter, wall: Timestamp) -> list[Transaction]:
    """Those that pass."""
    return list(_listed(txns, wanted, wall))


def _listed(txns: Iterable[Transaction], wanted: TransactionFilter, wall: Timestamp) -> Iterator[Transaction]:
    for txn in txns:
        if wanted.producer_ids and txn.producer_id not in wanted.producer_ids:
            continue
        if wanted.states is not None and txn.state not in wanted.states:
            continue
        if wanted.longer_than_ms >= 0 and wall - txn.started_at <= wanted.longer_than_ms:
            continue
        if wanted.pattern is not None and wanted.pattern.fullmatch(txn.transactional_id) is None:
            continue
        yield txn
