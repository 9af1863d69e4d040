"""What each error code means to a transaction, by the request that it answers (P5).

The same code may be passing, a reason to abort, or the end of the producer: it depends on who says it. Apache
Kafka's own client reads them the same way, but for two: its producer asks the coordinator before it takes
INVALID_PRODUCER_EPOCH from a leader for fencing, which then never says anything else, and it gives up for
good where offsets are refused for a reason that it does not know.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum

from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import error_code
from everlog.model.errors import ErrorCode


class Meaning(IntEnum):
    """What to do about a code. Of several in one answer, the highest counts."""

    DONE = 0
    AGAIN = 1
    """Ask the same coordinator a little later."""
    ELSEWHERE = 2
    """Look for the coordinator, then ask again."""
    ABORT = 3
    """The transaction can only be aborted."""
    FATAL = 4
    """The producer can do nothing more."""
    FENCED = 5
    """Nor can it, because another one has its transactional id."""


class Asked(IntEnum):
    """A request of a transaction."""

    INIT = 0
    ADD_PARTITIONS = 1
    ADD_OFFSETS = 2
    COMMIT_OFFSETS = 3
    END = 4
    PRODUCE = 5

    @property
    def words(self) -> str:
        """What errors call it."""
        return _WORDS[self]

    @property
    def coordinator(self) -> CoordinatorKind:
        """Whom it is asked of."""
        return CoordinatorKind.GROUP if self is Asked.COMMIT_OFFSETS else CoordinatorKind.TRANSACTION


_WORDS = {
    Asked.INIT: "taking over the id",
    Asked.ADD_PARTITIONS: "adding partitions",
    Asked.ADD_OFFSETS: "adding offsets",
    Asked.COMMIT_OFFSETS: "committing offsets",
    Asked.END: "ending the transaction",
    Asked.PRODUCE: "producing",
}

_C = ErrorCode

_ELSEWHERE = frozenset({_C.NOT_COORDINATOR, _C.COORDINATOR_NOT_AVAILABLE, _C.REQUEST_TIMED_OUT})

_ALWAYS: Mapping[ErrorCode, Meaning] = {
    _C.NONE: Meaning.DONE,
    # Old coordinators and all leaders have only INVALID_PRODUCER_EPOCH for it.
    _C.PRODUCER_FENCED: Meaning.FENCED,
    _C.INVALID_PRODUCER_EPOCH: Meaning.FENCED,
    _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Meaning.FATAL,
    _C.CLUSTER_AUTHORIZATION_FAILED: Meaning.FATAL,
    _C.UNSUPPORTED_VERSION: Meaning.FATAL,
}

FORGOTTEN = frozenset({_C.INVALID_PRODUCER_ID_MAPPING, _C.UNKNOWN_PRODUCER_ID})
"""Codes that say that the coordinator has forgotten the producer, as after a week without use."""

_ABORT = dict.fromkeys((*FORGOTTEN, _C.TRANSACTION_ABORTABLE), Meaning.ABORT)

_OF: Mapping[Asked, Mapping[ErrorCode, Meaning]] = {
    Asked.INIT: {},
    Asked.ADD_PARTITIONS: {
        _C.INVALID_TXN_STATE: Meaning.FATAL,
        # Another partition of the request is at fault, and its code counts.
        _C.OPERATION_NOT_ATTEMPTED: Meaning.AGAIN,
    },
    Asked.ADD_OFFSETS: {**_ABORT, _C.GROUP_AUTHORIZATION_FAILED: Meaning.ABORT},
    Asked.COMMIT_OFFSETS: {_C.UNSUPPORTED_FOR_MESSAGE_FORMAT: Meaning.FATAL},
    Asked.END: _ABORT,
    Asked.PRODUCE: {},
}

_OTHERWISE: Mapping[Asked, Meaning] = {
    Asked.INIT: Meaning.FATAL,
    Asked.ADD_PARTITIONS: Meaning.ABORT,
    Asked.ADD_OFFSETS: Meaning.FATAL,
    # A refusal of offsets, as of a member that its group went on without, binds the producer to nothing.
    Asked.COMMIT_OFFSETS: Meaning.ABORT,
    Asked.END: Meaning.FATAL,
    Asked.PRODUCE: Meaning.ABORT,
}


def meaning(asked: Asked, code: ErrorCode) -> Meaning:
    """What a code means in the answer to a request; for a produce, once the batch is not sent again."""
    always = _ALWAYS.get(code)
    if always is not None:
        return always
    if asked is not Asked.PRODUCE:
        if code in _ELSEWHERE:
            return Meaning.ELSEWHERE
        if code.retriable:
            return Meaning.AGAIN
    return _OF[asked].get(code, _OTHERWISE[asked])


def worst(asked: Asked, numbers: Iterable[int]) -> tuple[Meaning, ErrorCode]:
    """The code of an answer that counts, of those of its partitions; with none, nothing was done."""
    read = [error_code(number) for number in numbers] or [ErrorCode.UNKNOWN_SERVER_ERROR]
    return max(((meaning(asked, code), code) for code in read), key=lambda pair: pair[0])
