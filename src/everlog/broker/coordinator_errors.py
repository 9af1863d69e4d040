"""What a coordinator's client is told where the partition behind it says no."""

from everlog.model.errors import ErrorCode, Refused, StorageError

_AS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


def coordinator_error(error: Refused | StorageError) -> ErrorCode:
    """The code for a client of groups or transactions, which knows nothing of the coordinator's own log.

    It may try again where that may help, after it has looked for the coordinator anew.
    """
    if isinstance(error, StorageError):
        return ErrorCode.NOT_COORDINATOR
    return coordinator_code(error.code)


def coordinator_code(code: ErrorCode) -> ErrorCode:
    """As `coordinator_error`, for what is a code already."""
    return _AS.get(code, code)


def commit_error(error: Refused | StorageError) -> ErrorCode:
    """As `coordinator_error`, for commits: what does not fit into one batch is too much at once."""
    if isinstance(error, Refused) and error.code in _TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return coordinator_error(error)
