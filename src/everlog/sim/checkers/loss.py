"""C3 and C4: what was acknowledged is read by whoever reads that far, and by everyone in the end."""

from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Outcome


def check(versions: Versions) -> Iterator[Violation]:
    """Look for acknowledged values that nobody has read.

    Partitions that are compacted lose values by design; they are looked at in `compaction`.
    """
    compacted = versions.promises.compacted
    bounds = _bounds(versions)
    for operation in versions.operations:
        if not operation.sends or not versions.visible(operation):
            continue
        for sent in operation.sends:
            if sent.partition in compacted or (sent.partition, sent.value) in versions.read:
                continue
            if sent.offset is not None and sent.offset <= bounds.get(sent.partition, -1):
                yield Violation(
                    "C3",
                    f"{sent.value!r} was written to {sent.partition} at offset {sent.offset} and never read, "
                    f"though readers came to offset {bounds[sent.partition]}: {operation}",
                )
            elif operation.outcome is Outcome.OK and sent.partition in versions.final_partitions:
                yield Violation(
                    "C4", f"the final read of {sent.partition} did not find {sent.value!r}: {operation}"
                )


def _bounds(versions: Versions) -> dict[str, int]:
    """How far each partition was read: the highest offset, of the lowest one that each value was read at."""
    lowest: dict[tuple[str, str], int] = {}
    for operation in versions.operations:
        for polled in operation.polls:
            place = (polled.partition, polled.value)
            lowest[place] = min(polled.offset, lowest.get(place, polled.offset))
    bounds: dict[str, int] = {}
    for (partition, _), offset in lowest.items():
        bounds[partition] = max(offset, bounds.get(partition, -1))
    return bounds
