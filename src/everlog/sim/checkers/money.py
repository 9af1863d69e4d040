"""C21: transfers move money, and neither make nor lose any."""

from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Kind, Outcome


def check(versions: Versions) -> Iterator[Violation]:
    """Add up every set of balances that one reader saw at one place of the log."""
    total = versions.promises.total
    if total is None:
        return
    for operation in versions.operations:
        if operation.kind is not Kind.BALANCES or operation.outcome is not Outcome.OK:
            continue
        found = sum(operation.amounts.values())
        if found != total:
            accounts = dict(sorted(operation.amounts.items()))
            yield Violation("C21", f"the balances come to {found}, not {total}: {accounts}: {operation}")
