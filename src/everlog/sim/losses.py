"""What a power failure was allowed to take, left out of a history before it is checked.

Readers see records before they are durable, as in Kafka. After a power failure those records are gone and
their offsets are given to others, which no checker would accept. What was acknowledged is only left out
where acknowledgements did not wait for the disk.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from everlog.sim.history import History, Operation, Outcome


@dataclass(frozen=True, slots=True)
class PowerFailure:
    """When it happened, in the history's time, and where each log ended after it."""

    at: int
    ends: Mapping[str, int]


def forgive(history: History, failures: Iterable[PowerFailure], *, acknowledged: bool) -> History:
    """The history without what the failures took: reads of it, and if told so acknowledgements too."""
    operations = history.operations
    for failure in failures:
        operations = tuple(_without(operation, failure, acknowledged) for operation in operations)
    return History(operations, history.promises)


def _without(operation: Operation, failure: PowerFailure, acknowledged: bool) -> Operation:
    ends = failure.ends
    if operation.start > failure.at:
        return operation
    polls = operation.polls
    if operation.end is not None and operation.end <= failure.at:
        polls = tuple(polled for polled in polls if polled.offset < ends.get(polled.partition, 0))
    lost = any(
        sent.offset is not None and sent.offset >= ends.get(sent.partition, 0) for sent in operation.sends
    )
    if not lost or (operation.outcome is Outcome.OK and not acknowledged):
        return replace(operation, polls=polls)
    sends = tuple(replace(sent, offset=None) for sent in operation.sends)
    return replace(operation, polls=polls, sends=sends, outcome=Outcome.INFO, end=None)
