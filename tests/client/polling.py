"""Polling until what is expected has come, with a limit that a slow machine does not reach."""

import time
from collections.abc import Callable
from typing import Any

from everlog import Consumer, ConsumerRecord

PATIENCE_S = 60.0


def poll_values(consumer: Consumer, count: int) -> list[Any]:
    """The values of the next `count` records, or of all that the last poll brought."""
    return [record.value for record in poll_records(consumer, count)]


def poll_records(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """The next records, at least `count`."""
    found: list[ConsumerRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came in {PATIENCE_S} s"
        found += consumer.poll(0.2)
    return found


def poll_until(
    consumer: Consumer, condition: Callable[[], object], into: list[ConsumerRecord] | None = None
) -> list[ConsumerRecord]:
    """All records that come until a condition holds, added to a list if one is given."""
    found: list[ConsumerRecord] = [] if into is None else into
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about in {PATIENCE_S} s"
        found += consumer.poll(0.05)
    return found


def poll_nothing(consumer: Consumer, times: int = 3) -> None:
    """See that no record comes; a wait that shows something only where one could come at once."""
    for _ in range(times):
        assert consumer.poll(0.3) == []
