"""C12 and C13: a transaction is seen as a whole, and a pipeline of them handles each record exactly once."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Kind, Operation, Outcome, Pipeline


def check(versions: Versions) -> Iterator[Violation]:
    """Compare what the final reads found with what each transaction wrote and committed."""
    committed = _final_committed(versions)
    found = {
        (partition, polled.value) for partition, polls in versions.final_polls.items() for polled in polls
    }
    writers = _commit_counts(versions)
    for operation in versions.operations:
        if operation.transactional:
            yield from _check_writes(versions, operation, found)
            yield from _check_offsets(versions, operation, found, committed, writers)
    for pipeline in versions.promises.pipelines:
        if pipeline.group in committed:
            yield from _check_pipeline(versions, pipeline, committed[pipeline.group])


def _final_committed(versions: Versions) -> dict[str, dict[str, int]]:
    """By group and partition: what was committed when all was over."""
    committed: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for operation in versions.operations:
        final = operation.kind is Kind.COMMITTED and operation.final and operation.outcome is Outcome.OK
        if final and operation.membership is not None:
            committed[operation.membership.group].update(operation.offsets)
    return committed


def _commit_counts(versions: Versions) -> Counter[tuple[str, str, int]]:
    """How many operations may have committed an offset for a group and a partition."""
    return Counter(
        (operation.membership.group, partition, offset)
        for operation in versions.operations
        if operation.kind in (Kind.TXN, Kind.COMMIT) and operation.membership is not None
        for partition, offset in operation.offsets.items()
    )


def _checked(versions: Versions, operation: Operation) -> bool:
    partitions = {sent.partition for sent in operation.sends}
    return partitions <= versions.final_partitions and not partitions & set(versions.promises.compacted)


def _check_writes(
    versions: Versions, operation: Operation, found: set[tuple[str, str]]
) -> Iterator[Violation]:
    if not _checked(versions, operation):
        return
    missing = [sent for sent in operation.sends if (sent.partition, sent.value) not in found]
    if 0 < len(missing) < len(operation.sends):
        listed = ", ".join(f"{sent.value!r} in {sent.partition}" for sent in missing)
        total = len(operation.sends)
        message = f"{len(missing)} of {total} writes of a transaction are missing, {listed}: {operation}"
        yield Violation("C13", message)


def _check_offsets(
    versions: Versions,
    operation: Operation,
    found: set[tuple[str, str]],
    committed: dict[str, dict[str, int]],
    writers: Counter[tuple[str, str, int]],
) -> Iterator[Violation]:
    if operation.membership is None or not operation.sends or not _checked(versions, operation):
        return
    group = operation.membership.group
    if group not in committed:
        return
    seen = any((sent.partition, sent.value) in found for sent in operation.sends)
    for partition, offset in operation.offsets.items():
        final = committed[group].get(partition, -1)
        if seen and final < offset:
            message = (
                f"{group} is at {final} of {partition}, and the writes that go with {offset} are visible"
            )
            yield Violation("C13", f"{message}: {operation}")
        elif not seen and final == offset and writers[group, partition, offset] == 1:
            message = f"{group} is at {final} of {partition}, and the writes that go with it are not visible"
            yield Violation("C13", f"{message}: {operation}")


def _check_pipeline(versions: Versions, pipeline: Pipeline, committed: dict[str, int]) -> Iterator[Violation]:
    if not {*pipeline.sources, *pipeline.outputs} <= versions.final_partitions:
        return
    outputs = Counter(
        polled.source
        for partition in pipeline.outputs
        for polled in versions.final_polls[partition]
        if polled.source is not None
    )
    for partition in pipeline.sources:
        for polled in versions.final_polls[partition]:
            times = outputs.pop(f"{partition}@{polled.offset}", 0)
            expected = 1 if polled.offset < committed.get(partition, 0) else 0
            if times != expected:
                message = f"offset {polled.offset} of {partition} came out {times} times, expected {expected}"
                yield Violation("C12", f"{message} with {pipeline.group} at {committed.get(partition)}")
    for source, times in outputs.items():
        yield Violation("C12", f"{source} came out {times} times and is not among the sources")
