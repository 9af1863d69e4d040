"""C7, C8 and C9: each reader and each writer goes through a partition in order, without a gap."""

from collections.abc import Iterator

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Kind, Operation, Outcome


def check(versions: Versions) -> Iterator[Violation]:
    """Walk through what each process read and wrote."""
    for operations in versions.processes():
        yield from _check_polls(versions, operations)
        yield from _check_sends(versions, operations)


def _check_polls(versions: Versions, operations: list[Operation]) -> Iterator[Violation]:
    reached: dict[str, int] = {}
    """The place of the value read last, by partition, since partitions were last chosen."""
    for operation in operations:
        if operation.kind in (Kind.ASSIGN, Kind.SUBSCRIBE) or operation.final:
            reached.clear()
        for partition in operation.rebalanced:
            reached.pop(partition, None)
        inside: set[str] = set()
        for polled in operation.polls:
            partition = polled.partition
            index = versions.indices(partition, operation.read_committed)[polled.offset]
            before = reached.get(partition)
            rule = "C7" if partition in inside else "C8"
            inside.add(partition)
            reached[partition] = index
            if before is None or partition in operation.rebalanced:
                continue
            if index > before + 1 and partition not in versions.promises.compacted:
                message = (
                    f"{index - before - 1} values of {partition} before offset {polled.offset}: {operation}"
                )
                yield Violation(f"{rule}a", f"a reader left out {message}")
            elif index <= before:
                message = f"to offset {polled.offset} of {partition}: {operation}"
                yield Violation(f"{rule}b", f"a reader went back {message}")
        if operation.final:
            reached.clear()


def _check_sends(versions: Versions, operations: list[Operation]) -> Iterator[Violation]:
    highest: dict[str, int] = {}
    for operation in operations:
        if operation.outcome is Outcome.FAIL:
            continue
        before = dict(highest)
        for sent in operation.sends:
            offset = sent.offset
            if offset is None:
                continue
            if offset <= before.get(sent.partition, -1):
                message = f"{sent.value!r} got offset {offset} of {sent.partition}"
                yield Violation("C9a", f"{message}, an earlier one {before[sent.partition]}: {operation}")
            elif offset <= highest.get(sent.partition, -1):
                message = f"{sent.value!r} got offset {offset} of {sent.partition}"
                yield Violation("C9b", f"{message}, one before it {highest[sent.partition]}: {operation}")
            highest[sent.partition] = max(offset, highest.get(sent.partition, -1))
