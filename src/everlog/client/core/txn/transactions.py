"""A transactional producer as a state machine: what may be done now, and what each answer leads to (P5).

    UNINITIALIZED → INITIALIZING → READY → IN_TRANSACTION → COMMITTING → READY
                                                ↓      ↘        ↓
                                              FAILED → ABORTING → READY        any of them → FATAL

From COMMITTING it may go to PREPARED instead, where the end is somebody else's affair; the producer goes on
by taking over its id anew.

It takes answers and returns requests; who sends them, and how often, is the driver's affair. Two protocols
are spoken. In version 1 partitions and groups are added before they are written to, and a producer keeps its
epoch over its transactions. In version 2 (KIP-890) leaders add them, and each end brings a new epoch, so that
whatever comes late names one that is over. Version 1 has no such guard: there a new epoch is asked for
before the next transaction whenever something of the last one was lost on the way.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from everlog.client.core.errors import Fenced, TransactionFailed, TransactionMisused, refusal
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.core.txn.codes import FORGOTTEN, Asked, Meaning, meaning, worst
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.client.core.txn.requests import (
    add_partitions_request,
    offset_commit_request,
    partition_codes,
)
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from everlog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

TRANSACTION_VERSION = "transaction.version"
"""The feature of a cluster that says which protocol its transactions speak."""

EPOCH_PER_TRANSACTION = 2
"""The level of that feature from which on version 2 is spoken."""

_SEND_OFFSETS = "send_offsets_to_transaction"


class Stage(Enum):
    """Where a transactional producer is."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "being initialized"
    READY = "without a transaction"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    PREPARED = "in a transaction that is left to others to end"
    ABORTING = "aborting"
    FAILED = "in a transaction that must be aborted"
    FATAL = "unusable"


class Turn(Enum):
    """What an answer asks of the driver."""

    DONE = "done"
    AGAIN = "ask again"
    ELSEWHERE = "look for the coordinator, then ask again"
    FAILED = "see `problem`"


class Transactions:
    """The transactions of one producer, one after another."""

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.stage = Stage.UNINITIALIZED
        self.identity = ProducerIdentity()
        """The id and epoch that everything of the current transaction bears; it changes only between two."""
        self.version = 1
        """The protocol that the current transaction speaks; it changes only between two."""
        self.problem: EverlogError | None = None
        """Why the transaction, or the producer, failed: set in FAILED and FATAL."""
        self._timeout_ms = timeout_ms
        self._level = 0
        self._needs_epoch = False
        """Whether this epoch may not be used for another transaction."""
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        self._places: set[TopicPartition] = set()
        """Partitions that may be written to."""
        self._new_places: dict[TopicPartition, None] = {}
        """Partitions that are to be added first, in version 1."""
        self._groups: set[str] = set()
        """Groups whose offsets may be committed, in version 1."""
        self._owed: list[tuple[str, Mapping[TopicPartition, OffsetAndMetadata]]] = []
        """Groups and offsets of calls that have not ended well: with any of them nothing is committed."""
        self._may_be_known = False
        """Whether the coordinator may have heard of this transaction: then it must be told of its end."""
        self._is_known = False
        """Whether it certainly has."""
        self._is_decided = False
        """Whether the end has been asked for: it can be asked for again, and not be changed."""

    # What the application asks for. Each raises what forbids it.

    def init(self) -> None:
        """Begin to take over the transactional id; again if that was not finished, or if others ended it."""
        self._allow(Stage.UNINITIALIZED, Stage.INITIALIZING, Stage.PREPARED, wish="init_transactions")
        if self.stage is Stage.PREPARED:
            # Whoever ended it has had the next epoch, or the one after that.
            self.identity = ProducerIdentity()
            self._forget_transaction()
        self.stage = Stage.INITIALIZING

    def begin(self) -> None:
        """Begin a transaction; `needs_epoch` must have been seen to."""
        self._allow(Stage.READY, wish="begin_transaction")
        assert not self.needs_epoch, self.identity
        self.version = self._offered_version
        self.stage = Stage.IN_TRANSACTION

    def check_open(self, wish: str) -> None:
        """Raise unless records and offsets may be added to a transaction now; any thread may ask."""
        if self.stage is not Stage.IN_TRANSACTION:
            self._allow(Stage.IN_TRANSACTION, wish=wish)

    def start_offsets(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Begin to add offsets; until `offsets_added` nothing is committed. Again if not finished."""
        self.check_open(_SEND_OFFSETS)
        if (group, offsets) not in self._owed:
            # What is owed may still arrive, and would then take the place of what is newer.
            self._check_owed(_SEND_OFFSETS)
            self._owed.append((group, dict(offsets)))

    def offsets_added(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take in that the transaction has the offsets for certain."""
        self._owed.remove((group, offsets))

    def offsets_left(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take in that a call for offsets was given up, under way or before it had its turn."""
        self.lost()
        if self.may_write and (group, offsets) not in self._owed:
            self._owed.append((group, dict(offsets)))

    def start_commit(self, wish: str = "commit_transaction") -> None:
        """Take no more records; once all were delivered the end may be asked for. Again if not finished."""
        self._allow(Stage.IN_TRANSACTION, Stage.COMMITTING, Stage.PREPARED, wish=wish)
        self._check_owed(wish)
        self.stage = Stage.COMMITTING

    def prepared(self) -> PreparedTransaction | None:
        """Leave the end to others, all records being delivered; None, and it is over, if there are none."""
        assert self.stage is Stage.COMMITTING, self.stage
        if self._is_decided:
            raise TransactionMisused(self._misused("prepare_transaction"))
        if not self._may_be_known:
            self._end()
            return None
        self.stage = Stage.PREPARED
        producer = self.identity
        return PreparedTransaction(
            self.transactional_id, producer.producer_id, producer.producer_epoch, self.version
        )

    def put_off_commit(self) -> None:
        """Go back to the open transaction: not all records were delivered in time."""
        if self.stage is Stage.COMMITTING and not self._is_decided:
            self.stage = Stage.IN_TRANSACTION

    def start_abort(self) -> None:
        """Take no more records, and let what is under way come to nothing. Again if not finished."""
        self._allow(
            Stage.IN_TRANSACTION, Stage.FAILED, Stage.PREPARED, Stage.ABORTING, wish="abort_transaction"
        )
        self.stage = Stage.ABORTING
        # Batches that are given up leave holes in the sequence numbers, and one may come late.
        self._needs_epoch = self._needs_epoch or (self._may_be_known and not self._renews)

    @property
    def may_write(self) -> bool:
        """Whether batches of the transaction may be sent now."""
        return self.stage is Stage.IN_TRANSACTION or (self.stage is Stage.COMMITTING and not self._is_decided)

    # The protocol's version.

    def learn_level(self, level: int) -> None:
        """Take in the level of `transaction.version`, as a coordinator has told it."""
        self._level = level

    @property
    def _offered_version(self) -> int:
        return 2 if self._level >= EPOCH_PER_TRANSACTION else 1

    @property
    def _renews(self) -> bool:
        """Whether the end of the current transaction brings a new epoch."""
        return self.version >= EPOCH_PER_TRANSACTION

    @property
    def needs_epoch(self) -> bool:
        """Whether a new epoch must be asked for before the next transaction."""
        # Version 2 must not meet in its own epoch what version 1 may have left on the way.
        return self._needs_epoch or self._offered_version > self.version

    # InitProducerId.

    def init_request(self) -> InitProducerIdRequest:
        """Ask for the transactional id, or with an id at hand for its next epoch (KIP-360)."""
        assert self.stage in (Stage.INITIALIZING, Stage.READY), self.stage
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
        )

    def initialized(self, answer: InitProducerIdResponse) -> Turn:
        """Take in the answer to `init_request`."""
        turn = self._read(Asked.INIT, [answer.error_code])
        if turn is Turn.DONE:
            self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            self.version = self._offered_version
            self._needs_epoch = False
            self.stage = Stage.READY
        return turn

    # Partitions.

    def admit(self, place: TopicPartition) -> bool:
        """Whether a batch for a partition may be sent; if not yet, `partitions_request` will name it."""
        assert self.may_write, self.stage
        if place in self._places:
            return True
        if self._renews:
            self._places.add(place)
            self._may_be_known = True
            return True
        self._new_places[place] = None
        return False

    def partitions_request(self) -> AddPartitionsToTxnRequest | None:
        """Add the partitions that wait for it, if there are any."""
        if not self._new_places:
            return None
        self._may_be_known = True
        return add_partitions_request(self.transactional_id, self.identity, self._new_places)

    def partitions_added(self, answer: AddPartitionsToTxnResponse) -> Turn:
        """Take in the answer to `partitions_request`."""
        codes = partition_codes(answer)
        turn = self._read(Asked.ADD_PARTITIONS, codes.values())
        if turn is Turn.DONE:
            self._is_known = True
            for place in codes:
                self._new_places.pop(place, None)
                self._places.add(place)
        elif turn is Turn.FAILED:
            self._new_places.clear()
        return turn

    # Offsets of a group.

    def group_request(self, group: str) -> AddOffsetsToTxnRequest | None:
        """Add a group, if it has to be added before its offsets."""
        self.check_open(_SEND_OFFSETS)
        self._may_be_known = True
        if self._renews or group in self._groups:
            return None
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            group_id=group,
        )

    def group_added(self, group: str, answer: AddOffsetsToTxnResponse) -> Turn:
        """Take in the answer to `group_request`."""
        turn = self._read(Asked.ADD_OFFSETS, [answer.error_code])
        if turn is Turn.DONE:
            self._is_known = True
            self._groups.add(group)
        return turn

    def offsets_request(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> TxnOffsetCommitRequest:
        """Commit offsets of a group as a part of the transaction."""
        self.check_open(_SEND_OFFSETS)
        return offset_commit_request(self.transactional_id, self.identity, offsets, group)

    def offsets_taken(self, answer: TxnOffsetCommitResponse) -> Turn:
        """Take in the answer to `offsets_request`."""
        codes = [part.error_code for topic in answer.topics for part in topic.partitions]
        return self._read(Asked.COMMIT_OFFSETS, codes)

    # The end.

    def end_request(self) -> EndTxnRequest | None:
        """Ask for the end that was started; None, and it is over, if the coordinator knows nothing of it."""
        assert self.stage in (Stage.COMMITTING, Stage.ABORTING), self.stage
        if not self._may_be_known:
            self._end()
            return None
        self._is_decided = True
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=self.stage is Stage.COMMITTING,
        )

    def ended(self, answer: EndTxnResponse) -> Turn:
        """Take in the answer to `end_request`."""
        code = answer.error_code
        if self.stage is Stage.ABORTING and self._has_nothing_to_abort(code):
            self._needs_epoch = True
            self._end()
            return Turn.DONE
        if self.stage is Stage.ABORTING and code == ErrorCode.TRANSACTION_ABORTABLE:
            return Turn.AGAIN
        if self.stage is Stage.COMMITTING and self._renews and code == ErrorCode.INVALID_TXN_STATE:
            # It took too long and was aborted. That goes for our epoch, so an abort may bring the next one.
            self._fail(self._refused(Asked.END, ErrorCode.INVALID_TXN_STATE))
            return Turn.FAILED
        turn = self._read(Asked.END, [code])
        if turn is Turn.DONE:
            if self._renews:
                self._renew(answer)
            self._end()
        return turn

    def _has_nothing_to_abort(self, code: int) -> bool:
        if code in FORGOTTEN:
            return True
        # Nobody knows whether a partition was ever added; if the request is late, a new epoch is above it.
        return code == ErrorCode.INVALID_TXN_STATE and not self._is_known

    def _renew(self, answer: EndTxnResponse) -> None:
        if answer.producer_id < 0:
            self._needs_epoch = True
        else:
            self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            self._needs_epoch = False

    def _end(self) -> None:
        self.stage = Stage.READY
        self.problem = None
        self._forget_transaction()

    # What goes wrong.

    def lost(self) -> None:
        """Take in that a request of this transaction was not answered: a copy of it may come late."""
        if not self._renews and self.stage not in (Stage.INITIALIZING, Stage.READY):
            self._needs_epoch = True

    def batch_failed(self, error: EverlogError) -> None:
        """Take in that a batch of the transaction was given up after it was, or may have been, sent."""
        if self.stage in (Stage.UNINITIALIZED, Stage.INITIALIZING, Stage.READY, Stage.FATAL):
            return
        code = error.code if isinstance(error, Refused) else ErrorCode.NETWORK_EXCEPTION
        if code is not ErrorCode.TRANSACTION_ABORTABLE:
            self.lost()
        self._note(meaning(Asked.PRODUCE, code), error)

    def call_failed(self, asked: Asked, error: EverlogError) -> None:
        """Take in that a request could not be made, and that it is of no use to try again."""
        code = error.code if isinstance(error, Refused) else ErrorCode.UNSUPPORTED_VERSION
        found = meaning(asked, code)
        self._note(found if found >= Meaning.ABORT else Meaning.FATAL, error)

    def _read(self, asked: Asked, numbers: Iterable[int]) -> Turn:
        found, code = worst(asked, numbers)
        if found is Meaning.DONE:
            return Turn.DONE
        if found is Meaning.AGAIN:
            return Turn.AGAIN
        if found is Meaning.ELSEWHERE:
            return Turn.ELSEWHERE
        self._note(found, self._refused(asked, code))
        return Turn.FAILED

    def _refused(self, asked: Asked, code: ErrorCode) -> Refused:
        return refusal(code, None, f"transactional id {self.transactional_id!r}, {asked.words}")

    def _note(self, found: Meaning, error: EverlogError) -> None:
        if found is Meaning.FENCED:
            self._give_up(
                Fenced(
                    f"transactional id {self.transactional_id!r}: another producer has taken it over, or the "
                    f"transaction was open for more than {self._timeout_ms} ms ({error})"
                )
            )
        elif found is Meaning.FATAL:
            self._give_up(error)
        elif self.stage in (Stage.IN_TRANSACTION, Stage.COMMITTING):
            self._fail(error)

    def _fail(self, error: EverlogError) -> None:
        self.stage = Stage.FAILED
        self.problem = TransactionFailed(
            f"the transaction of {self.transactional_id!r} must be aborted: {error}"
        )
        self.problem.__cause__ = error

    def _give_up(self, error: EverlogError) -> None:
        self.stage = Stage.FATAL
        self.problem = error

    def _check_owed(self, wish: str) -> None:
        if self._owed:
            group = self._owed[0][0]
            raise TransactionMisused(
                f"{wish}: {_SEND_OFFSETS} for group {group!r} timed out or was cancelled, and whether the "
                f"transaction of {self.transactional_id!r} has its offsets is not known; call it again with "
                "the same offsets, or abort_transaction"
            )

    def _allow(self, *stages: Stage, wish: str) -> None:
        if self.stage in stages:
            return
        if self.problem is not None:
            raise self.problem.with_traceback(None)
        raise TransactionMisused(self._misused(wish))

    def _misused(self, wish: str) -> str:
        found = f"{wish}: the producer of {self.transactional_id!r} is {self.stage.value}"
        if self.stage in (Stage.UNINITIALIZED, Stage.INITIALIZING):
            return f"{found}; call init_transactions first"
        if self.stage is Stage.READY and wish != "init_transactions":
            return f"{found}; call begin_transaction first"
        if self.stage is Stage.COMMITTING and self._is_decided:
            return f"{found}, and whether it was committed is not known; call commit_transaction again"
        if self.stage is Stage.ABORTING:
            return f"{found}; call abort_transaction again"
        return found
