"""Which error proves that a request was not carried out."""

import pytest

from everlog.model.errors import ErrorCode
from everlog.sim.history import Outcome
from everlog.sim.outcomes import (
    DEFINITE_COMMIT_ERRORS,
    DEFINITE_END_TXN_ERRORS,
    DEFINITE_PRODUCE_ERRORS,
    outcome,
)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ],
)
def test_an_error_that_may_come_after_the_append_proves_nothing(code: ErrorCode) -> None:
    assert outcome(code, DEFINITE_PRODUCE_ERRORS) is Outcome.INFO


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    ],
)
def test_an_error_that_comes_before_the_append_proves_it_unless_there_was_an_earlier_attempt(
    code: ErrorCode,
) -> None:
    assert outcome(code, DEFINITE_PRODUCE_ERRORS) is Outcome.FAIL
    assert outcome(code, DEFINITE_PRODUCE_ERRORS, attempts=2) is Outcome.INFO


def test_success_is_success_however_often_it_was_tried() -> None:
    assert outcome(0, DEFINITE_PRODUCE_ERRORS, attempts=3) is Outcome.OK


def test_an_error_code_that_is_not_known_proves_nothing() -> None:
    for table in (DEFINITE_PRODUCE_ERRORS, DEFINITE_COMMIT_ERRORS, DEFINITE_END_TXN_ERRORS):
        assert ErrorCode.NONE not in table
        assert outcome(999, table) is Outcome.INFO


def test_an_end_that_may_be_under_way_is_not_refused_for_certain() -> None:
    assert outcome(ErrorCode.CONCURRENT_TRANSACTIONS, DEFINITE_END_TXN_ERRORS) is Outcome.INFO
    assert outcome(ErrorCode.INVALID_TXN_STATE, DEFINITE_END_TXN_ERRORS) is Outcome.FAIL
