"""A shard of transactions on a journal in memory, with the partitions that its markers go to."""

from collections.abc import Callable
from dataclasses import replace

from everlog.coordinator.machine import Decision, ProducerStamp
from everlog.coordinator.txn.ending import EndTransaction
from everlog.coordinator.txn.initiation import Initiated, InitProducerId
from everlog.coordinator.txn.joining import AddPartitions
from everlog.coordinator.txn.markers import MarkerOutcome, TxnMarker
from everlog.coordinator.txn.shard import TxnShard
from everlog.coordinator.txn.states import TxnState
from everlog.coordinator.txn.transaction import Transaction
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import ProducerId
from everlog.model.topics import TopicPartition
from tests.unit.coordinator.worlds import Replies, World

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 3)
MINUTE_MS = 60_000


class Partitions:
    """Where markers go: takes them at once, or not yet, or waits to be told."""

    def __init__(self) -> None:
        self.written: list[tuple[TopicPartition, TxnMarker]] = []
        self.away: set[TopicPartition] = set()
        """Partitions that take no marker now."""
        self.fenced = False
        self.holds = False
        self._waiting: list[Callable[[], None]] = []

    def write(
        self, marker: TxnMarker, partitions: frozenset[TopicPartition], done: Callable[[MarkerOutcome], None]
    ) -> None:
        def carry_out() -> None:
            there = partitions - self.away
            self.written += [(one, marker) for one in sorted(there)]
            done(MarkerOutcome(partitions - there, self.fenced))

        if self.holds:
            self._waiting.append(carry_out)
        else:
            carry_out()

    def forget(self) -> None:
        """Lose what waits, and hold no more."""
        self.holds = False
        self._waiting.clear()

    def release(self) -> None:
        """Carry out what waits, and hold no more."""
        self.holds = False
        waiting, self._waiting = self._waiting, []
        for carry_out in waiting:
            carry_out()


class Bench:
    """One shard, and who talks to it."""

    def __init__(self, **settings: str) -> None:
        self.world = World(**settings)
        self.partitions = Partitions()
        self.ids: list[Callable[[], None]] | None = None
        """Requests for producer ids that wait to be carried out; None where each is at once."""
        self.shard = self._started()

    def _started(self, epoch: int = 0) -> TxnShard:
        given = self.world.given(epoch)

        def take_id(done: Callable[[ProducerId | Refused | StorageError], None]) -> None:
            if self.ids is None:
                given.take_producer_id(done)
            else:
                self.ids.append(lambda: given.take_producer_id(done))

        shard = TxnShard(replace(given, write_markers=self.partitions.write, take_producer_id=take_id))
        self.world.journal.replay_into(shard.machine)
        shard.activated(self.world.clock.now())
        return shard

    def restart(self) -> None:
        """Another coordinator takes over from what is in the log; what was on its way is lost."""
        self.shard.close()
        self.partitions.forget()
        self.shard = self._started(self.shard.machine.coordinator_epoch + 1)

    def pass_time(self, ms: int) -> None:
        """Let time pass, and let the shard do what is due on the way."""
        end = self.world.clock.now() + ms
        while (due := self.shard.deadline()) is not None and due <= end:
            self.world.clock.advance(max(0, due - self.world.clock.now()))
            self.shard.tick(self.world.clock.now())
        self.world.clock.advance(end - self.world.clock.now())

    def asked(
        self,
        name: str = "t",
        *,
        expected: ProducerStamp | None = None,
        timeout_ms: int = MINUTE_MS,
        keep: bool = False,
    ) -> Replies[Initiated]:
        replies: Replies[Initiated] = Replies()
        self.shard.init_producer_id(InitProducerId(name, timeout_ms, expected, keep), replies.append)
        return replies

    def init(self, name: str = "t", **options: int) -> ProducerStamp:
        """A producer with this transactional id, asking until it gets it."""
        replies = self.asked(name, timeout_ms=options.get("timeout_ms", MINUTE_MS))
        if replies and isinstance(replies[0], Refused):
            replies = self.asked(name)
        return replies.only.producer

    def init_at(self, epoch: int, name: str = "t") -> ProducerStamp:
        """A producer that has come to an epoch, without asking for each one before it."""
        self.init(name)
        moved = replace(self.txn(name), producer_epoch=epoch)
        self.shard.machine.run(lambda: Decision((moved.record(),), None), lambda _reply: None)
        return moved.producer

    def added(
        self,
        producer: ProducerStamp,
        *partitions: TopicPartition,
        name: str = "t",
        version: int = 2,
        patience_ms: int = 0,
    ) -> Replies[None]:
        replies: Replies[None] = Replies()
        command = AddPartitions(name, producer, frozenset(partitions or (ORDERS,)), version)
        self.shard.add_partitions(command, replies.append, patience_ms)
        return replies

    def ended(
        self, producer: ProducerStamp, *, commit: bool = True, name: str = "t", version: int = 2
    ) -> Replies[ProducerStamp]:
        replies: Replies[ProducerStamp] = Replies()
        self.shard.end(EndTransaction(name, producer, commit, version), replies.append)
        return replies

    def begun(self, *partitions: TopicPartition, name: str = "t", version: int = 2) -> ProducerStamp:
        """A producer in the middle of a transaction."""
        producer = self.init(name)
        assert self.added(producer, *partitions, name=name, version=version) == [None]
        return producer

    def txn(self, name: str = "t") -> Transaction:
        found = self.shard.get(name)
        assert found is not None
        return found

    def state(self) -> TxnState:
        return self.txn().state


def code(replies: "Replies[None] | Replies[ProducerStamp] | Replies[Initiated]") -> ErrorCode:
    """The code of the one reply."""
    reply = replies[0]
    assert len(replies) == 1, replies
    if isinstance(reply, Refused):
        return reply.code
    assert not isinstance(reply, StorageError), reply
    return ErrorCode.NONE
