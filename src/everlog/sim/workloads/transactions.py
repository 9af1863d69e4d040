"""Transactional producers, in both versions of the protocol (KIP-890), and several with the same id.

Version 1 keeps its epoch over transactions, so that a request that comes late may meet the next one; nothing
in the protocol tells them apart. Such a producer therefore takes a new epoch whenever something of its
transaction was lost on the way. Version 2 needs no such care, and takes none.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from everlog.client.core.errors import Fenced, Unreachable, error_code
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.txn.transactions import Stage, Turn
from everlog.client.core.txn.transactions import Transactions as ProducerCore
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.sim.history import Kind, Membership, Outcome, Polled, Sent
from everlog.sim.outcomes import DEFINITE_END_TXN_ERRORS, outcome
from everlog.sim.script import Lost, Script, ask
from everlog.sim.workloads.actor import LOADING, Actor, Topic, error_name, split
from everlog.sim.workloads.appender import a_produce, placed
from everlog.sim.workloads.content import ProducerState, a_batch, with_digest
from everlog.sim.workloads.reader import Reader
from everlog.sim.workloads.routing import GROUP, TRANSACTION
from everlog.wire.message import Message
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from everlog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from everlog.wire.messages.end_txn import EndTxnResponse
from everlog.wire.messages.init_producer_id import InitProducerIdResponse
from everlog.wire.messages.produce import ProduceResponse
from everlog.wire.messages.txn_offset_commit import TxnOffsetCommitResponse

A = TypeVar("A", bound=Message)

_ATTEMPTS = 8
_AGAIN = LOADING | {
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
_COORDINATOR, _DATA, _GROUP = "coordinator", "data", "group"


class Transactions:
    """One transactional id as one client has it. What it may do, and what answers mean, the client's own
    core decides; where that one is at an end, or an end stays unknown, a new client takes the id over."""

    def __init__(self, actor: Actor, transactional_id: str, version: int, timeout_ms: int) -> None:
        self._actor = actor
        self.transactional_id = transactional_id
        self.version = version
        self._timeout_ms = timeout_ms
        self._core = self._new_core()
        self._sequences: dict[tuple[str, int], int] = {}
        self.last_error = ""

    @property
    def epochs(self) -> dict[str, int]:
        """What this producer is, as histories have it."""
        return {f"transactional id {self.transactional_id}": self._core.identity.producer_epoch}

    def begin(self) -> Script[bool]:
        """Be ready for a transaction, with an epoch of its own if there is need; False if that failed."""
        self.last_error = ""
        core = self._core
        if core.stage not in (Stage.UNINITIALIZED, Stage.INITIALIZING, Stage.READY):
            core = self._core = self._new_core()
        if core.stage is not Stage.READY:
            core.init()
        if core.stage is not Stage.READY or core.needs_epoch:
            yield from self._init()
        if core.stage is not Stage.READY or core.needs_epoch:
            return False
        core.begin()
        return True

    def _new_core(self) -> ProducerCore:
        core = ProducerCore(self.transactional_id, self._timeout_ms)
        # Some clients are older than the cluster.
        core.learn_level(self.version)
        return core

    def _init(self) -> Script[None]:
        actor, core = self._actor, self._core
        start = actor.now()

        def take(answer: InitProducerIdResponse) -> Turn:
            turn = core.initialized(answer)
            if turn is Turn.DONE:
                self._sequences.clear()
                actor.note(Kind.FENCE, Outcome.OK, start, epochs=self.epochs)
            elif turn is Turn.FAILED and not isinstance(core.problem, Fenced):
                what = error_name(answer.error_code)
                actor.setting.complain(actor.name, f"InitProducerId answered {what}")
            return turn

        yield from self._converse(core.init_request, InitProducerIdResponse, 5, _COORDINATOR, take)

    def _converse(
        self,
        make: Callable[[], Message | None],
        kind: type[A],
        version: int,
        channel: str,
        take: Callable[[A], Turn],
        group: str | None = None,
    ) -> Script[bool]:
        """Ask, if anything is due, until there is an answer that decides; whether it is the one hoped for."""
        for _ in range(_ATTEMPTS):
            request = make()
            if request is None:
                return True
            try:
                answer = yield from self._actor.routing.ask_coordinator(
                    kind,
                    request,
                    version,
                    self.transactional_id if group is None else group,
                    TRANSACTION if group is None else GROUP,
                    channel,
                )
            except Lost:
                self._core.lost()
            else:
                turn = take(answer)
                if turn is Turn.DONE:
                    return True
                if turn is Turn.FAILED:
                    self._note_problem()
                    return False
            yield from self._actor.pause(100)
        return False

    def _note_problem(self) -> None:
        problem: BaseException | None = self._core.problem
        while problem is not None and not isinstance(problem, Refused):
            problem = problem.__cause__
        self.last_error = self.last_error or (problem.code.name if problem is not None else "FENCED")

    def write(self, topic: Topic, records: Mapping[int, tuple[Sent, ...]]) -> Script[tuple[Sent, ...] | None]:
        """Write records, by partition; returns them with their offsets, or None if not all were taken."""
        core = self._core
        waiting = [index for index in records if not core.admit(TopicPartition(topic.name, index))]
        if waiting:
            added = yield from self._converse(
                core.partitions_request, AddPartitionsToTxnResponse, 3, _COORDINATOR, core.partitions_added
            )
            if not added:
                return None
        batches: dict[int, bytes] = {}
        for index, sends in records.items():
            sequence = self._sequences.get((topic.name, index), 0)
            self._sequences[topic.name, index] = sequence + len(sends)
            producer = ProducerState(core.identity.producer_id, core.identity.producer_epoch, sequence)
            batches[index] = a_batch(sends, producer, transactional=True)
        found = yield from self._produce(topic, batches)
        if len(found) < len(records):
            return None
        return tuple(sent for index, sends in records.items() for sent in placed(sends, found[index]))

    def _produce(self, topic: Topic, batches: dict[int, bytes]) -> Script[dict[int, int]]:
        """Send until every batch is answered or one is refused; the offsets that were given."""
        version = self._actor.chance.pick((9, 11)) if self.version == 1 else self._actor.chance.pick((12, 13))
        found: dict[int, int] = {}
        left = dict(batches)
        routing = self._actor.routing
        for _ in range(_ATTEMPTS):
            shares = yield from routing.shares(topic, left)
            for node, indexes in shares.items():
                share = {index: left[index] for index in indexes}
                request = a_produce(topic, share, version, self.transactional_id)
                try:
                    answer = yield from ask(ProduceResponse, request, version, _DATA, node=node)
                except Lost:
                    for index in share:
                        routing.forget_leader(topic, index)
                    continue
                for part in answer.responses[0].partition_responses:
                    if part.error_code == ErrorCode.NONE:
                        found[part.index] = part.base_offset
                        del left[part.index]
                    elif part.error_code in _AGAIN:
                        routing.forget_leader(topic, part.index)
                    else:
                        self._batch_failed(Refused(error_code(part.error_code), "produce"))
                        return found
            if not left:
                return found
            yield from self._actor.pause(100)
        self._batch_failed(Unreachable("produce"))
        return found

    def _batch_failed(self, error: EverlogError) -> None:
        self._core.batch_failed(error)
        self._note_problem()

    def commit_offsets(self, membership: Membership, offsets: Mapping[str, int]) -> Script[bool]:
        """Commit a group's offsets as a part of the transaction; False if they were not taken."""
        core, group = self._core, membership.group
        added = yield from self._converse(
            lambda: core.group_request(group),
            AddOffsetsToTxnResponse,
            3,
            _COORDINATOR,
            lambda answer: core.group_added(group, answer),
        )
        if not added:
            return False
        as_member = GroupMetadata(group, membership.generation, membership.member)
        at = {TopicPartition(*split(name)): OffsetAndMetadata(offset) for name, offset in offsets.items()}
        return (
            yield from self._converse(
                lambda: core.offsets_request(at, as_member),
                TxnOffsetCommitResponse,
                3 if self.version == 1 else 5,
                _GROUP,
                core.offsets_taken,
                group,
            )
        )

    def end(self, *, commit: bool) -> Script[Outcome]:
        """End the transaction. What was to be aborted is never there; a commit may be unknown for good."""
        core = self._core
        if core.stage is Stage.FATAL:
            return Outcome.FAIL
        if commit:
            core.start_commit()
        else:
            core.start_abort()
        known, attempts = Outcome.INFO, 0

        def make() -> Message | None:
            nonlocal known, attempts
            attempts += 1
            request = core.end_request()
            if request is None:
                known = Outcome.OK
            return request

        def take(answer: EndTxnResponse) -> Turn:
            nonlocal known
            before = core.identity
            turn = core.ended(answer)
            if turn in (Turn.DONE, Turn.FAILED):
                known = outcome(answer.error_code, DEFINITE_END_TXN_ERRORS, attempts)
            if core.identity != before:
                self._sequences.clear()
            return turn

        yield from self._converse(make, EndTxnResponse, 3 if self.version == 1 else 5, _COORDINATOR, take)
        return known if commit else Outcome.FAIL


class Transactor(Reader):
    """Writes to several partitions at once, reads before some of it, and aborts now and then."""

    _keys = 0

    def transact(self, topic: Topic, transactional_id: str, version: int, keys: int = 0) -> Script[None]:
        """Do transactions until told to stop; with keys, so many of them are set and deleted."""
        self._keys = keys
        yield from self.find_coordinator(transactional_id, 1)
        producer = Transactions(self, transactional_id, version, timeout_ms=1_500)
        positions = self._choose(topic)
        while not self.stopping:
            if not (yield from producer.begin()):
                continue
            yield from self._transaction(topic, producer, positions)
            yield from self.pause(60)

    def _transaction(self, topic: Topic, producer: Transactions, positions: dict[int, int]) -> Script[None]:
        start, epochs = self.now(), producer.epochs
        reads: tuple[Polled, ...] = ()
        if self.chance.happens(40):
            found = yield from self.fetch(topic, positions, read_committed=True)
            reads = () if found is None else found[0]
        sends: list[Sent] = []
        whole = True
        for _ in range(1 + self.chance.below(2)):
            records = self._writes(topic)
            given = yield from producer.write(topic, records)
            sends += [sent for sends_ in records.values() for sent in sends_] if given is None else given
            if given is None:
                whole = False
                break
        if self.chance.happens(5):
            # Away for so long that the coordinator may have aborted it.
            yield from self.pause(4_000)
        ended = yield from producer.end(commit=whole and not self.chance.happens(25))
        self.note(
            Kind.TXN,
            ended,
            start,
            sends=tuple(sends),
            polls=reads,
            epochs=epochs,
            note=f"version {producer.version} {producer.last_error}",
        )

    def _writes(self, topic: Topic) -> dict[int, tuple[Sent, ...]]:
        wall = self.setting.wall()
        count = 1 + self.chance.below(topic.partitions)
        first = self.chance.below(topic.partitions)
        return {
            (first + step) % topic.partitions: tuple(
                self._write(topic.names()[(first + step) % topic.partitions], wall)
                for _ in range(1 + self.chance.below(2))
            )
            for step in range(count)
        }

    def _write(self, partition: str, wall: int) -> Sent:
        if not self._keys:
            return with_digest(partition, self.value(), wall)
        key, tombstone = f"k{self.chance.below(self._keys)}", self.chance.happens(15)
        return with_digest(partition, self.value(), wall, key, tombstone=tombstone)
