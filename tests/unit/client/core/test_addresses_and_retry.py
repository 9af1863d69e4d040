"""Where brokers are, which errors to try again, and how long to wait."""

import pytest

from everlog.client.core.addresses import parse_bootstrap
from everlog.client.core.errors import error_code, refusal
from everlog.client.core.retry import Backoff, Verdict, verdict
from everlog.model.errors import ConfigError, ErrorCode


def test_bootstrap_addresses_have_a_default_port_and_may_be_ipv6() -> None:
    assert parse_bootstrap("one, two:9093,[::1]:9094,[fe80::2]") == [
        ("one", 9092),
        ("two", 9093),
        ("::1", 9094),
        ("fe80::2", 9092),
    ]


@pytest.mark.parametrize(
    "text", ["", ",", ":9092", "host:x", "host:0", "host:70000", "[::1", "[::1]x", "a:b:c"]
)
def test_an_address_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        parse_bootstrap(text)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, Verdict.DONE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.REFRESH),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.REFRESH),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Verdict.REFRESH),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.REFRESH),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.REFRESH),
        (ErrorCode.CORRUPT_MESSAGE, Verdict.RETRY),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.FAIL),
        (ErrorCode.OFFSET_OUT_OF_RANGE, Verdict.FAIL),
    ],
)
def test_codes_are_sorted_by_what_a_client_can_do(code: ErrorCode, expected: Verdict) -> None:
    assert verdict(code) is expected


def test_a_code_of_the_future_is_an_unknown_server_error() -> None:
    assert error_code(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_refusal_names_the_thing_the_code_and_the_brokers_words() -> None:
    error = refusal(ErrorCode.INVALID_CONFIG, "no such key", "topic 'x'")

    assert str(error) == "topic 'x': INVALID_CONFIG: no such key"
    assert not error.retriable


def test_waits_double_up_to_a_bound_and_begin_again_after_a_success() -> None:
    backoff = Backoff(first_ms=50, most_ms=300)
    assert [backoff.next_wait_ms(1.0) for _ in range(5)] == [50, 100, 200, 300, 300]

    backoff.reset()
    assert backoff.next_wait_ms(0.0) == 25
