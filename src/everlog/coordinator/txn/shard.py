"""TxnShard: one partition of `__transaction_state`, with the transactional ids in it (P5).

The order of an end is always: decide, log, commit, answer, markers, log that they are written. The decision
is in the log before the first marker, so a coordinator that dies in between leaves one to go on from there.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from everlog.coordinator.machine import Decision, Done, Machine, Phase, ProducerStamp
from everlog.coordinator.records import CoordinatorRecord
from everlog.coordinator.shards import ShardWorld
from everlog.coordinator.txn import ending, initiation, joining
from everlog.coordinator.txn.ending import EndTransaction
from everlog.coordinator.txn.expiry import Expiry
from everlog.coordinator.txn.initiation import Initiated, InitProducerId
from everlog.coordinator.txn.joining import AddPartitions
from everlog.coordinator.txn.owed import OwedMarkers
from everlog.coordinator.txn.patience import Patience
from everlog.coordinator.txn.states import PREPARED, TxnState
from everlog.coordinator.txn.transaction import TXN_KINDS, Transaction, exhausted, read_record
from everlog.metadata.delta import Changes
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant, Offset, ProducerId
from everlog.model.topics import TopicPartition

_log = logging.getLogger(__name__)

R = TypeVar("R")


class TxnShard:
    """The transactional ids that fall into one partition."""

    def __init__(self, world: ShardWorld) -> None:
        self.world = world
        self.machine = Machine(TXN_KINDS, self, world.journal, world.clock.wall, world.epoch)
        self._transactions: dict[str, Transaction] = {}
        # The epoch that the client of an id had before, with what it has now: soft, and true only as long as
        # it still has that. A client that missed an answer may ask again with it.
        self._last_epochs: dict[str, tuple[ProducerStamp, int]] = {}
        self._patience = Patience(world, self._add_partitions)
        self._owed = OwedMarkers(world, self.machine, self.get, self._patience.resume)
        self._expiry = Expiry(world, self.machine, self._transactions, self._time_out)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> Transaction | None:
        """What is known of an id; None if nobody has it."""
        return self._transactions.get(transactional_id)

    # --- the state that records make

    def apply(self, record: CoordinatorRecord, offset: Offset, producer: ProducerStamp | None) -> None:
        """Take in one record, live or in replay."""
        transactional_id, txn = read_record(record)
        if txn is None:
            self._transactions.pop(transactional_id, None)
            self._last_epochs.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = txn
        self._expiry.changed(transactional_id, txn)

    def end_transaction(self, producer: ProducerStamp, commit: bool) -> None:
        """No transaction writes to this topic."""

    # --- commands

    def init_producer_id(self, command: InitProducerId, done: Done[Initiated]) -> None:
        """Give a producer its transactional id, and fence whoever had it before."""

        def decide(fresh: ProducerId | None) -> Decision[Initiated | None]:
            known = self._transactions.get(command.transactional_id)
            made = initiation.decide_init(
                known, command, self._last_epoch(known), fresh, self.world.clock.wall()
            )
            self._last_epochs[command.transactional_id] = (made.transaction.client, made.last_epoch)
            return Decision((made.transaction.record(),), made.reply)

        def committed(reply: Initiated | Refused | StorageError | None) -> None:
            if reply is not None:
                done(reply)
                return
            done(
                Refused(
                    ErrorCode.CONCURRENT_TRANSACTIONS,
                    f"the transaction of {command.transactional_id!r} is being aborted",
                )
            )
            self._owed.settle(command.transactional_id)

        fresh = initiation.needs_producer_id(self._transactions.get(command.transactional_id))
        self._run(decide, committed, fresh=fresh)

    def add_partitions(self, command: AddPartitions, done: Done[None], patience_ms: int = 0) -> None:
        """Let a transaction have more partitions, and begin it if there is none.

        While the one before is still being ended, wait for so long rather than refuse; who waits is served in
        the order of coming.
        """
        txn = self._transactions.get(command.transactional_id)
        is_busy = txn is not None and txn.state in PREPARED and txn.client == command.producer
        if (patience_ms and is_busy) or self._patience.has(command.transactional_id):
            self._patience.wait(command, done, patience_ms)
        else:
            self._add_partitions(command, done)

    def _add_partitions(self, command: AddPartitions, done: Done[None]) -> None:
        def decide() -> Decision[None]:
            wall = self.world.clock.wall()
            moved = joining.decide_add(self._transactions.get(command.transactional_id), command, wall)
            return Decision(() if moved is None else (moved.record(),), None)

        self.machine.run(decide, done)

    def verify(
        self, transactional_id: str, producer: ProducerStamp, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """For each partition whether the producer's ongoing transaction has it; Refused if it has none."""
        self.machine.check_active()
        return joining.verified(
            self._transactions.get(transactional_id), transactional_id, producer, partitions
        )

    def end(self, command: EndTransaction, done: Done[ProducerStamp]) -> None:
        """Commit or abort a transaction; the reply is what the producer goes on with."""

        def decide(fresh: ProducerId | None) -> Decision[ProducerStamp]:
            known = self._transactions.get(command.transactional_id)
            ended = ending.decide_end(known, command, fresh, self.world.clock.wall())
            return self._ending(known, ended.transaction, ended.reply)

        def committed(reply: ProducerStamp | Refused | StorageError) -> None:
            done(reply)
            if isinstance(reply, ProducerStamp):
                self._owed.settle(command.transactional_id)

        self._run(decide, committed, fresh=self._needs_fresh(command.transactional_id))

    def _time_out(self, late: Transaction) -> None:
        """Abort a transaction that has been open for too long, and fence its producer."""
        transactional_id = late.transactional_id

        def decide(fresh: ProducerId | None) -> Decision[ProducerStamp]:
            known = self._transactions.get(transactional_id)
            if known is None or known.state is not TxnState.ONGOING or not known.is_same_as(late):
                return Decision((), late.client)  # It was ended while we waited for a producer id.
            wall = self.world.clock.wall()
            version = ending.EPOCH_BUMP_VERSION
            moved = ending.prepared(known, commit=False, version=version, fresh=fresh, wall=wall)
            _log.info(
                "the transaction of %r is aborted, it was open for more than %d ms",
                transactional_id,
                known.timeout_ms,
            )
            return self._ending(known, moved, moved.client)

        def committed(reply: ProducerStamp | Refused | StorageError) -> None:
            if isinstance(reply, Refused | StorageError):
                _log.warning("the transaction of %r stays open for now: %s", transactional_id, reply)
                self._expiry.try_again(transactional_id)
            else:
                self._owed.settle(transactional_id)

        self._run(decide, committed, fresh=self._needs_fresh(transactional_id))

    def _ending(
        self, before: Transaction | None, moved: Transaction | None, reply: ProducerStamp
    ) -> Decision[ProducerStamp]:
        if moved is None:
            return Decision((), reply)
        if before is not None and moved.client != before.client:
            self._last_epochs[moved.transactional_id] = (moved.client, before.client.epoch)
        return Decision((moved.record(),), reply)

    def _last_epoch(self, txn: Transaction | None) -> int:
        """The epoch that the client of an id had before the one it has; -1 if it has no right to it."""
        if txn is None:
            return initiation.NO_EPOCH
        client, last_epoch = self._last_epochs.get(txn.transactional_id, (txn.client, initiation.NO_EPOCH))
        return last_epoch if client == txn.client else initiation.NO_EPOCH

    def _run(self, decide: Callable[[ProducerId | None], Decision[R]], done: Done[R], *, fresh: bool) -> None:
        """Run a command, with a producer id that nobody has had if it may need one."""
        if not fresh or self.machine.phase is not Phase.ACTIVE:
            self.machine.run(partial(decide, None), done)
            return

        def taken(reply: ProducerId | Refused | StorageError) -> None:
            if isinstance(reply, Refused | StorageError):
                done(reply)
            else:
                self.machine.run(partial(decide, reply), done)

        self.world.take_producer_id(taken)

    def _needs_fresh(self, transactional_id: str) -> bool:
        """Whether the next epoch of an id is in another producer id."""
        txn = self._transactions.get(transactional_id)
        return txn is not None and exhausted(txn.client.epoch)

    # --- driven by the broker

    def activated(self, now: Instant) -> None:
        """Go on with what the coordinator before us has decided, and begin time-outs."""
        for transactional_id in [txn.transactional_id for txn in self if txn.state in PREPARED]:
            self._owed.settle(transactional_id)
        self._expiry.activated(now)

    def image_changed(self, changes: Changes) -> None:
        """Look again at the partitions that held up a transaction."""
        self._owed.image_changed()

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        self._owed.tick(now)
        self._patience.tick(now)
        self._expiry.tick(now)

    def deadline(self) -> Instant | None:
        """When the first of it is due."""
        deadlines = (self._owed.deadline(), self._patience.deadline(), self._expiry.deadline())
        return min((one for one in deadlines if one is not None), default=None)

    def close(self) -> None:
        """Coordinate no more, and tell all who wait."""
        self.machine.close()
        self._patience.close()
