"""C5, C6, C11 and C14: readers see what was written, all of it decided, and nothing beyond the end."""

from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Bounds, Operation, Outcome, Polled


def check(versions: Versions) -> Iterator[Violation]:
    """Compare each value read with the operation that wrote it, and with how far could be read."""
    for operation in versions.operations:
        own = {(sent.partition, sent.value) for sent in operation.sends}
        limits = {bounds.partition: bounds for bounds in operation.bounds}
        for polled in operation.polls:
            yield from _check_writer(versions, operation, polled)
            if operation.read_committed and (polled.partition, polled.value) in own:
                yield Violation("C6", f"a transaction read its own {polled.value!r}: {operation}")
            if polled.partition in limits:
                yield from _check_limit(operation, polled, limits[polled.partition])
    yield from _check_monotonic(versions)


def _check_writer(versions: Versions, reader: Operation, polled: Polled) -> Iterator[Violation]:
    where = f"{polled.partition} at offset {polled.offset}"
    writer = versions.writers.get((polled.partition, polled.value))
    if writer is None:
        yield Violation("C11", f"{polled.value!r} was read from {where} and never sent: {reader}")
        return
    sent = versions.sent[polled.partition, polled.value]
    for what, written, found in (
        ("key", sent.key, polled.key),
        ("timestamp", sent.timestamp, polled.timestamp),
        ("digest", sent.digest, polled.digest),
    ):
        if written is not None and found is not None and written != found:
            message = f"{where} has {polled.value!r} with {what} {found!r}, sent was {written!r}: {reader}"
            yield Violation("C11", message)
    # Aborted records are there for those who read uncommitted; what was refused is there for nobody.
    hidden = reader.read_committed or not writer.transactional
    if writer.outcome is Outcome.FAIL and hidden:
        yield Violation("C5", f"{polled.value!r} was read from {where} by {reader}, its writer is {writer}")


def _check_limit(operation: Operation, polled: Polled, bounds: Bounds) -> Iterator[Violation]:
    committed = operation.read_committed
    limit = bounds.last_stable_offset if committed else bounds.high_watermark
    if polled.offset >= limit:
        name = "last stable offset" if committed else "high watermark"
        message = f"{polled.partition} gave offset {polled.offset} with its {name} at {limit}: {operation}"
        yield Violation("C14", message)


def _check_monotonic(versions: Versions) -> Iterator[Violation]:
    for operations in versions.processes():
        known: dict[tuple[str, int], Bounds] = {}
        for operation in operations:
            for bounds in operation.bounds:
                of = (bounds.partition, bounds.leader_epoch)
                before = known.get(of, bounds)
                known[of] = bounds
                for name, old, new in (
                    ("high watermark", before.high_watermark, bounds.high_watermark),
                    ("last stable offset", before.last_stable_offset, bounds.last_stable_offset),
                ):
                    if new < old:
                        message = f"the {name} of {bounds.partition} fell from {old} to {new}: {operation}"
                        yield Violation("C14", message)
