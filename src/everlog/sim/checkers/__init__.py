"""What must be true of every history, whoever recorded it: rows C1 to C23 of the list of invariants.

Each module looks at one family and returns the violations it found; nothing here knows a broker, a client
or a simulator, only `everlog.sim.history`. Simulated worlds, tests of real processes and the command line
call `check`. What is reported is certain: an operation of unknown outcome speaks for and against nobody.
"""

from collections.abc import Callable, Iterable

from everlog.sim.checkers import (
    atomicity,
    availability,
    compaction,
    cycles,
    fencing,
    groups,
    handing,
    lookups,
    loss,
    money,
    offsets,
    order,
    visibility,
)
from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import History

__all__ = ["Versions", "Violation", "check", "summary"]

_FAMILIES: tuple[Callable[[Versions], Iterable[Violation]], ...] = (
    offsets.check,
    loss.check,
    visibility.check,
    order.check,
    cycles.check,
    atomicity.check,
    groups.check,
    handing.check,
    fencing.check,
    lookups.check,
    compaction.check,
    money.check,
    availability.check,
)


def check(history: History) -> list[Violation]:
    """Everything that is wrong with a history, by invariant; empty if it is sound."""
    versions = Versions(history)
    found = [violation for family in _FAMILIES for violation in family(versions)]
    return sorted(
        found, key=lambda violation: (int(violation.invariant[1:].rstrip("ab")), violation.invariant)
    )


def summary(violations: Iterable[Violation], most: int = 3) -> str:
    """The violations as text: how many of each invariant, and the first few in full."""
    grouped: dict[str, list[Violation]] = {}
    for violation in violations:
        grouped.setdefault(violation.invariant, []).append(violation)
    lines: list[str] = []
    for invariant, found in grouped.items():
        lines.append(f"{invariant} {found[0].name}: {len(found)}")
        lines += [f"  {violation.message}" for violation in found[:most]]
    return "\n".join(lines) or "no violations"
