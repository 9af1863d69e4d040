"""Time: transactions that are open for too long, and transactional ids that nobody uses any more.

How long a transaction may be open is counted on the clock that never goes back. Only after a restart, when
that clock has begun anew, what is left is reckoned from the time of day, and never comes to more than the
time-out.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

from everlog.coordinator.machine import Decision, Machine, Phase
from everlog.coordinator.shards import ShardWorld
from everlog.coordinator.txn.states import AT_REST, TxnState
from everlog.coordinator.txn.transaction import NO_TIMEOUT_MS, Transaction, tombstone
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import Instant
from everlog.model.settings import broker_table as keys

_log = logging.getLogger(__name__)

_TOMBSTONES_AT_ONCE = 1_000


class Expiry:
    """What one shard does as time passes."""

    def __init__(
        self,
        world: ShardWorld,
        machine: Machine,
        transactions: Mapping[str, Transaction],
        time_out: Callable[[Transaction], None],
    ) -> None:
        self._world = world
        self._machine = machine
        self._transactions = transactions
        self._time_out = time_out
        self._due: dict[str, Instant] = {}
        self._clean_at: Instant | None = None

    def changed(self, transactional_id: str, txn: Transaction | None) -> None:
        """Watch a transaction that is open, and no other."""
        if self._machine.phase is Phase.LOADING:
            return
        if txn is None or txn.state is not TxnState.ONGOING or txn.timeout_ms == NO_TIMEOUT_MS:
            self._due.pop(transactional_id, None)
        elif transactional_id not in self._due:
            self._watch(txn, self._world.clock.now())

    def activated(self, now: Instant) -> None:
        """Watch what the log has left open, and abort at once what was open for too long while we were away.

        At once, because commits have waited for us as well: none may get ahead of a time-out that has passed.
        """
        for txn in self._transactions.values():
            self.changed(txn.transactional_id, txn)
        self._clean_at = Instant(now + self._clean_interval_ms)
        self.tick(now)

    def try_again(self, transactional_id: str) -> None:
        """A time-out could not be written down: come back to it."""
        txn = self._transactions.get(transactional_id)
        if txn is not None and txn.state is TxnState.ONGOING:
            self._ring(transactional_id, Instant(self._world.clock.now() + self._retry_ms))

    def tick(self, now: Instant) -> None:
        """Abort what was open for too long, and forget ids that were silent for too long."""
        for transactional_id in [one for one, due in self._due.items() if due <= now]:
            # Moved on first, so that it is not timed out twice while the first is on its way.
            self._due[transactional_id] = Instant(now + self._retry_ms)
            self._time_out(self._transactions[transactional_id])
        if self._clean_at is not None and self._clean_at <= now:
            self._clean_at = Instant(now + self._clean_interval_ms)
            self._forget_silent()

    def deadline(self) -> Instant | None:
        """When the first of it is due."""
        times = list(self._due.values())
        if self._clean_at is not None:
            times.append(self._clean_at)
        return min(times, default=None)

    @property
    def _clean_interval_ms(self) -> int:
        return self._world.settings()[keys.TRANSACTION_REMOVE_EXPIRED_INTERVAL_MS]

    @property
    def _retry_ms(self) -> int:
        return self._world.settings()[keys.TRANSACTION_ABORT_TIMED_OUT_INTERVAL_MS]

    def _watch(self, txn: Transaction, now: Instant) -> None:
        left_ms = txn.started_at + txn.timeout_ms + 1 - self._world.clock.wall()
        self._ring(txn.transactional_id, Instant(now + min(max(left_ms, 0), txn.timeout_ms + 1)))

    def _ring(self, transactional_id: str, due: Instant) -> None:
        self._due[transactional_id] = due
        self._world.alarm.ring_by(due)

    def _forget_silent(self) -> None:
        horizon = self._world.clock.wall() - self._world.settings()[keys.TRANSACTIONAL_ID_EXPIRATION_MS]
        silent = [
            txn.transactional_id
            for txn in self._transactions.values()
            if txn.state in AT_REST and txn.updated_at <= horizon
        ]
        for first in range(0, len(silent), _TOMBSTONES_AT_ONCE):
            records = tuple(tombstone(one) for one in silent[first : first + _TOMBSTONES_AT_ONCE])
            self._machine.run(partial(Decision, records, None), _forgotten)


def _forgotten(reply: Refused | StorageError | None) -> None:
    if reply is not None:
        _log.warning("transactional ids that expired are kept until the next time: %s", reply)
