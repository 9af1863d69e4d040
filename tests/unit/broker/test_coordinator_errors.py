"""What clients of a coordinator are told where its own partition says no (C2)."""

import pytest

from everlog.broker.coordinator_errors import commit_error, coordinator_error
from everlog.model.errors import ErrorCode, Refused, StorageError


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_errors_of_the_log_are_told_in_words_that_groups_know(found: ErrorCode, told: ErrorCode) -> None:
    assert coordinator_error(Refused(found, "no")) is told


def test_a_disk_that_fails_sends_clients_to_look_for_another_coordinator() -> None:
    assert coordinator_error(StorageError("full")) is ErrorCode.NOT_COORDINATOR
    assert commit_error(StorageError("full")) is ErrorCode.NOT_COORDINATOR


def test_a_commit_that_is_too_large_is_told_so() -> None:
    assert commit_error(Refused(ErrorCode.MESSAGE_TOO_LARGE, "no")) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert (
        commit_error(Refused(ErrorCode.RECORD_LIST_TOO_LARGE, "no")) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    )
    assert commit_error(Refused(ErrorCode.UNKNOWN_MEMBER_ID, "no")) is ErrorCode.UNKNOWN_MEMBER_ID
