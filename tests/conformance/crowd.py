"""A group under test: its members, what they have read in all, and waiting until they agree."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.conformance.clients.face import Client
from tests.conformance.clients.sessions import Member, Partition, Terms
from tests.conformance.scenarios import How, Record


class Crowd:
    """The members of one group over one topic, and what was written for them to read."""

    def __init__(self, writer: Client, topic: str, partitions: int) -> None:
        self.members: list[Member] = []
        self.everyone: list[Member] = []
        """Those who left or died too."""
        self.written: list[str] = []
        self._writer = writer
        self._topic = topic
        self._partitions = partitions
        self._ends = [0] * partitions

    @property
    def topic(self) -> str:
        """The topic that all members read."""
        return self._topic

    def terms(self, **changes: Any) -> Terms:
        """The terms of a member of this group, with some of them changed."""
        return replace(Terms(group=f"g-{self._topic}", topics=(self._topic,)), **changes)

    @property
    def all_partitions(self) -> frozenset[Partition]:
        """What the group must share."""
        return frozenset((self._topic, number) for number in range(self._partitions))

    @property
    def ends(self) -> dict[Partition, int]:
        """The end offset of each partition."""
        return {(self._topic, number): end for number, end in enumerate(self._ends)}

    def add(self, member: Member) -> Member:
        """Count a member in."""
        self.members.append(member)
        self.everyone.append(member)
        return member

    def drop(self, member: Member) -> None:
        """Count a member out; what it has read still counts."""
        self.members.remove(member)

    def write(self, count: int) -> list[str]:
        """Write `count` records to each partition, every value new."""
        start = len(self.written)
        values = [f"{self._topic}/{start + number}" for number in range(count * self._partitions)]
        self._writer.produce(
            self._topic,
            [Record(number % self._partitions, None, value.encode()) for number, value in enumerate(values)],
            How(),
        )
        self._ends = [end + count for end in self._ends]
        self.written += values
        return values

    def look(self) -> None:
        """Ask each living member what it has seen."""
        for member in self.members:
            member.look()
            assert member.error is None, (member.name, member.error)

    def read(self) -> Counter[str]:
        """How often each value has been read, by anyone."""
        return Counter(seen.value for member in self.everyone for seen in member.records)

    def wait_shared(self, timeout_s: float = 80.0) -> float:
        """Wait until each partition has one owner and the shares are even; return how long that took."""
        began = time.monotonic()

        def shared() -> bool:
            self.look()
            sizes = [len(member.assignment) for member in self.members]
            owned = [partition for member in self.members for partition in member.assignment]
            return sorted(owned) == sorted(self.all_partitions) and max(sizes) - min(sizes) <= 1

        until(shared, timeout_s, lambda: [(m.name, sorted(m.assignment), m.events) for m in self.members])
        return time.monotonic() - began

    def wait_read(self, values: Sequence[str], timeout_s: float = 60.0) -> None:
        """Wait until all of these have been read."""

        def complete() -> bool:
            self.look()
            counts = self.read()
            return all(value in counts for value in values)

        until(complete, timeout_s, lambda: [value for value in values if value not in self.read()][:10])

    def write_in_quiet(self) -> None:
        """Write while nobody moves: all is read, and once."""
        values = self.write(5)
        self.wait_read(values)
        self.check_read_once(values)

    def write_while_moving(self) -> float:
        """Write while the group finds itself: all is read. Return how long the group took."""
        values = self.write(5)
        took = self.wait_shared()
        self.wait_read(values)
        return took

    def close(self) -> None:
        """Have all members leave."""
        for member in list(self.members):
            member.close()
            self.drop(member)

    def check_read_once(self, values: Sequence[str]) -> None:
        """Each of these was read once, each partition by one member, in the order of the log (L1, C2)."""
        counts = self.read()
        wrong = {value: counts[value] for value in values if counts[value] != 1}
        assert not wrong, wrong
        wanted = set(values)
        readers: dict[Partition, str] = {}
        for member in self.everyone:
            last: dict[Partition, int] = {}
            for seen in member.records:
                if seen.value in wanted:
                    where = (seen.topic, seen.partition)
                    assert readers.setdefault(where, member.name) == member.name, where
                    assert seen.offset > last.get(where, -1), (where, seen.offset, last[where])
                    last[where] = seen.offset


def until(holds: Callable[[], bool], timeout_s: float, tell: Callable[[], object]) -> None:
    """Poll until it holds; fail with what `tell` says."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not after {timeout_s} s: {tell()}"
        time.sleep(0.03)
