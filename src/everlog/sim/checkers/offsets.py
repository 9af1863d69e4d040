"""C1 and C2: one value at an offset, and one offset for a value."""

from collections import defaultdict
from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation


def check(versions: Versions) -> Iterator[Violation]:
    """Compare what all acknowledgements and all polls say of where values lie."""
    for partition, by_offset in versions.values.items():
        places: defaultdict[str, list[int]] = defaultdict(list)
        for offset, values in by_offset.items():
            if len(values) > 1:
                told = "; ".join(f"{value!r} by {operation}" for value, operation in values.items())
                yield Violation("C1", f"{partition} has different values at offset {offset}: {told}")
            for value in values:
                places[value].append(offset)
        if not versions.promises.idempotent:
            continue
        for value, offsets in places.items():
            if len(offsets) > 1:
                yield Violation("C2", f"{partition} has {value!r} at offsets {sorted(offsets)}")
