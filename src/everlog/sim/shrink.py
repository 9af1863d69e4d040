"""Makes a run that fails smaller: fewer strikes, fewer clients, less time, better weather, the same failure.

Every part of a run has a chance of its own, so that what is left does just what it did before, until the
first moment at which it misses what was taken away.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from everlog.sim.cluster_plan import ClusterPlan
from everlog.sim.cluster_world import ClusterResult
from everlog.sim.network import Weather

Item = TypeVar("Item")
_SIGNATURE_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest plan that was found, and how many runs that took."""

    plan: ClusterPlan
    signature: str
    runs: int


def signature(found: ClusterResult | Exception) -> str:
    """What kind of failure it is, without the numbers of the case; empty if there was none."""
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {_without_numbers(str(found))}"
    if found.violations:
        return ", ".join(sorted({violation.invariant for violation in found.violations}))
    return _without_numbers(found.problems[0].partition(": ")[2]) if found.problems else ""


def _without_numbers(text: str) -> str:
    return re.sub(r"[0-9]+", "N", text.split("\n")[0])[:_SIGNATURE_LENGTH]


def ddmin(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A part of the items with which it still fails, and without any one of which it does not (Zeller)."""
    left = list(items)
    if not left or fails([]):
        return []
    parts = 2
    while len(left) >= 2:
        size = -(-len(left) // parts)
        for start in range(0, len(left), size):
            rest = left[:start] + left[start + size :]
            if fails(rest):
                left, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(left):
                break
            parts = min(parts * 2, len(left))
    return left


def shrink(
    plan: ClusterPlan,
    run: Callable[[ClusterPlan], ClusterResult | Exception],
    clients: Sequence[str],
    most_runs: int = 200,
) -> Shrunk:
    """The smallest plan that fails as this one does, as far as `most_runs` runs can tell."""
    wanted = signature(run(plan))
    assert wanted, "a plan that does not fail cannot be made smaller"
    runs = 1
    smallest = plan

    def fails(candidate: ClusterPlan) -> bool:
        nonlocal runs, smallest
        if runs >= most_runs:
            return False
        runs += 1
        if signature(run(candidate)) != wanted:
            return False
        smallest = candidate
        return True

    ddmin(plan.strikes, lambda strikes: fails(replace(smallest, strikes=tuple(strikes))))
    present = [name for name in clients if name not in smallest.clients.absent]
    ddmin(present, lambda names: fails(_with_clients(smallest, frozenset(clients) - set(names))))
    for calmer in (Weather(), replace(smallest.clients.weather, cut_percent=0)):
        if smallest.clients.weather != calmer and fails(
            replace(smallest, clients=replace(smallest.clients, weather=calmer))
        ):
            break
    step = smallest.clients.load_ms // 2
    while step >= 50:
        shorter = replace(smallest.clients, load_ms=smallest.clients.load_ms - step)
        if shorter.load_ms <= 0 or not fails(replace(smallest, clients=shorter)):
            step //= 2
    return Shrunk(smallest, wanted, runs)


def _with_clients(plan: ClusterPlan, absent: frozenset[str]) -> ClusterPlan:
    return replace(plan, clients=replace(plan.clients, absent=absent))
