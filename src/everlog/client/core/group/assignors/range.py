"""The range assignor: each topic's partitions in runs, one for each subscriber, in its rack if that can be.

Members with the same subscriptions get the same partitions of all topics that have equally many, so that
records with the same key meet in one member. Racks count where members say theirs and not every partition
has a replica in each (KIP-881).
"""

from collections.abc import Callable, Mapping, Sequence

from everlog.client.core.group.assignors import EAGER_ONLY, AssignedMember, Layout, in_order
from everlog.model.topics import TopicPartition

Shares = dict[str, list[TopicPartition]]


class RangeAssignor:
    """`range`, the first of Kafka's default assignors."""

    name = "range"
    protocols = EAGER_ONLY

    def assign(self, members: Mapping[str, AssignedMember], topics: Layout) -> Shares:
        """Cut each topic into runs whose lengths differ by one at most; the first ones are the longer."""
        shares: Shares = {member_id: [] for member_id in members}
        order = in_order(members)
        ranges = [
            _Ranges(
                name,
                racks,
                {reader: members[reader].rack for reader in order if name in members[reader].topics},
            )
            for name, racks in sorted(topics.items())
            if racks and any(name in member.topics for member in members.values())
        ]
        if any(each.racks_matter for each in ranges):
            _match_racks(ranges, shares)
        for each in ranges:
            each.give_runs(shares, lambda _reader, _partition: True)
        for share in shares.values():
            share.sort()
        return shares


class _Ranges:
    """One topic on its way to its readers."""

    def __init__(self, name: str, racks: Sequence[frozenset[str]], readers: Mapping[str, str | None]) -> None:
        self.racks = racks
        self.readers = readers
        self._name = name
        self._left = list(range(len(racks)))
        self._taken = dict.fromkeys(readers, 0)
        self._least, self._longer = divmod(len(racks), len(readers))
        reader_racks = {rack for rack in readers.values() if rack is not None}
        all_racks = frozenset[str]().union(*racks)
        # Where every partition is in every rack a match says nothing.
        self.racks_matter = not all_racks.isdisjoint(reader_racks) and any(
            each != all_racks for each in racks
        )

    def room(self, reader: str) -> int:
        """How many more partitions a reader may get."""
        return max(0, self._least + (self._longer > 0) - self._taken[reader])

    def matches(self, reader: str, partition: int) -> bool:
        """Whether a partition has a replica in a reader's rack; one that has no rack is content with any."""
        rack = self.readers[reader]
        return rack is None or rack in self.racks[partition]

    def give(self, reader: str, partitions: Sequence[int], shares: Shares) -> None:
        """Give partitions away, which there must be room for."""
        shares[reader] += [TopicPartition(self._name, partition) for partition in partitions]
        self._left = [partition for partition in self._left if partition not in partitions]
        self._taken[reader] += len(partitions)
        self._longer -= self._taken[reader] > self._least

    def give_runs(self, shares: Shares, allowed: Callable[[str, int], bool]) -> None:
        """Give each reader in turn the first of what is left and allowed."""
        for reader in self.readers:
            fitting = [partition for partition in self._left if allowed(reader, partition)]
            run = fitting[: self.room(reader)]
            if run:
                self.give(reader, run, shares)


def _match_racks(ranges: Sequence[_Ranges], shares: Shares) -> None:
    """Give away what readers have in their own rack; topics that belong together stay together."""
    together: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_Ranges]] = {}
    for each in ranges:
        together.setdefault((tuple(each.readers.items()), len(each.racks)), []).append(each)
    for (readers, count), alike in together.items():
        if len(alike) > 1:
            _match_together([reader for reader, _ in readers], count, alike, shares)
        elif alike[0].racks_matter:
            alike[0].give_runs(shares, alike[0].matches)


def _match_together(readers: Sequence[str], count: int, alike: Sequence[_Ranges], shares: Shares) -> None:
    for partition in range(count):
        for reader in readers:
            if all(each.room(reader) > 0 and each.matches(reader, partition) for each in alike):
                for each in alike:
                    each.give(reader, [partition], shares)
                break
