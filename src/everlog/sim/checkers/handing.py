"""C23: what a group has committed was handed to one of its members before."""

from collections import defaultdict
from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Kind, Outcome


def check(versions: Versions) -> Iterator[Violation]:
    """Look for records behind which a group went on, though no member was ever given them."""
    groups = versions.promises.at_least_once
    handed: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    committed: dict[tuple[str, str], int] = {}
    for operation in versions.operations:
        if operation.membership is None or operation.membership.group not in groups:
            continue
        group = operation.membership.group
        for polled in operation.polls:
            handed[group, polled.partition].add(polled.offset)
        if operation.kind is Kind.COMMITTED and operation.final and operation.outcome is Outcome.OK:
            committed |= {(group, partition): offset for partition, offset in operation.offsets.items()}
    for (group, partition), end in committed.items():
        for polled in versions.final_polls.get(partition, ()):
            if polled.offset < end and polled.offset not in handed[group, partition]:
                message = f"{group} is at {end} of {partition}, no member was given offset {polled.offset}"
                yield Violation("C23", message)
