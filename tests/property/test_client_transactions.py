"""P5: whatever coordinators and leaders answer, a transactional producer keeps what it promises."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from everlog.client.core.errors import TransactionError
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.txn.transactions import Stage, Transactions, Turn
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from everlog.wire.messages.end_txn import EndTxnResponse
from everlog.wire.messages.init_producer_id import InitProducerIdResponse
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

C = ErrorCode
OFTEN = [
    C.NONE,
    C.CONCURRENT_TRANSACTIONS,
    C.NOT_COORDINATOR,
    C.TRANSACTION_ABORTABLE,
    C.INVALID_TXN_STATE,
    C.INVALID_PRODUCER_ID_MAPPING,
    C.OUT_OF_ORDER_SEQUENCE_NUMBER,
    C.ILLEGAL_GENERATION,
]
codes = st.one_of(st.just(C.NONE), st.sampled_from(OFTEN), st.sampled_from(ErrorCode))
errors = st.sampled_from([code for code in ErrorCode if code is not C.NONE])
places = st.builds(TopicPartition, st.just("t"), st.integers(0, 2))
OFFSETS = {TopicPartition("in", 0): OffsetAndMetadata(1)}
AT_REST = (Stage.UNINITIALIZED, Stage.INITIALIZING, Stage.READY)


class Producer(RuleBasedStateMachine):
    """A producer that asks for anything, and is answered with anything."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Transactions("id", 60_000)
        self.epoch = 0
        self.identity = self.core.identity
        self.version = self.core.version
        self.stage = self.core.stage
        self.has_failed = False
        """Whether the current transaction was ever said to be abortable only."""
        self.commit_asked = False
        self.spoiled: set[tuple[int, int]] = set()
        """Identities of version 1 of which something may come late."""
        self.problem: EverlogError | None = None

    def _try(self, call: Callable[[], object]) -> bool:
        """Whether a call was allowed; if not it must leave all as it was."""
        before = (self.core.stage, self.core.identity, self.core.version)
        try:
            call()
        except EverlogError as error:
            is_ours = isinstance(error, TransactionError)
            assert (self.core.stage, self.core.identity, self.core.version) == before
            assert is_ours or self.core.stage is Stage.FATAL
            return False
        return True

    def _bears_its_identity(self, producer_id: int, epoch: int) -> None:
        assert (producer_id, epoch) == self.core.identity == self.identity

    def _spoil(self) -> None:
        if self.core.version == 1 and self.core.stage not in AT_REST:
            self.spoiled.add(self.core.identity)

    @rule(code=codes)
    def init(self, code: ErrorCode) -> None:
        if self._try(self.core.init):
            self._take_epoch(code)

    def _take_epoch(self, code: ErrorCode) -> None:
        self.core.init_request()
        self.epoch += 1
        answer = InitProducerIdResponse(error_code=code, producer_id=1, producer_epoch=self.epoch)
        if self.core.initialized(answer) is Turn.DONE:
            self.identity = self.core.identity

    @rule(code=codes)
    def begin(self, code: ErrorCode) -> None:
        if self.core.stage is Stage.READY and self.core.needs_epoch:
            self._take_epoch(code)
            if self.core.needs_epoch or self.core.stage is not Stage.READY:
                return
        if self._try(self.core.begin):
            assert self.core.identity not in self.spoiled
            assert self.core.identity != (-1, -1)
            self.identity, self.version = self.core.identity, self.core.version
            self.has_failed = self.commit_asked = False

    @precondition(lambda self: self.core.may_write)
    @rule(place=places, code=codes, is_lost=st.booleans())
    def write(self, place: TopicPartition, code: ErrorCode, is_lost: bool) -> None:
        if self.core.admit(place):
            return
        assert self.core.version == 1
        request = self.core.partitions_request()
        assert request is not None
        self._bears_its_identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        if is_lost:
            self._spoil()
            self.core.lost()
            return
        parts = [
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
            for topic in request.v3_and_below_topics
            for number in topic.partitions
        ]
        answer = AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(name="t", results_by_partition=parts)
            ]
        )
        turn = self.core.partitions_added(answer)
        assert (turn is Turn.DONE) == (code is C.NONE)
        if turn is Turn.DONE:
            assert self.core.admit(place)

    @rule(code=codes, then=codes)
    def add_offsets(self, code: ErrorCode, then: ErrorCode) -> None:
        def add() -> None:
            request = self.core.group_request("g")
            if request is not None:
                assert self.core.version == 1
                self._bears_its_identity(request.producer_id, request.producer_epoch)
                if self.core.group_added("g", AddOffsetsToTxnResponse(error_code=code)) is not Turn.DONE:
                    return
            commit = self.core.offsets_request(OFFSETS, GroupMetadata("g"))
            self._bears_its_identity(commit.producer_id, commit.producer_epoch)
            part = TxnOffsetCommitResponsePartition(error_code=then)
            topic = TxnOffsetCommitResponseTopic(name="in", partitions=[part])
            self.core.offsets_taken(TxnOffsetCommitResponse(topics=[topic]))

        self._try(add)

    @rule(code=errors)
    def batch_fails(self, code: ErrorCode) -> None:
        if code is not C.TRANSACTION_ABORTABLE:
            self._spoil()
        self.core.batch_failed(Refused(code, "no"))

    @rule()
    def answer_is_lost(self) -> None:
        self._spoil()
        self.core.lost()

    @rule(level=st.integers(0, 3))
    def cluster_changes(self, level: int) -> None:
        self.core.learn_level(level)

    @rule(code=codes, flushed=st.booleans())
    def commit(self, code: ErrorCode, flushed: bool) -> None:
        if not self._try(self.core.start_commit):
            return
        if not flushed:
            self.core.put_off_commit()
            return
        assert not self.has_failed
        self._end(code, commit=True)

    @rule(code=codes)
    def abort(self, code: ErrorCode) -> None:
        if self._try(self.core.start_abort):
            assert not self.commit_asked or self.has_failed
            self._end(code, commit=False)

    def _end(self, code: ErrorCode, *, commit: bool) -> None:
        request = self.core.end_request()
        if request is None:
            assert self.core.stage is Stage.READY
            return
        assert request.committed == commit
        self._bears_its_identity(request.producer_id, request.producer_epoch)
        self.commit_asked = self.commit_asked or commit
        if not commit and self.core.version == 1:
            self.spoiled.add(self.core.identity)
        self.epoch += 1
        answer = EndTxnResponse(error_code=code)
        if self.core.version > 1 and code is C.NONE:
            answer = EndTxnResponse(producer_id=1, producer_epoch=self.epoch)
        turn = self.core.ended(answer)
        if turn is Turn.DONE:
            assert self.core.stage is Stage.READY
            if commit:
                assert code is C.NONE
        elif turn is Turn.FAILED:
            assert self.core.problem is not None

    @invariant()
    def transactions_keep_their_identity_and_version(self) -> None:
        if self.core.stage not in AT_REST and self.stage not in AT_REST and self.core.problem is None:
            assert self.core.version == self.version
            assert self.core.identity == self.identity
        self.identity = self.core.identity
        self.stage = self.core.stage
        self.has_failed = self.has_failed or self.core.stage is Stage.FAILED

    @invariant()
    def the_end_is_the_end(self) -> None:
        if self.problem is None:
            self.problem = self.core.problem if self.core.stage is Stage.FATAL else None
        else:
            assert self.core.stage is Stage.FATAL
            assert type(self.core.problem) is type(self.problem)

    @invariant()
    def a_problem_shows_in_the_stage(self) -> None:
        has_problem = self.core.problem is not None
        assert has_problem == (self.core.stage in (Stage.FAILED, Stage.FATAL)) or (
            has_problem and self.core.stage is Stage.ABORTING
        )
        assert not (self.core.may_write and has_problem)


TestProducer = Producer.TestCase
TestProducer.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
