"""A broker of one's own is there before anybody waits for it; `python -m bench.fixture` has the figures."""

import pytest
from bench import fixture

pytestmark = pytest.mark.e2e

LIMIT_MS = 1_500.0
"""Ten times what it takes: a busy machine is let pass, a start that needs seconds is not."""
TRIES = 5


@pytest.mark.parametrize("kind", fixture.KINDS)
def test_a_broker_of_ones_own_answers_and_takes_a_record_in_much_less_than_seconds(kind: str) -> None:
    found: list[fixture.Ready] = []
    for _ in range(TRIES):
        found.append(fixture.measure(kind))
        if found[-1].ack_ms < LIMIT_MS and found[-1].answer_ms < fixture.LIMIT_MS:
            break
    assert min(one.ack_ms for one in found) < LIMIT_MS, found
    # What is promised of a quiet machine, so that one of the tries has to keep it.
    assert min(one.answer_ms for one in found) < fixture.LIMIT_MS, found
    assert all(0 < one.answer_ms < one.ack_ms for one in found), found
