"""C17: nothing succeeds under an epoch that is known to be over."""

from collections import defaultdict
from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Operation, Outcome


def check(versions: Versions) -> Iterator[Violation]:
    """Hold each success against the epochs of what had succeeded before it began."""
    claims: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in versions.operations:
        if operation.outcome is Outcome.OK and operation.end is not None:
            for entity in operation.epochs:
                claims[entity].append(operation)
    for entity, operations in claims.items():
        ended = sorted(operations, key=lambda operation: operation.end or 0, reverse=True)
        newest = -1
        for operation in sorted(operations, key=lambda operation: operation.start):
            while ended and (ended[-1].end or 0) < operation.start:
                newest = max(newest, ended.pop().epochs[entity])
            if operation.epochs[entity] < newest:
                message = f"epoch {operation.epochs[entity]} of {entity} was accepted after {newest}"
                yield Violation("C17", f"{message}: {operation}")
