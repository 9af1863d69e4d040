"""C18: an offset asked for by time is the first one that is not older.

Only for partitions without transactions: aborted records have timestamps too, and no final read shows them.
"""

from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Kind, Lookup, Operation, Outcome, Polled


def check(versions: Versions) -> Iterator[Violation]:
    """Search the final logs in the plainest way for what was looked up."""
    for operation in versions.operations:
        if operation.kind is not Kind.LOOKUP or operation.outcome is not Outcome.OK:
            continue
        for lookup in operation.lookups:
            if lookup.partition in versions.final_partitions:
                yield from _check_one(versions, operation, lookup)


def _check_one(versions: Versions, operation: Operation, lookup: Lookup) -> Iterator[Violation]:
    late_enough = [
        polled
        for polled in versions.final_polls[lookup.partition]
        if polled.timestamp is not None and polled.timestamp >= lookup.timestamp
    ]
    what = f"{lookup.partition} answered {lookup.offset} for time {lookup.timestamp}"
    first = next((each for each in late_enough if _was_there(versions, operation, each)), None)
    if lookup.offset < 0:
        if first is not None:
            yield Violation("C18", f"{what}, offset {first.offset} has {first.timestamp}: {operation}")
        return
    if all(polled.offset != lookup.offset for polled in late_enough):
        yield Violation("C18", f"{what}, which is older or not there: {operation}")
    elif first is not None and first.offset < lookup.offset:
        yield Violation("C18", f"{what}, offset {first.offset} has {first.timestamp}: {operation}")


def _was_there(versions: Versions, operation: Operation, polled: Polled) -> bool:
    """Whether a record was acknowledged before the question was asked."""
    writer = versions.writers.get((polled.partition, polled.value))
    known = writer is not None and writer.outcome is Outcome.OK and writer.end is not None
    return operation.final or (known and writer is not None and (writer.end or 0) < operation.start)
