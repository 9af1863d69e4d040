"""The states of a transaction, and which may follow which.

The numbers and names are Kafka's, as they lie in `__transaction_state` and as ListTransactions tells them.
"""

from enum import IntEnum
from typing import Final


class TxnState(IntEnum):
    """Where a transactional id is."""

    EMPTY = 0
    """A producer has the id, and no transaction."""
    ONGOING = 1
    """Partitions were added."""
    PREPARE_COMMIT = 2
    """To be committed, whatever happens: the markers are owed."""
    PREPARE_ABORT = 3
    """To be aborted, whatever happens: the markers are owed."""
    COMPLETE_COMMIT = 4
    """Every partition has its marker."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id has expired and is being removed."""
    PREPARE_EPOCH_FENCE = 7
    """An old producer is being kept out. Kafka passes through it in memory; here nothing does."""

    @property
    def text(self) -> str:
        """Kafka's name of the state."""
        return _NAMES[self]


_NAMES: Final = {
    TxnState.EMPTY: "Empty",
    TxnState.ONGOING: "Ongoing",
    TxnState.PREPARE_COMMIT: "PrepareCommit",
    TxnState.PREPARE_ABORT: "PrepareAbort",
    TxnState.COMPLETE_COMMIT: "CompleteCommit",
    TxnState.COMPLETE_ABORT: "CompleteAbort",
    TxnState.DEAD: "Dead",
    TxnState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

BY_NAME: Final = {name: state for state, name in _NAMES.items()}

PREPARED: Final = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})
"""The end is decided and markers are owed."""

AT_REST: Final = frozenset({TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
"""No transaction is under way; such an id may expire."""

LEGAL_PREDECESSORS: Final[dict[TxnState, frozenset[TxnState]]] = {
    TxnState.EMPTY: AT_REST,
    TxnState.ONGOING: AT_REST | {TxnState.ONGOING},
    TxnState.PREPARE_COMMIT: frozenset({TxnState.ONGOING}),
    # A transaction that nothing was added to may be aborted too, from version 2 on (KIP-890).
    TxnState.PREPARE_ABORT: AT_REST | {TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE},
    TxnState.COMPLETE_COMMIT: frozenset({TxnState.PREPARE_COMMIT}),
    TxnState.COMPLETE_ABORT: frozenset({TxnState.PREPARE_ABORT}),
    TxnState.DEAD: AT_REST,
    TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.ONGOING}),
}
