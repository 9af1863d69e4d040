"""Markers that are owed: for each transaction whose end is decided, until every partition has one.

A partition that cannot take its marker now is asked again later and holds up no other. One that was deleted
needs none. Only when all are written is the transaction complete, and that is written down too.
"""

import logging
from collections.abc import Callable

from everlog.coordinator.machine import Decision, Machine, Phase
from everlog.coordinator.shards import ShardWorld
from everlog.coordinator.txn.ending import completed
from everlog.coordinator.txn.markers import MarkerOutcome, TxnMarker
from everlog.coordinator.txn.states import PREPARED, TxnState
from everlog.coordinator.txn.transaction import Transaction
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant
from everlog.model.topics import TopicPartition

_log = logging.getLogger(__name__)

FIRST_RETRY_MS = 50
MAX_RETRY_MS = 1_000
"""How long until partitions are asked again that could not take their marker: twice as long each time."""


class _Debt:
    """The markers of one transaction."""

    __slots__ = ("retry_at", "unwritten", "wait_ms")

    def __init__(self, unwritten: frozenset[TopicPartition]) -> None:
        self.unwritten = unwritten
        self.wait_ms = FIRST_RETRY_MS
        self.retry_at: Instant | None = None
        """When to go on; None while something is under way."""


class OwedMarkers:
    """All markers that one shard owes."""

    def __init__(
        self,
        world: ShardWorld,
        machine: Machine,
        find: Callable[[str], Transaction | None],
        on_completed: Callable[[str], None],
    ) -> None:
        self._world = world
        self._machine = machine
        self._find = find
        self._on_completed = on_completed
        self._debts: dict[str, _Debt] = {}

    def settle(self, transactional_id: str) -> None:
        """Write the markers of a transaction whose end is decided and committed."""
        txn = self._find(transactional_id)
        if txn is None or txn.state not in PREPARED or transactional_id in self._debts:
            return
        debt = self._debts[transactional_id] = _Debt(txn.partitions)
        self._go_on(txn, debt)

    def image_changed(self) -> None:
        """Ask again at once: a partition that holds up its transaction may be gone, or back."""
        for transactional_id, debt in list(self._debts.items()):
            if debt.retry_at is not None:
                self._retry(transactional_id, debt)

    def tick(self, now: Instant) -> None:
        """Go on with those whose time has come."""
        for transactional_id, debt in list(self._debts.items()):
            if debt.retry_at is not None and debt.retry_at <= now:
                self._retry(transactional_id, debt)

    def deadline(self) -> Instant | None:
        """When the first of them wants to go on."""
        return min(
            (debt.retry_at for debt in self._debts.values() if debt.retry_at is not None), default=None
        )

    def _retry(self, transactional_id: str, debt: _Debt) -> None:
        txn = self._find(transactional_id)
        assert txn is not None, transactional_id
        assert txn.state in PREPARED, txn
        self._go_on(txn, debt)

    def _go_on(self, txn: Transaction, debt: _Debt) -> None:
        debt.retry_at = None
        if not debt.unwritten:
            self._complete(txn, debt)
            return
        marker = TxnMarker(
            txn.producer,
            txn.state is TxnState.PREPARE_COMMIT,
            self._machine.coordinator_epoch,
            txn.client_version,
        )
        self._world.write_markers(marker, debt.unwritten, lambda outcome: self._written(txn, debt, outcome))

    def _written(self, txn: Transaction, debt: _Debt, outcome: MarkerOutcome) -> None:
        if self._machine.phase is not Phase.ACTIVE:
            return
        if outcome.fenced:
            # Whoever coordinates after us ends it; the metadata that says so is on its way to us.
            _log.warning("markers of %r are refused: a later coordinator is at work", txn.transactional_id)
            self._later(debt)
            return
        debt.unwritten = outcome.unwritten
        if not debt.unwritten:
            self._complete(txn, debt)
            return
        _log.warning(
            "markers of %r could not be written to %s yet",
            txn.transactional_id,
            ", ".join(map(str, sorted(debt.unwritten))),
        )
        self._later(debt)

    def _complete(self, txn: Transaction, debt: _Debt) -> None:
        def decide() -> Decision[bool]:
            if self._find(txn.transactional_id) != txn:
                raise Refused(ErrorCode.INVALID_TXN_STATE, f"{txn.transactional_id!r} was ended by others")
            return Decision((completed(txn, self._world.clock.wall()).record(),), True)

        def committed(reply: bool | Refused | StorageError) -> None:
            if reply is True:
                return
            if self._machine.phase is Phase.ACTIVE:
                _log.warning("%r is not yet known to be over: %s", txn.transactional_id, reply)

        self._machine.run(decide, committed)
        if self._find(txn.transactional_id) is txn:
            # Nothing was written: the disk refused. The markers are there, only this is to be repeated.
            self._later(debt)
            return
        self._debts.pop(txn.transactional_id, None)
        self._on_completed(txn.transactional_id)

    def _later(self, debt: _Debt) -> None:
        debt.retry_at = Instant(self._world.clock.now() + debt.wait_ms)
        debt.wait_ms = min(2 * debt.wait_ms, MAX_RETRY_MS)
        self._world.alarm.ring_by(debt.retry_at)
