"""What an error proves: that a request was not carried out, or nothing at all.

Checkers rest on this table. A code is definite for a produce only if no broker ever answers with it after the
records have got their offsets; in doubt it is indefinite, which costs the checker sharpness and never truth.
It holds for a request that was sent once. Where a client sent it again, an earlier one may have been
carried out whatever the last answer says, so that everything but success is `info` then.
"""

from everlog.model.errors import ErrorCode
from everlog.sim.history import Outcome

_E = ErrorCode

DEFINITE_PRODUCE_ERRORS = frozenset(
    {
        # The records are looked at before they are written, and were found wanting.
        _E.CORRUPT_MESSAGE,
        _E.MESSAGE_TOO_LARGE,
        _E.RECORD_LIST_TOO_LARGE,
        _E.INVALID_TIMESTAMP,
        _E.INVALID_RECORD,
        _E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        _E.UNSUPPORTED_COMPRESSION_TYPE,
        # The request is refused before anything of it is looked at.
        _E.UNSUPPORTED_VERSION,
        _E.INVALID_REQUEST,
        _E.INVALID_REQUIRED_ACKS,
        _E.TOPIC_AUTHORIZATION_FAILED,
        _E.CLUSTER_AUTHORIZATION_FAILED,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _E.POLICY_VIOLATION,
        # This broker does not hold the partition, or will not lead it now.
        _E.UNKNOWN_TOPIC_OR_PARTITION,
        _E.UNKNOWN_TOPIC_ID,
        _E.INCONSISTENT_TOPIC_ID,
        _E.INVALID_TOPIC_EXCEPTION,
        _E.LEADER_NOT_AVAILABLE,
        _E.FENCED_LEADER_EPOCH,
        _E.UNKNOWN_LEADER_EPOCH,
        # Counted before the append, unlike NOT_ENOUGH_REPLICAS_AFTER_APPEND.
        _E.NOT_ENOUGH_REPLICAS,
        # The producer's state forbids it.
        _E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        _E.INVALID_PRODUCER_EPOCH,
        _E.PRODUCER_FENCED,
        _E.INVALID_TXN_STATE,
        _E.INVALID_PRODUCER_ID_MAPPING,
        _E.UNKNOWN_PRODUCER_ID,
        _E.CONCURRENT_TRANSACTIONS,
        _E.TRANSACTION_ABORTABLE,
        _E.COORDINATOR_LOAD_IN_PROGRESS,
        _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_COORDINATOR,
    }
)
"""Answers to a produce that prove that its records were not appended.

Left out on purpose, because they may come after the append: NOT_LEADER_OR_FOLLOWER (leadership moved while
the answer waited for replicas), NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR (the
fsync failed, not the write), DUPLICATE_SEQUENCE_NUMBER (it is there already), NETWORK_EXCEPTION and
UNKNOWN_SERVER_ERROR.
"""

DEFINITE_COMMIT_ERRORS = frozenset(
    {
        _E.COORDINATOR_LOAD_IN_PROGRESS,
        _E.NOT_COORDINATOR,
        _E.ILLEGAL_GENERATION,
        _E.UNKNOWN_MEMBER_ID,
        _E.REBALANCE_IN_PROGRESS,
        _E.FENCED_INSTANCE_ID,
        _E.FENCED_MEMBER_EPOCH,
        _E.STALE_MEMBER_EPOCH,
        _E.UNRELEASED_INSTANCE_ID,
        _E.GROUP_ID_NOT_FOUND,
        _E.INVALID_GROUP_ID,
        _E.GROUP_AUTHORIZATION_FAILED,
        _E.TOPIC_AUTHORIZATION_FAILED,
        _E.UNKNOWN_TOPIC_OR_PARTITION,
        _E.UNKNOWN_TOPIC_ID,
        _E.OFFSET_METADATA_TOO_LARGE,
        _E.INVALID_COMMIT_OFFSET_SIZE,
        _E.INVALID_PRODUCER_EPOCH,
        _E.PRODUCER_FENCED,
        _E.INVALID_PRODUCER_ID_MAPPING,
        _E.INVALID_TXN_STATE,
        _E.TRANSACTION_ABORTABLE,
        _E.CONCURRENT_TRANSACTIONS,
        _E.UNSUPPORTED_VERSION,
    }
)
"""Answers to an offset commit, of a transaction or not, that prove that nothing was committed.

COORDINATOR_NOT_AVAILABLE is not here: Kafka also says so when the append to the offsets topic was not
replicated in time.
"""

DEFINITE_END_TXN_ERRORS = frozenset(
    {
        _E.COORDINATOR_LOAD_IN_PROGRESS,
        _E.NOT_COORDINATOR,
        _E.INVALID_PRODUCER_EPOCH,
        _E.PRODUCER_FENCED,
        _E.INVALID_TXN_STATE,
        _E.INVALID_PRODUCER_ID_MAPPING,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _E.UNSUPPORTED_VERSION,
    }
)
"""Answers to the one EndTxn of a transaction that prove that it did not decide it as asked.

CONCURRENT_TRANSACTIONS is not here: an earlier one, perhaps our own, may be on its way.
"""


def outcome(error: int, definite: frozenset[ErrorCode], attempts: int = 1) -> Outcome:
    """What an error code says of a request that was sent so many times in all."""
    if error == _E.NONE:
        return Outcome.OK
    if attempts == 1 and error in definite:
        return Outcome.FAIL
    return Outcome.INFO
