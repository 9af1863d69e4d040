"""C22: somebody gets something done as long as nothing is broken."""

from collections.abc import Iterator
from itertools import pairwise

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Kind, Outcome


def check(versions: Versions) -> Iterator[Violation]:
    """Look for a time without success, counted from the end of whatever was broken in it."""
    longest_ms = versions.promises.longest_silence_ms
    if longest_ms is None:
        return
    longest = longest_ms * versions.promises.ticks_per_ms
    faults: list[tuple[int, int]] = []
    successes: list[int] = []
    for operation in versions.operations:
        if operation.end is None:
            continue
        if operation.kind is Kind.FAULT:
            faults.append((operation.start, operation.end))
        elif operation.outcome is Outcome.OK:
            successes.append(operation.end)
    successes.sort()
    for before, after in pairwise(successes):
        if after - before <= longest:
            continue
        healed = max((end for start, end in faults if start < after and end > before), default=before)
        if after - healed > longest:
            message = f"nothing succeeded from {healed} to {after}, {longest_ms} ms are allowed"
            yield Violation("C22", message)
