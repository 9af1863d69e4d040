"""Assignors by name, and the ways of rebalancing that several of them share."""

from collections.abc import Sequence
from typing import cast

from everlog.client.core.group.assignors import Assignor, RebalanceProtocol
from everlog.client.core.group.assignors.range import RangeAssignor
from everlog.client.core.group.assignors.round_robin import RoundRobinAssignor
from everlog.client.core.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from everlog.client.core.setting_checks import wrong

ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}

_SETTING = "partition_assignment_strategy"


def read_assignors(given: Sequence[object]) -> list[Assignor]:
    """The assignors that a setting names or holds; ConfigError if one is none, or they do not go together."""
    chosen: list[Assignor] = []
    for entry in given:
        known = ASSIGNORS.get(entry) if isinstance(entry, str) else entry
        if known is None or not all(hasattr(known, name) for name in ("name", "protocols", "assign")):
            raise wrong(
                _SETTING, entry, f"one of {', '.join(ASSIGNORS)}, or an object with name, protocols, assign"
            )
        chosen.append(cast("Assignor", known))
    if len({assignor.name for assignor in chosen}) < len(chosen) or not chosen:
        raise wrong(_SETTING, tuple(given), "one or more assignors with names of their own")
    common_protocol(chosen)
    return chosen


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The best way of rebalancing that all of them support.

    So a group moves from `range` to `cooperative-sticky` in two rounds of restarts: first with both, which
    is eager, then with the latter alone (KIP-429).
    """
    for protocol in (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER):
        if all(protocol in assignor.protocols for assignor in assignors):
            return protocol
    names = tuple(assignor.name for assignor in assignors)
    raise wrong(_SETTING, names, "assignors that have a way of rebalancing in common")
