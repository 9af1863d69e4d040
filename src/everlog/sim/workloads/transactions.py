"""Transactional producers, in both versions of the protocol (KIP-890), and several with the same id.

Version 1 keeps its epoch over transactions, so that a request that comes late may meet the next one; nothing
in the protocol tells them apart. Such a producer therefore takes a new epoch whenever something of its
transaction was lost on the way. Version 2 needs no such care, and takes none.
"""

from collections.abc import Mapping

from everlog.model.errors import ErrorCode
from everlog.sim.history import Kind, Membership, Outcome, Polled, Sent
from everlog.sim.outcomes import DEFINITE_END_TXN_ERRORS, outcome
from everlog.sim.script import Lost, Script, ask
from everlog.sim.workloads.actor import LOADING, Actor, Topic, by_topic, error_name
from everlog.sim.workloads.appender import a_produce, placed
from everlog.sim.workloads.content import ProducerState, a_batch, with_digest
from everlog.sim.workloads.reader import Reader
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.produce import ProduceResponse
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

_ATTEMPTS = 8
_AGAIN = LOADING | {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS}
_COORDINATOR, _DATA = "coordinator", "data"


class Transactions:
    """One transactional id as one client has it: its epoch, and the transaction that is open, if one is."""

    def __init__(self, actor: Actor, transactional_id: str, version: int, timeout_ms: int) -> None:
        self._actor = actor
        self.transactional_id = transactional_id
        self.version = version
        self._timeout_ms = timeout_ms
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}
        self._was_lost = False
        """Whether something of this transaction was lost on the way."""
        self._must_init = True
        self.last_error = ""

    @property
    def epochs(self) -> dict[str, int]:
        """What this producer is, as histories have it."""
        return {f"transactional id {self.transactional_id}": self._epoch}

    def begin(self) -> Script[bool]:
        """Be ready for a transaction, with an epoch of its own if there is need; False if that failed."""
        self._was_lost = False
        self.last_error = ""
        if self._must_init:
            yield from self._init()
        return not self._must_init

    def _init(self) -> Script[None]:
        actor = self._actor
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        for _ in range(_ATTEMPTS):
            start = actor.now()
            try:
                answer = yield from ask(InitProducerIdResponse, request, 5, _COORDINATOR)
            except Lost:
                yield from actor.pause(100)
                continue
            if answer.error_code == ErrorCode.NONE:
                self._take_over(answer.producer_id, answer.producer_epoch)
                self._must_init = False
                actor.note(Kind.FENCE, Outcome.OK, start, epochs=self.epochs)
                return
            if answer.error_code not in _AGAIN and answer.error_code != ErrorCode.PRODUCER_FENCED:
                what = error_name(answer.error_code)
                actor.setting.complain(actor.name, f"InitProducerId answered {what}")
            yield from actor.pause(200)

    def _take_over(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._sequences.clear()
        self._producer_id, self._epoch = producer_id, epoch

    def write(self, topic: Topic, records: Mapping[int, tuple[Sent, ...]]) -> Script[tuple[Sent, ...] | None]:
        """Write records, by partition; returns them with their offsets, or None if not all were taken."""
        if self.version == 1 and not (yield from self._add_partitions(topic, list(records))):
            return None
        batches: dict[int, bytes] = {}
        for index, sends in records.items():
            sequence = self._sequences.get((topic.name, index), 0)
            self._sequences[topic.name, index] = sequence + len(sends)
            producer = ProducerState(self._producer_id, self._epoch, sequence)
            batches[index] = a_batch(sends, producer, transactional=True)
        found = yield from self._produce(topic, batches)
        if len(found) < len(records):
            return None
        return tuple(sent for index, sends in records.items() for sent in placed(sends, found[index]))

    def _add_partitions(self, topic: Topic, indexes: list[int]) -> Script[bool]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic.name, partitions=indexes)],
        )
        for _ in range(_ATTEMPTS):
            try:
                answer = yield from ask(AddPartitionsToTxnResponse, request, 3, _COORDINATOR)
            except Lost:
                self._was_lost = True
                yield from self._actor.pause(100)
                continue
            errors = {
                part.partition_error_code
                for each in answer.results_by_topic_v3_and_below
                for part in each.results_by_partition
            }
            if errors == {ErrorCode.NONE}:
                return True
            if not errors <= _AGAIN | {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}:
                self._failed(max(errors))
                return False
            yield from self._actor.pause(100)
        return False

    def _produce(self, topic: Topic, batches: dict[int, bytes]) -> Script[dict[int, int]]:
        """Send until every batch is answered or one is refused; the offsets that were given."""
        version = self._actor.chance.pick((9, 11)) if self.version == 1 else self._actor.chance.pick((12, 13))
        found: dict[int, int] = {}
        left = dict(batches)
        for _ in range(_ATTEMPTS):
            request = a_produce(topic, left, version, self.transactional_id)
            try:
                answer = yield from ask(ProduceResponse, request, version, _DATA)
            except Lost:
                self._was_lost = True
                yield from self._actor.pause(100)
                continue
            for part in answer.responses[0].partition_responses:
                if part.error_code == ErrorCode.NONE:
                    found[part.index] = part.base_offset
                    del left[part.index]
                elif part.error_code not in _AGAIN:
                    self._failed(part.error_code)
                    return found
            if not left:
                break
            yield from self._actor.pause(100)
        return found

    def commit_offsets(self, membership: Membership, offsets: Mapping[str, int]) -> Script[bool]:
        """Commit a group's offsets as a part of the transaction; False if they were not taken."""
        if self.version == 1 and not (yield from self._add_offsets(membership.group)):
            return False
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=membership.group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            generation_id_or_member_epoch=membership.generation,
            member_id=membership.member,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                        for index, offset in parts.items()
                    ],
                )
                for topic, parts in by_topic(offsets).items()
            ],
        )
        version = 3 if self.version == 1 else 5
        for _ in range(_ATTEMPTS):
            try:
                answer = yield from ask(TxnOffsetCommitResponse, request, version, "group")
            except Lost:
                self._was_lost = True
                yield from self._actor.pause(100)
                continue
            errors = {part.error_code for topic in answer.topics for part in topic.partitions}
            if errors == {ErrorCode.NONE}:
                return True
            if not errors <= _AGAIN | {ErrorCode.NONE}:
                self._failed(max(errors))
                return False
            yield from self._actor.pause(100)
        return False

    def _add_offsets(self, group: str) -> Script[bool]:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=group,
        )
        for _ in range(_ATTEMPTS):
            try:
                answer = yield from ask(AddOffsetsToTxnResponse, request, 3, _COORDINATOR)
            except Lost:
                self._was_lost = True
                yield from self._actor.pause(100)
                continue
            if answer.error_code == ErrorCode.NONE:
                return True
            if answer.error_code not in _AGAIN:
                self._failed(answer.error_code)
                return False
            yield from self._actor.pause(100)
        return False

    def _failed(self, error: int) -> None:
        self.last_error = error_name(error)
        self._must_init = True

    def end(self, *, commit: bool) -> Script[Outcome]:
        """End the transaction. What was to be aborted is never there; a commit may be unknown for good."""
        actor = self._actor
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commit,
        )
        known = Outcome.INFO
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = yield from ask(EndTxnResponse, request, 3 if self.version == 1 else 5, _COORDINATOR)
            except Lost:
                self._was_lost = True
                yield from actor.pause(100)
                continue
            if answer.error_code in _AGAIN:
                self._was_lost = True
                yield from actor.pause(100)
                continue
            known = outcome(answer.error_code, DEFINITE_END_TXN_ERRORS, attempt)
            self.last_error = self.last_error or error_name(answer.error_code)
            self._ended(answer)
            break
        else:
            self._must_init = True
        return known if commit else Outcome.FAIL

    def _ended(self, answer: EndTxnResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            self._must_init = True
        elif self.version == 1:
            self._must_init = self._must_init or self._was_lost
        else:
            self._take_over(answer.producer_id, answer.producer_epoch)


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
