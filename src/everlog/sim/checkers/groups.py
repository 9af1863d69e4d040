"""C15, C16, C17: offsets and generations of groups go forward, partitions have one owner at a time."""

from collections import defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import combinations

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Kind, Membership, Operation, Outcome

_WRITES = (Kind.COMMIT, Kind.TXN)


def check(versions: Versions) -> Iterator[Violation]:
    """Look at commits in the order of real time, and at what members held."""
    commits: defaultdict[tuple[str, str], list[Operation]] = defaultdict(list)
    for operation in versions.operations:
        if operation.membership is not None and operation.outcome is not Outcome.FAIL:
            for partition in operation.offsets:
                commits[operation.membership.group, partition].append(operation)
    ends = _final_ends(versions)
    for (group, partition), operations in commits.items():
        yield from _check_forward(group, partition, operations)
        yield from _check_ends(group, partition, operations, ends.get(partition))
    yield from _check_generations(versions)
    yield from _check_owners(versions)


def _check_forward(group: str, partition: str, operations: list[Operation]) -> Iterator[Violation]:
    floor = -1
    # What was lost on the way may arrive at any time later, and then the group goes on from there.
    unknown: set[int] = set()
    ended: list[tuple[int, int, int, bool]] = []
    """Operations under way, the one that ends first in front: end, number, offset, whether it may go back."""
    for number, operation in enumerate(sorted(operations, key=lambda each: each.start)):
        while ended and ended[0][0] < operation.start:
            _, _, offset, reset = heappop(ended)
            floor = offset if reset else max(floor, offset)
        offset = operation.offsets[partition]
        if operation.outcome is Outcome.INFO:
            unknown.add(offset)
            continue
        if offset in unknown or operation.reset:
            floor = min(floor, offset)
        elif offset < floor:
            what = "committed" if operation.kind in _WRITES else "was told"
            yield Violation("C15", f"{group} {what} {offset} of {partition} after {floor}: {operation}")
        if operation.repeated:
            unknown.add(offset)
        if operation.end is not None:
            heappush(ended, (operation.end, number, offset, operation.reset))


def _final_ends(versions: Versions) -> dict[str, int]:
    return {
        bounds.partition: bounds.high_watermark
        for operation in versions.operations
        if operation.final and operation.outcome is Outcome.OK
        for bounds in operation.bounds
    }


def _check_ends(
    group: str, partition: str, operations: list[Operation], end: int | None
) -> Iterator[Violation]:
    if end is None:
        return
    for operation in operations:
        offset = operation.offsets[partition]
        if offset > end and operation.outcome is Outcome.OK:
            yield Violation("C15", f"{group} is at {offset} of {partition}, which ends at {end}: {operation}")


def _check_generations(versions: Versions) -> Iterator[Violation]:
    begun: defaultdict[str, list[Operation]] = defaultdict(list)
    commits: defaultdict[str, list[tuple[Operation, int]]] = defaultdict(list)
    faults: list[Operation] = []
    for operation in versions.operations:
        if operation.kind is Kind.FAULT:
            faults.append(operation)
        membership = operation.membership
        if membership is None or operation.outcome is not Outcome.OK or membership.generation < 0:
            continue
        if operation.kind in (Kind.GATHER, Kind.JOIN):
            begun[membership.fenced_by].append(operation)
        elif operation.kind in _WRITES and operation.offsets:
            commits[membership.fenced_by].append((operation, membership.generation))
    for fenced_by, operations in begun.items():
        yield from _check_generations_grow(fenced_by, operations)
    for fenced_by, found in commits.items():
        newest = _Newest(begun[fenced_by], faults)
        for commit, generation in sorted(found, key=lambda each: each[0].start):
            if generation < (least := newest.at(commit.start)):
                message = f"generation {generation} of {fenced_by} committed after generation {least} began"
                yield Violation("C15", f"{message}: {commit}")


def _check_generations_grow(fenced_by: str, begun: list[Operation]) -> Iterator[Violation]:
    """A classic group counts on, whoever coordinates it: what was shared out once is not given again."""
    joins = [
        each
        for each in begun
        if each.kind is Kind.JOIN and each.membership is not None and each.membership.protocol == "classic"
    ]
    ended = sorted(joins, key=lambda each: each.end or 0, reverse=True)
    newest = -1
    for join in sorted(joins, key=lambda each: each.start):
        while ended and (ended[-1].end or 0) < join.start:
            newest = max(newest, _generation(ended.pop()))
        if _generation(join) < newest:
            message = f"generation {_generation(join)} of {fenced_by} was joined after generation {newest}"
            yield Violation("C17", f"{message}: {join}")


class _Newest:
    """Which generation is the newest that has begun, asked for ever later times.

    One that is not shared out yet is in the coordinator's memory only: if the broker stops, its number is
    given once more. So it counts until the next fault, even if its answer came after that.
    """

    def __init__(self, begun: list[Operation], faults: list[Operation]) -> None:
        self._waiting = sorted(begun, key=lambda each: each.end or 0, reverse=True)
        self._faults = sorted(faults, key=lambda each: each.start, reverse=True)
        self._healed_at = -1
        self._kept = -1
        self._gathered: list[Operation] = []

    def at(self, time: int) -> int:
        """The newest of those that began before; -1 if none did."""
        while self._faults and self._faults[-1].start <= time:
            fault = self._faults.pop()
            self._healed_at = max(self._healed_at, time if fault.end is None else fault.end)
        while self._waiting and self._waiting[-1].end is not None and self._waiting[-1].end < time:
            began = self._waiting.pop()
            if began.kind is Kind.JOIN:
                self._kept = max(self._kept, _generation(began))
            else:
                self._gathered.append(began)
        self._gathered = [each for each in self._gathered if each.start > self._healed_at]
        return max([self._kept, *map(_generation, self._gathered)])


def _generation(began: Operation) -> int:
    return -1 if began.membership is None else began.membership.generation


def _check_owners(versions: Versions) -> Iterator[Violation]:
    owned: defaultdict[tuple[str, str], list[tuple[Membership, Operation]]] = defaultdict(list)
    for operation in versions.operations:
        if operation.kind is Kind.OWN and operation.membership is not None:
            for partition in operation.partitions:
                owned[operation.membership.group, partition].append((operation.membership, operation))
    for (group, partition), owners in owned.items():
        owners.sort(key=lambda each: each[1].start)
        yield from _check_generation_owners(group, partition, owners)
        yield from _check_overlaps(group, partition, owners)


def _check_generation_owners(
    group: str, partition: str, owners: list[tuple[Membership, Operation]]
) -> Iterator[Violation]:
    by_generation: dict[int, tuple[Membership, Operation]] = {}
    for membership, operation in owners:
        other, before = by_generation.setdefault(membership.generation, (membership, operation))
        if other.member != membership.member:
            message = f"{partition} belongs to two members of {group} in generation {membership.generation}"
            yield Violation("C16", f"{message}: {before}; {operation}")


def _check_overlaps(
    group: str, partition: str, owners: list[tuple[Membership, Operation]]
) -> Iterator[Violation]:
    # Who lost a partition without knowing when may think for a while that it is still the owner.
    certain = [each for each in owners if each[1].outcome is Outcome.OK and each[1].end is not None]
    running: list[tuple[Membership, Operation]] = []
    for membership, operation in certain:
        running = [each for each in running if (each[1].end or 0) > operation.start]
        running.append((membership, operation))
        for (one, first), (other, second) in combinations(running, 2):
            if second is operation and one.member != other.member and one.generation != other.generation:
                message = f"{partition} had two owners in {group} at once"
                yield Violation("C16", f"{message}: {first}; {second}")
