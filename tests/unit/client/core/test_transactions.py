"""P5: what a transactional producer may do in each stage, and what every code of every answer leads to."""

from collections.abc import Callable

import pytest

from everlog.client.core.errors import (
    Fenced,
    TransactionError,
    TransactionFailed,
    TransactionMisused,
    Unreachable,
    Unsupported,
)
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.txn.codes import Asked, Meaning, meaning, worst
from everlog.client.core.txn.prepared import PreparedTransaction
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
PLACE = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
GROUP = GroupMetadata("kitchen", 7, "member", "instance")
OFFSETS = {PLACE: OffsetAndMetadata(5, "so far", 2)}
V1, V2 = 1, 2


def a_producer(version: int = V2, *, epoch: int = 0) -> Transactions:
    core = Transactions("till-1", 60_000)
    core.learn_level(version)
    core.init()
    core.init_request()
    assert core.initialized(InitProducerIdResponse(producer_id=9, producer_epoch=epoch)) is Turn.DONE
    return core


def in_transaction(version: int = V2) -> Transactions:
    core = a_producer(version)
    core.begin()
    return core


def writing(version: int = V2) -> Transactions:
    core = in_transaction(version)
    if not core.admit(PLACE):
        assert core.partitions_request() is not None
        assert core.partitions_added(added({PLACE: C.NONE})) is Turn.DONE
    assert core.admit(PLACE)
    return core


def committing(version: int = V2) -> Transactions:
    core = writing(version)
    core.start_commit()
    assert core.end_request() is not None
    return core


def aborting(version: int = V2) -> Transactions:
    core = writing(version)
    core.start_abort()
    assert core.end_request() is not None
    return core


def added(codes: dict[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=place.topic,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=place.partition, partition_error_code=code
                    )
                ],
            )
            for place, code in codes.items()
        ]
    )


def taken(*codes: ErrorCode) -> TxnOffsetCommitResponse:
    parts = [
        TxnOffsetCommitResponsePartition(partition_index=at, error_code=code) for at, code in enumerate(codes)
    ]
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="orders", partitions=parts)])


def ended(code: ErrorCode = C.NONE, epoch: int = -1) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=-1 if epoch < 0 else 9, producer_epoch=epoch)


def answer_to(core: Transactions, asked: Asked, code: ErrorCode) -> Turn:
    """Have a fitting request of a producer answered with a code."""
    if asked is Asked.INIT:
        return core.initialized(InitProducerIdResponse(error_code=code))
    if asked is Asked.ADD_PARTITIONS:
        assert not core.admit(OTHER)
        core.partitions_request()
        return core.partitions_added(added({OTHER: code}))
    if asked is Asked.ADD_OFFSETS:
        core.group_request("kitchen")
        return core.group_added("kitchen", AddOffsetsToTxnResponse(error_code=code))
    if asked is Asked.COMMIT_OFFSETS:
        core.offsets_request(OFFSETS, GROUP)
        return core.offsets_taken(taken(code))
    if asked is Asked.END:
        return core.ended(ended(code))
    core.batch_failed(Refused(code, "no"))
    return Turn.FAILED


def stage_of(core: Transactions) -> Stage:
    """Its stage now; type checkers take an attribute to stay as it was."""
    return core.stage


WITH: dict[Asked, Callable[[int], Transactions]] = {
    Asked.INIT: a_producer,
    Asked.ADD_PARTITIONS: writing,
    Asked.ADD_OFFSETS: writing,
    Asked.COMMIT_OFFSETS: writing,
    Asked.END: committing,
    Asked.PRODUCE: writing,
}


# The way of a transaction.


@pytest.mark.parametrize("version", [V1, V2])
def test_a_transaction_goes_from_ready_to_ready(version: int) -> None:
    core = writing(version)
    core.start_commit()
    request = core.end_request()

    assert request is not None
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("till-1", 9, 0)
    assert request.committed
    assert core.ended(ended(epoch=1 if version == V2 else -1)) is Turn.DONE
    assert core.stage is Stage.READY


def test_each_end_brings_a_new_epoch_in_version_2_only() -> None:
    second, first = committing(V2), committing(V1)

    second.ended(ended(epoch=1))
    first.ended(ended(epoch=-1))

    assert second.identity == (9, 1)
    assert first.identity == (9, 0)
    assert not second.needs_epoch
    assert not first.needs_epoch


def test_an_end_of_version_2_that_brings_no_epoch_is_followed_by_the_question_for_one() -> None:
    core = committing(V2)

    assert core.ended(ended()) is Turn.DONE
    assert core.needs_epoch


def test_version_1_adds_partitions_before_they_are_written_to() -> None:
    core = in_transaction(V1)

    assert not core.admit(PLACE)
    assert not core.admit(OTHER)
    request = core.partitions_request()
    assert request is not None
    assert [(topic.name, topic.partitions) for topic in request.v3_and_below_topics] == [("orders", [0, 1])]
    assert core.partitions_added(added({PLACE: C.NONE, OTHER: C.NONE})) is Turn.DONE
    assert core.admit(PLACE)
    assert core.admit(OTHER)
    assert core.partitions_request() is None


def test_version_2_leaves_that_to_the_leaders() -> None:
    core = in_transaction(V2)

    assert core.admit(PLACE)
    assert core.partitions_request() is None
    assert core.group_request("kitchen") is None


def test_a_partition_that_comes_while_others_are_added_is_added_next() -> None:
    core = in_transaction(V1)
    core.admit(PLACE)
    core.partitions_request()
    core.admit(OTHER)

    assert core.partitions_added(added({PLACE: C.NONE})) is Turn.DONE

    request = core.partitions_request()
    assert request is not None
    assert [topic.partitions for topic in request.v3_and_below_topics] == [[1]]


def test_version_1_adds_a_group_once() -> None:
    core = in_transaction(V1)

    request = core.group_request("kitchen")
    assert request is not None
    assert request.group_id == "kitchen"
    assert core.group_added("kitchen", AddOffsetsToTxnResponse()) is Turn.DONE
    assert core.group_request("kitchen") is None


def test_offsets_go_in_the_name_of_a_member() -> None:
    request = in_transaction().offsets_request(OFFSETS, GROUP)

    assert (request.group_id, request.generation_id_or_member_epoch) == ("kitchen", 7)
    assert (request.member_id, request.group_instance_id) == ("member", "instance")
    [topic] = request.topics
    [part] = topic.partitions
    assert (topic.name, part.partition_index, part.committed_offset) == ("orders", 0, 5)
    assert (part.committed_metadata, part.committed_leader_epoch) == ("so far", 2)


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("commit", [True, False])
def test_nobody_is_told_of_the_end_of_a_transaction_that_nobody_heard_of(version: int, commit: bool) -> None:
    core = in_transaction(version)
    core.start_commit() if commit else core.start_abort()

    assert core.end_request() is None
    assert core.stage is Stage.READY
    assert not core.needs_epoch


@pytest.mark.parametrize("version", [V1, V2])
def test_offsets_alone_make_a_transaction_that_must_be_ended(version: int) -> None:
    core = in_transaction(version)
    core.group_request("kitchen")
    core.start_abort()

    assert core.end_request() is not None


# Which protocol is spoken.


def test_the_version_does_not_change_within_a_transaction() -> None:
    core = writing(V1)

    core.learn_level(2)

    assert core.version == V1
    assert not core.admit(OTHER)


def test_from_version_1_to_2_a_producer_takes_a_new_epoch() -> None:
    core = committing(V1)
    core.learn_level(2)
    core.ended(ended())

    assert core.needs_epoch
    request = core.init_request()
    assert (request.producer_id, request.producer_epoch) == (9, 0)
    core.initialized(InitProducerIdResponse(producer_id=9, producer_epoch=1))
    core.begin()
    assert core.version == V2


def test_a_cluster_that_goes_back_to_version_1_is_followed() -> None:
    core = committing(V2)
    core.learn_level(0)
    core.ended(ended(epoch=1))
    core.begin()

    assert core.version == V1


def test_a_new_epoch_is_asked_for_once() -> None:
    core = aborting(V1)
    core.ended(ended())
    core.initialized(InitProducerIdResponse(producer_id=9, producer_epoch=1))

    assert not core.needs_epoch
    core.begin()
    assert core.identity == (9, 1)


# A new epoch where a late request could do harm (version 1).


@pytest.mark.parametrize("version", [V1, V2])
def test_after_a_loss_version_1_takes_a_new_epoch(version: int) -> None:
    core = committing(version)
    core.lost()
    core.ended(ended(epoch=1 if version == V2 else -1))

    assert core.needs_epoch == (version == V1)


def test_a_loss_while_the_id_is_taken_over_is_of_no_matter() -> None:
    core = Transactions("till-1", 60_000)
    core.init()
    core.lost()
    core.initialized(InitProducerIdResponse(producer_id=9, producer_epoch=0))

    assert not core.needs_epoch


@pytest.mark.parametrize("version", [V1, V2])
def test_after_an_abort_version_1_takes_a_new_epoch(version: int) -> None:
    core = aborting(version)
    core.ended(ended(epoch=1 if version == V2 else -1))

    assert core.needs_epoch == (version == V1)


def test_a_transaction_cannot_begin_before_the_new_epoch_is_there() -> None:
    core = aborting(V1)
    core.ended(ended())

    with pytest.raises(AssertionError):
        core.begin()


def test_an_abort_of_what_may_never_have_been_added_is_done_when_nothing_was() -> None:
    core = in_transaction(V1)
    core.admit(PLACE)
    core.partitions_request()
    core.lost()
    core.start_abort()
    core.end_request()

    assert core.ended(ended(C.INVALID_TXN_STATE)) is Turn.DONE
    assert core.stage is Stage.READY
    assert core.needs_epoch


def test_the_same_code_is_fatal_where_partitions_were_added() -> None:
    core = aborting(V1)

    assert core.ended(ended(C.INVALID_TXN_STATE)) is Turn.FAILED
    assert core.stage is Stage.FATAL


def test_in_version_2_a_commit_of_what_took_too_long_can_still_be_aborted() -> None:
    core = committing(V2)

    assert core.ended(ended(C.INVALID_TXN_STATE)) is Turn.FAILED
    with pytest.raises(TransactionFailed, match="INVALID_TXN_STATE"):
        core.start_commit()
    core.start_abort()
    core.end_request()
    assert core.ended(ended(epoch=1)) is Turn.DONE
    assert core.identity == (9, 1)


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("code", [C.INVALID_PRODUCER_ID_MAPPING, C.UNKNOWN_PRODUCER_ID])
def test_where_the_id_is_forgotten_an_abort_is_done_and_the_id_taken_anew(
    version: int, code: ErrorCode
) -> None:
    core = aborting(version)

    assert core.ended(ended(code)) is Turn.DONE
    assert core.stage is Stage.READY
    assert core.needs_epoch


# Errors.


@pytest.mark.parametrize("asked", list(Asked))
@pytest.mark.parametrize("code", [C.PRODUCER_FENCED, C.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_is_fenced_everywhere_and_for_good(asked: Asked, code: ErrorCode) -> None:
    core = WITH[asked](V1)

    assert answer_to(core, asked, code) is Turn.FAILED

    assert core.stage is Stage.FATAL
    for call in (core.init, core.begin, core.start_commit, core.start_abort):
        with pytest.raises(Fenced, match="'till-1'") as raised:
            call()
        assert not raised.value.retriable
    with pytest.raises(Fenced):
        core.check_open("send")


@pytest.mark.parametrize("asked", [asked for asked in Asked if asked is not Asked.PRODUCE])
@pytest.mark.parametrize(
    ("code", "turn"),
    [
        (C.NOT_COORDINATOR, Turn.ELSEWHERE),
        (C.COORDINATOR_NOT_AVAILABLE, Turn.ELSEWHERE),
        (C.REQUEST_TIMED_OUT, Turn.ELSEWHERE),
        (C.COORDINATOR_LOAD_IN_PROGRESS, Turn.AGAIN),
        (C.CONCURRENT_TRANSACTIONS, Turn.AGAIN),
        (C.UNKNOWN_TOPIC_OR_PARTITION, Turn.AGAIN),
    ],
)
def test_what_passes_is_asked_again_and_changes_nothing(asked: Asked, code: ErrorCode, turn: Turn) -> None:
    core = WITH[asked](V1)
    before = core.stage

    assert answer_to(core, asked, code) is turn
    assert core.stage is before
    assert core.problem is None


ABORTS = [
    (Asked.ADD_PARTITIONS, C.TOPIC_AUTHORIZATION_FAILED),
    (Asked.ADD_PARTITIONS, C.TRANSACTION_ABORTABLE),
    (Asked.ADD_PARTITIONS, C.INVALID_PRODUCER_ID_MAPPING),
    (Asked.ADD_OFFSETS, C.GROUP_AUTHORIZATION_FAILED),
    (Asked.ADD_OFFSETS, C.TRANSACTION_ABORTABLE),
    (Asked.COMMIT_OFFSETS, C.ILLEGAL_GENERATION),
    (Asked.COMMIT_OFFSETS, C.UNKNOWN_MEMBER_ID),
    (Asked.COMMIT_OFFSETS, C.FENCED_INSTANCE_ID),
    (Asked.COMMIT_OFFSETS, C.STALE_MEMBER_EPOCH),
    (Asked.COMMIT_OFFSETS, C.GROUP_AUTHORIZATION_FAILED),
    (Asked.COMMIT_OFFSETS, C.OFFSET_METADATA_TOO_LARGE),
    (Asked.COMMIT_OFFSETS, C.TRANSACTION_ABORTABLE),
    (Asked.END, C.TRANSACTION_ABORTABLE),
    (Asked.END, C.INVALID_PRODUCER_ID_MAPPING),
    (Asked.PRODUCE, C.TRANSACTION_ABORTABLE),
    (Asked.PRODUCE, C.MESSAGE_TOO_LARGE),
    (Asked.PRODUCE, C.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (Asked.PRODUCE, C.UNKNOWN_PRODUCER_ID),
    (Asked.PRODUCE, C.INVALID_TXN_STATE),
    (Asked.PRODUCE, C.NETWORK_EXCEPTION),
]


@pytest.mark.parametrize(("asked", "code"), ABORTS)
def test_a_failed_transaction_can_only_be_aborted(asked: Asked, code: ErrorCode) -> None:
    core = WITH[asked](V1)

    assert answer_to(core, asked, code) is Turn.FAILED

    assert stage_of(core) is Stage.FAILED
    assert not core.may_write
    for call in (core.start_commit, core.begin, core.init, lambda: core.check_open("send")):
        with pytest.raises(TransactionFailed, match=f"must be aborted.*{code.name}|no") as raised:
            call()
        assert isinstance(raised.value.__cause__, Refused)
        assert raised.value.__cause__.code is code
    core.start_abort()
    request = core.end_request()
    assert request is not None
    assert not request.committed
    assert core.ended(ended()) is Turn.DONE
    assert stage_of(core) is Stage.READY
    assert core.problem is None


FATAL = [
    *[(asked, C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) for asked in Asked],
    *[(asked, C.CLUSTER_AUTHORIZATION_FAILED) for asked in Asked],
    *[(asked, C.UNSUPPORTED_VERSION) for asked in Asked],
    (Asked.INIT, C.INVALID_TRANSACTION_TIMEOUT),
    (Asked.INIT, C.UNKNOWN_SERVER_ERROR),
    (Asked.ADD_PARTITIONS, C.INVALID_TXN_STATE),
    (Asked.ADD_OFFSETS, C.INVALID_TXN_STATE),
    (Asked.COMMIT_OFFSETS, C.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    (Asked.END, C.INVALID_TXN_STATE),
    (Asked.END, C.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize(("asked", "code"), FATAL)
def test_what_is_fatal_stays_so_and_is_told_at_every_call(asked: Asked, code: ErrorCode) -> None:
    core = WITH[asked](V1)

    assert answer_to(core, asked, code) is Turn.FAILED

    assert core.stage is Stage.FATAL
    for call in (core.init, core.begin, core.start_commit, core.start_abort):
        with pytest.raises(Refused) as raised:
            call()
        assert raised.value.code is code


@pytest.mark.parametrize("asked", list(Asked))
def test_every_code_of_every_answer_means_something(asked: Asked) -> None:
    for code in ErrorCode:
        found = meaning(asked, code)
        assert (found is Meaning.DONE) == (code is C.NONE)
        if asked is not Asked.PRODUCE and code.retriable:
            assert found in (Meaning.AGAIN, Meaning.ELSEWHERE), code
        elif code not in (C.NONE, C.OPERATION_NOT_ATTEMPTED):
            assert found >= Meaning.ABORT, code


def test_the_gravest_code_of_an_answer_counts() -> None:
    codes = [C.NONE, C.UNKNOWN_TOPIC_OR_PARTITION, C.TOPIC_AUTHORIZATION_FAILED, C.OPERATION_NOT_ATTEMPTED]

    assert worst(Asked.ADD_PARTITIONS, codes) == (Meaning.ABORT, C.TOPIC_AUTHORIZATION_FAILED)
    assert worst(Asked.ADD_PARTITIONS, [*codes, C.PRODUCER_FENCED]) == (Meaning.FENCED, C.PRODUCER_FENCED)
    assert worst(Asked.COMMIT_OFFSETS, [4711]) == (Meaning.ABORT, C.UNKNOWN_SERVER_ERROR)


def test_an_answer_that_names_no_partition_took_none() -> None:
    core = writing(V2)
    core.offsets_request(OFFSETS, GROUP)

    assert core.offsets_taken(TxnOffsetCommitResponse()) is Turn.FAILED
    assert core.stage is Stage.FAILED


def test_a_lost_batch_fails_the_transaction() -> None:
    core = writing(V1)

    core.batch_failed(Unreachable("broker 1 went away"))

    assert stage_of(core) is Stage.FAILED
    core.start_abort()
    core.end_request()
    core.ended(ended())
    assert core.needs_epoch


def test_a_batch_that_fails_while_the_commit_waits_for_it_prevents_the_commit() -> None:
    core = writing()
    core.start_commit()
    assert core.may_write

    core.batch_failed(Refused(C.MESSAGE_TOO_LARGE, "no"))

    with pytest.raises(TransactionFailed):
        core.start_commit()
    core.start_abort()


@pytest.mark.parametrize("stage", [Stage.FAILED, Stage.ABORTING])
def test_fencing_outranks_what_failed_before(stage: Stage) -> None:
    core = writing()
    core.batch_failed(Refused(C.MESSAGE_TOO_LARGE, "no"))
    if stage is Stage.ABORTING:
        core.start_abort()

    core.batch_failed(Refused(C.INVALID_PRODUCER_EPOCH, "no"))

    with pytest.raises(Fenced):
        core.start_abort()


def test_a_batch_of_a_transaction_that_is_over_changes_nothing() -> None:
    core = aborting()
    core.ended(ended(epoch=1))

    core.batch_failed(Refused(C.INVALID_PRODUCER_EPOCH, "no"))

    assert core.stage is Stage.READY
    core.begin()


def test_a_broker_without_transactions_ends_it() -> None:
    core = Transactions("till-1", 60_000)
    core.init()

    core.call_failed(Asked.INIT, Unsupported("API InitProducerId"))

    with pytest.raises(Unsupported):
        core.init()


def test_a_group_that_may_not_be_looked_for_fails_the_transaction() -> None:
    core = writing()

    core.call_failed(Asked.COMMIT_OFFSETS, Refused(C.GROUP_AUTHORIZATION_FAILED, "no"))

    assert core.stage is Stage.FAILED


# Ends that were not finished.


def test_a_commit_that_was_not_answered_can_be_asked_for_again_and_not_be_aborted() -> None:
    core = committing()
    core.lost()
    core.put_off_commit()

    assert core.stage is Stage.COMMITTING
    assert not core.may_write
    core.start_commit()
    request = core.end_request()
    assert request is not None
    assert request.committed
    with pytest.raises(TransactionMisused, match="call commit_transaction again"):
        core.start_abort()
    with pytest.raises(TransactionMisused):
        core.check_open("send")
    with pytest.raises(TransactionMisused):
        core.begin()


def test_a_commit_that_still_waits_for_records_can_be_put_off_and_aborted() -> None:
    core = writing()
    core.start_commit()
    core.put_off_commit()

    core.check_open("send")
    core.start_abort()


def test_an_abort_can_be_asked_for_again_and_not_become_a_commit() -> None:
    core = aborting()
    core.lost()

    with pytest.raises(TransactionMisused, match="call abort_transaction again"):
        core.start_commit()
    core.start_abort()
    assert core.ended(ended(C.TRANSACTION_ABORTABLE)) is Turn.AGAIN
    assert core.ended(ended(epoch=1)) is Turn.DONE


def test_the_first_init_can_be_asked_for_again() -> None:
    core = Transactions("till-1", 60_000)
    core.init()
    core.init()

    request = core.init_request()
    assert (request.transactional_id, request.transaction_timeout_ms) == ("till-1", 60_000)
    assert (request.producer_id, request.producer_epoch) == (-1, -1)


# Offsets that may be in the transaction or not.


def left(version: int = V2) -> Transactions:
    core = writing(version)
    core.start_offsets("kitchen", OFFSETS)
    core.offsets_left("kitchen", OFFSETS)
    return core


@pytest.mark.parametrize("wish", ["commit_transaction", "prepare_transaction"])
def test_nothing_is_committed_while_offsets_may_be_missing(wish: str) -> None:
    core = left()

    with pytest.raises(TransactionMisused, match=f"{wish}: send_offsets.*'kitchen'.*again.*or abort_trans"):
        core.start_commit(wish)
    assert core.stage is Stage.IN_TRANSACTION
    core.check_open("send")


def test_offsets_that_may_be_missing_can_be_sent_again_and_no_others() -> None:
    core = left()
    for group, offsets in (("kitchen", {PLACE: OffsetAndMetadata(6)}), ("bar", OFFSETS)):
        with pytest.raises(TransactionMisused, match="again with the same offsets, or abort_transaction"):
            core.start_offsets(group, offsets)

    core.start_offsets("kitchen", dict(OFFSETS))
    core.offsets_added("kitchen", dict(OFFSETS))
    core.start_offsets("bar", OFFSETS)
    core.offsets_added("bar", OFFSETS)
    core.start_commit()


def test_an_abort_settles_offsets_that_may_be_missing() -> None:
    core = left()
    core.start_abort()
    core.end_request()
    assert core.ended(ended(epoch=1)) is Turn.DONE

    core.begin()
    core.start_commit()


@pytest.mark.parametrize("version", [V1, V2])
def test_offsets_that_may_come_late_are_of_an_epoch_that_is_over_by_then(version: int) -> None:
    core = left(version)
    core.start_offsets("kitchen", OFFSETS)
    core.offsets_added("kitchen", OFFSETS)
    core.start_commit()
    core.end_request()
    core.ended(ended(epoch=1 if version == V2 else -1))
    assert core.needs_epoch is (version == V1)


def test_offsets_that_missed_their_transaction_hold_nothing_up() -> None:
    core = a_producer()
    core.offsets_left("kitchen", OFFSETS)
    core.begin()
    core.start_commit()


# Left to others to end (KIP-939).


def prepared(version: int = V2) -> Transactions:
    core = writing(version)
    core.start_commit()
    assert core.prepared() == PreparedTransaction("till-1", 9, 0, version)
    return core


@pytest.mark.parametrize("version", [V1, V2])
def test_a_prepared_transaction_takes_no_records_and_can_still_be_ended(version: int) -> None:
    core = prepared(version)

    assert not core.may_write
    with pytest.raises(TransactionMisused, match="left to others"):
        core.check_open("send")
    with pytest.raises(TransactionMisused, match="left to others"):
        core.begin()
    core.start_commit()
    request = core.end_request()
    assert request is not None
    assert request.committed


def test_a_prepared_transaction_can_still_be_aborted() -> None:
    core = prepared()
    core.start_abort()
    request = core.end_request()
    assert request is not None
    assert not request.committed


def test_a_producer_goes_on_after_others_have_ended_its_transaction() -> None:
    core = prepared()
    core.init()

    request = core.init_request()
    assert (request.producer_id, request.producer_epoch) == (-1, -1)
    assert core.initialized(InitProducerIdResponse(producer_id=9, producer_epoch=5)) is Turn.DONE
    core.begin()
    core.start_commit()
    assert core.end_request() is None  # Nothing of the transaction before is left.


def test_a_transaction_without_records_has_nothing_to_prepare() -> None:
    core = in_transaction()
    core.start_commit()

    assert core.prepared() is None
    core.begin()


def test_a_commit_that_was_asked_for_can_be_left_to_nobody() -> None:
    core = committing()
    with pytest.raises(TransactionMisused, match="not known"):
        core.prepared()


# Calls that do not fit.


@pytest.mark.parametrize(
    ("core", "wish", "says"),
    [
        (Transactions("till-1", 1), "begin", "call init_transactions first"),
        (Transactions("till-1", 1), "start_commit", "call init_transactions first"),
        (a_producer(), "init", "without a transaction"),
        (a_producer(), "start_commit", "call begin_transaction first"),
        (a_producer(), "start_abort", "call begin_transaction first"),
        (in_transaction(), "begin", "in a transaction"),
        (in_transaction(), "init", "in a transaction"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_in_words(core: Transactions, wish: str, says: str) -> None:
    before = core.stage

    with pytest.raises(TransactionMisused, match=says):
        getattr(core, wish)()
    assert core.stage is before


def test_all_errors_of_transactions_are_of_one_kind() -> None:
    assert issubclass(TransactionError, EverlogError)
    for kind in (Fenced, TransactionFailed, TransactionMisused):
        assert issubclass(kind, TransactionError)
        assert not kind.retriable
