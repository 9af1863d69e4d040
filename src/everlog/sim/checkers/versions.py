"""What a history says about each partition: which value lies where, who wrote it, who has read it."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from everlog.sim.history import History, Operation, Outcome, Polled, Sent

Place = tuple[str, str]
"""A partition and a value: values are unique within a partition."""


class Versions:
    """A history with the indexes that the checkers share."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.operations = history.operations
        self.promises = history.promises
        self.writers: dict[Place, Operation] = {}
        """Who was to write a value."""
        self.sent: dict[Place, Sent] = {}
        self.values: defaultdict[str, defaultdict[int, dict[str, Operation]]]
        """By partition and offset: the values that anyone said are there, each with who said so first."""
        self.values = defaultdict(lambda: defaultdict(dict))
        self.read: dict[Place, Operation] = {}
        """The values that somebody read, each with the first who did."""
        self.read_committed: dict[Place, Operation] = {}
        """The same for those who read only what is committed."""
        for operation in self.operations:
            self._index(operation)

    def _index(self, operation: Operation) -> None:
        for sent in operation.sends:
            place = (sent.partition, sent.value)
            assert place not in self.writers, f"{place} was sent twice, the workload is wrong: {operation}"
            self.writers[place] = operation
            self.sent[place] = sent
            if sent.offset is not None:
                self.values[sent.partition][sent.offset].setdefault(sent.value, operation)
        for polled in operation.polls:
            place = (polled.partition, polled.value)
            self.values[polled.partition][polled.offset].setdefault(polled.value, operation)
            self.read.setdefault(place, operation)
            if operation.read_committed:
                self.read_committed.setdefault(place, operation)

    @cached_property
    def final_partitions(self) -> frozenset[str]:
        """Partitions that were read from start to end after all was healed."""
        return frozenset(
            partition
            for operation in self.operations
            if operation.final and operation.outcome is Outcome.OK
            for partition in operation.partitions
        )

    @cached_property
    def final_polls(self) -> dict[str, list[Polled]]:
        """What the last final read of each partition found, in order."""
        found: dict[str, list[Polled]] = {}
        for operation in self.operations:
            if operation.final and operation.outcome is Outcome.OK:
                mine: dict[str, list[Polled]] = {partition: [] for partition in operation.partitions}
                for polled in operation.polls:
                    mine.setdefault(polled.partition, []).append(polled)
                found.update(mine)
        return found

    def visible(self, operation: Operation) -> bool:
        """Whether what it wrote counts: it was ok, or nobody knows and some of it was read."""
        if operation.outcome is not Outcome.INFO:
            return operation.outcome is Outcome.OK
        seen = self.read_committed if operation.transactional else self.read
        return any((sent.partition, sent.value) in seen for sent in operation.sends)

    @cached_property
    def _committed_indices(self) -> dict[str, dict[int, int]]:
        offsets: defaultdict[str, set[int]] = defaultdict(set)
        for operation in self.operations:
            if operation.read_committed:
                for polled in operation.polls:
                    offsets[polled.partition].add(polled.offset)
            if operation.sends and self.visible(operation):
                for sent in operation.sends:
                    if sent.offset is not None:
                        offsets[sent.partition].add(sent.offset)
        return {partition: _dense(found) for partition, found in offsets.items()}

    @cached_property
    def _all_indices(self) -> dict[str, dict[int, int]]:
        return {partition: _dense(set(found)) for partition, found in self.values.items()}

    def indices(self, partition: str, read_committed: bool) -> dict[int, int]:
        """Offsets to their places without holes, as seen by readers of an isolation level.

        Markers, aborted records and what nobody knows to be there leave holes in the offsets.
        """
        chosen = self._committed_indices if read_committed else self._all_indices
        return chosen.get(partition, {})

    def processes(self) -> Iterator[list[Operation]]:
        """The operations of each process, in the order in which it began them."""
        found: defaultdict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            found[operation.process].append(operation)
        for operations in found.values():
            operations.sort(key=lambda operation: operation.start)
            yield operations


def _dense(offsets: set[int]) -> dict[int, int]:
    return {offset: index for index, offset in enumerate(sorted(offsets))}
