"""Lookups by time that wait until enough is known of old segments, which is found out a little at a time.

A lookup has to know the largest timestamp of each segment before the one that it finds. What this process
has sealed is known; of a segment that it found on disk three files are opened, once, and a log may have ten
thousand.
"""

from collections.abc import Callable
from functools import partial

from everlog.broker.slices import Slices
from everlog.log.partition import PartitionLog
from everlog.model.errors import EverlogError
from everlog.model.ids import Timestamp

Wanted = tuple[PartitionLog, Timestamp | None]
"""What is to be found in which log: a moment, or for None the largest timestamp."""


def when_known(slices: Slices, wanted: list[Wanted], then: Callable[[], None]) -> None:
    """Call `then` once these lookups need look at no more segments; at once if that is so now."""
    slices.run(partial(_learn, wanted), then)


def _learn(left: list[Wanted], enough: Callable[[], bool]) -> bool:
    """Find out more, until `enough`; returns whether all is known."""
    while left:
        log, timestamp = left[-1]
        try:
            if not log.learn_times(timestamp, enough):
                return False
        except EverlogError:
            pass  # Whoever looks it up comes upon the same, and says so.
        left.pop()
    return True
